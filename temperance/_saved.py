"""The classes that a saved file may name, and the values that its fields may have: checks for `storage.load`.

A file names a class by its bare name; its module ("models.linear.regression_data.Rows") only decides between classes of
one name, so that modules can move. Only data classes, modules and named tuples of the folders in `FOLDERS` can be
named; nothing else is imported. Each value is held to the annotation of its field before an object is made.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import importlib
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

import jax
import jaxtyping
import numpy as np

from .errors import DamagedFile, InvalidParameter

_ROOT = __name__.partition(".")[0]
# The modules and folders of this package whose classes can be saved. None of them does anything when it is imported.
FOLDERS = ("fit", "families", "data", "models", "graph", "evidence", "inference", "comparison", "diagnostics")
# Folders whose annotations hold for shapes too; elsewhere arrays may have been stacked.
_SHAPED = tuple(f"{_ROOT}.{folder}." for folder in ("families", "models", "data.documents"))


def name_of(cls: type) -> str:
    """The name under which a class is saved."""
    module = cls.__module__
    if not _is_listed(module) or getattr(sys.modules.get(module), cls.__qualname__, None) is not cls:
        raise InvalidParameter(f"{cls.__qualname__} cannot be saved: it is not a class of this package")
    return f"{module.removeprefix(_ROOT + '.')}.{cls.__qualname__}"


@functools.cache
def class_named(name: str) -> Any:
    """The class that a file names; anything but a class that can be saved means a foreign or tampered file.

    Files of version 1 write "temperance.models.regression_data:Rows", with the module's place at the time.
    """
    given, separator, bare = name.rpartition(":") if ":" in name else name.rpartition(".")
    foreign = separator == ":" and given.partition(".")[0] != _ROOT
    listed = [] if foreign or not bare.isidentifier() else _modules()
    hint = given.removeprefix(_ROOT + ".")
    same_place = [module for module in listed if module == f"{_ROOT}.{hint}"]
    same_file = [module for module in listed if module.rpartition(".")[2] == hint.rpartition(".")[2]]
    # Then the same folder, or the closest one around it.
    folders = [f"{_ROOT}.{'.'.join(hint.split('.')[:depth])}." for depth in range(hint.count("."), 0, -1)]
    around = [[module for module in listed if module.startswith(folder)] for folder in folders]
    for modules in (same_place, same_file, *around, listed):
        found = {kind for module in modules if (kind := _class_in(module, bare)) is not None}
        if len(found) == 1:
            return found.pop()
    raise DamagedFile(f"the file names {name!r}, which is not a class that can be loaded")


def _class_in(module: str, bare: str) -> type | None:
    """The class that a module defines under this name, if it is one that can be saved."""
    try:
        found = getattr(importlib.import_module(module), bare, None)
    except ImportError:  # a module that needs a package that is not installed
        return None
    ours = isinstance(found, type) and found.__module__ == module
    return typing.cast(type, found) if ours and (dataclasses.is_dataclass(found) or hasattr(found, "_fields")) else None


@functools.cache
def _modules() -> list[str]:
    """The names of all modules whose classes can be saved; none of them is imported for it."""
    root = Path(__file__).parent
    files = [path.relative_to(root).with_suffix("") for path in sorted(root.rglob("*.py")) if path.stem != "__main__"]
    names = (".".join((_ROOT, *path.parts)).removesuffix(".__init__") for path in files)
    return [name for name in names if _is_listed(name)]


def _is_listed(module: str) -> bool:
    return any(module == (whole := f"{_ROOT}.{folder}") or module.startswith(whole + ".") for folder in FOLDERS)


def check_fields(cls: type, values: dict[str, Any]) -> None:
    """Refuse values that do not have the types (and, of families and models, the shapes) of the fields of a class."""
    hints, shapes = _hints(cls), f"{cls.__module__}.".startswith(_SHAPED)
    # Within one class a name of an axis stands for one size.
    with jaxtyping.jaxtyped("context"):
        for name, value in values.items():
            hint = hints.get(name, Any)
            if not fits(value, hint, shapes):
                wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
                raise DamagedFile(
                    f"the file's {cls.__qualname__} has {_shown(value)} for {name!r}, which should be {wanted}"
                )


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a class; those that only a type checker can read hold anything."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, hint in inspect.get_annotations(base).items():
            text = getattr(hint, "__forward_arg__", hint)  # named tuples wrap theirs
            try:
                # The text is of our own source, not of a file.
                hints[name] = eval(text, vars(sys.modules[base.__module__])) if isinstance(text, str) else hint
            except (NameError, AttributeError, TypeError):
                hints[name] = Any
    return hints


def fits(value: Any, hint: Any, shapes: bool = True) -> bool:
    """Whether a value agrees with an annotation; for arrays in the number type and, with `shapes`, in the shape."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar):
        return True
    if hint is None or hint is types.NoneType:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option, shapes) for option in inner)
    if origin is typing.Literal:
        return any(value is option or value == option for option in inner)
    if hint in _SCALARS:
        return _is_scalar(value, _SCALARS[hint])
    if origin is not None and isinstance(origin, type):
        return isinstance(value, origin) and _items_fit(value, inner, shapes)
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        # A host array is accepted where a device array is expected.
        return isinstance(value, np.ndarray | jax.Array) and isinstance(value, _of_any_device(hint, shapes))
    return isinstance(value, hint) if isinstance(hint, type) else True


_SCALARS: dict[Any, str] = {bool: "b", int: "iu", float: "iuf", complex: "iufc"}


def _is_scalar(value: Any, kinds: str) -> bool:
    """Whether a value is a number, or an array without axes (as which NumPy's scalars are saved)."""
    if not isinstance(value, bool | int | float | complex | np.ndarray | jax.Array):
        return False
    array = np.asarray(value) if not isinstance(value, jax.Array) else value
    # Whole numbers may have any length in Python.
    whole = isinstance(value, int) and not isinstance(value, bool)
    return array.ndim == 0 and ("i" in kinds if whole else array.dtype.kind in kinds)


def _items_fit(value: Any, inner: tuple[Any, ...], shapes: bool) -> bool:
    """Whether the items of a collection agree with the brackets of its annotation."""
    if isinstance(value, collections.abc.Mapping) and len(inner) == 2:
        return all(fits(key, inner[0], shapes) and fits(item, inner[1], shapes) for key, item in value.items())
    if isinstance(value, tuple) and len(inner) != 1 and inner[1:] != (Ellipsis,):
        return len(value) == len(inner) and all(fits(*pair, shapes) for pair in zip(value, inner, strict=True))
    return not isinstance(value, list | tuple) or all(fits(item, inner[0], shapes) for item in value)


@functools.cache
def _of_any_device(hint: Any, shapes: bool) -> Any:
    return getattr(jaxtyping, hint.dtype.__name__)[Any, hint.dim_str if shapes else "..."]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray | jax.Array):
        return f"an array of {value.dtype} of shape {value.shape}"
    if value is None or isinstance(value, bool | int | float | str):
        text = repr(value)
        return text if len(text) < 40 else text[:37] + "…"
    return f"a {type(value).__name__}"


def check_fit(fit: Any) -> None:
    """Refuse a fit whose parts, each of the right type, do not belong together."""
    from .families import Family
    from .inference.monte_carlo.draws import Draws
    from .models import Posterior
    from .models._blocks import Conditional

    if not isinstance(fit.state, Posterior | Draws):
        raise DamagedFile(f"the file's Fit has {_shown(fit.state)} for 'state', which should be a posterior or draws")
    if odd := [value for value in fit.model.prior.values() if not isinstance(value, Family | Conditional)]:
        raise DamagedFile(f"the file's {type(fit.model).__name__} has {_shown(odd[0])} in its prior")
    if set(fit.state.blocks) != set(fit.model.prior):
        blocks, prior = (", ".join(sorted(map(str, names))) or "none" for names in (fit.state.blocks, fit.model.prior))
        raise DamagedFile(f"the file's posterior has the blocks {blocks}, and its model has {prior}")
    arrays = [leaf for leaf in jax.tree.leaves(fit.data.values) if isinstance(leaf, np.ndarray | jax.Array)]
    wrong = [leaf for leaf in arrays if leaf.ndim == 0 or leaf.dtype.kind not in "biuf"]
    blocks, rows = fit.data.blocks, len(fit.data.weights)
    if blocks < 1 or rows % blocks:
        raise DamagedFile(f"the file's data have {rows} rows, which cannot be {blocks} blocks")
    table = bool(arrays) and fit.data.values is arrays[0]  # rather than a structure of several arrays
    if not arrays or wrong or (table and len(arrays[0]) != rows):
        found = _shown((wrong or arrays or [fit.data.values])[0])
        raise DamagedFile(f"the file's data are {found}, and should be {rows} rows of numbers")
