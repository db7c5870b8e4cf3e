"""A text that is the same in every process for the same static arguments, or none.

An executable is kept on disk under such a text, so two different programs must never share a text. Values are described
by type and content, classes and functions by the name under which their module holds them. Code outside the packages
whose versions and sources are part of the key (a user's model, a lambda) has no text, because it could change without
notice.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np

# The versions (or the sources) of these packages are part of every key.
_KNOWN = {"temperance", "jax", "jaxlib", "equinox", "numpy", "builtins", "functools", "types", "collections"}
_WRAPPED = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")
_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis))


class NoIdentity(Exception):
    """The value has no text that another process could rely on."""


def describe(value: Any, arrays: Sequence[Any] = ()) -> str:
    """The text of a tree of arguments, in which `arrays` (all its leaves that are traced) are written as numbers."""
    slots: dict[int, list[int]] = {}
    for index, array in enumerate(arrays):
        slots.setdefault(id(array), []).append(index)
    text = _text(value, slots)
    if slots:  # the walk must meet every leaf, else it missed something that JAX sees
        raise NoIdentity("a pytree whose leaves are not its fields")
    return text


def _text(value: Any, slots: dict[int, list[int]]) -> str:
    kind = type(value)
    if id(value) in slots:
        here = slots[id(value)]
        index = here.pop(0)
        if not here:
            del slots[id(value)]
        return f"#{index}"
    if kind in _PLAIN:
        return f"{kind.__name__}:{value!r}"
    if kind in (float, complex):
        return f"{kind.__name__}:{float(value.real).hex()},{float(value.imag).hex()}"
    if isinstance(value, np.dtype):
        return f"dtype:{value.str}"
    if isinstance(value, enum.Enum):
        return f"{name_of(kind)}.{value.name}"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return name_of(value)
    if isinstance(value, types.MethodType):
        return f"method({_text(value.__self__, slots)}.{value.__name__})"
    return f"{name_of(kind)}({', '.join(_parts(value, slots))})"


def _parts(value: Any, slots: dict[int, list[int]]) -> list[str]:
    """The texts of the items of a container."""
    if isinstance(value, tuple | list):
        return [_text(item, slots) for item in value]
    if isinstance(value, frozenset | set):
        return sorted(_text(item, slots) for item in value)
    if isinstance(value, Mapping):
        # JAX sorts the keys of a dict, and a function may depend on their order: both orders are kept apart.
        return [f"{_text(key, slots)}: {_text(item, slots)}" for key, item in value.items()]
    if isinstance(value, functools.partial | eqx.Partial):
        return [_text(part, slots) for part in (value.func, value.args, value.keywords)]
    if dataclasses.is_dataclass(value):
        return _fields(value, slots)
    raise NoIdentity(f"a value of type {type(value).__qualname__}")


def _fields(value: Any, slots: dict[int, list[int]]) -> list[str]:
    names = [field.name for field in dataclasses.fields(value)]
    stored = vars(value)
    more = [name for name in stored if name not in names and not _follows(type(value), name, stored[name])]
    if more:
        raise NoIdentity(f"{type(value).__qualname__} with attributes that are no fields: {', '.join(more)}")
    return [f"{name}={_text(stored[name], slots)}" for name in names if name in stored]


def _follows(kind: type, name: str, value: Any) -> bool:
    """Whether an attribute follows from the fields: a cache, or Equinox's record of a wrapped object where nothing is
    wrapped."""
    unused = name in _WRAPPED and not isinstance(value, str | dict)
    return unused or isinstance(getattr(kind, name, None), functools.cached_property)


def name_of(value: Any) -> str:
    """`module:qualified.name` of a class or a function of a known package that can be looked up under this name."""
    module, path = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    same = found is value or getattr(found, "__wrapped__", None) is value
    if module.split(".")[0] not in _KNOWN or not same:
        raise NoIdentity(f"{module}:{path} is not part of the package")
    return f"{module}:{path}"
