"""The base of the records that are sent between processes."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import equinox as eqx

from .programs.fork import refuse_after_fork


class Module(eqx.Module):
    """An Equinox module whose unpickled copies are freed when nothing refers to them any more.

    Equinox keeps every module that was made but not initialised in a table of its own, and a pickle makes modules
    without initialising them: a worker that is sent one for each partition would hold all of them to its end.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        refuse_after_fork()  # what is made of a prior's numbers is an array of JAX
        return super().__new__(cls)

    def __reduce__(self) -> tuple[Any, ...]:
        # What is stored: a field may be a property of a subclass, and Equinox stores marks of its own beside them.
        stored = {field.name: vars(self)[field.name] for field in dataclasses.fields(self) if field.name in vars(self)}
        return rebuilt, (type(self), stored)


M = TypeVar("M", bound=Module)


def rebuilt(kind: type[M], fields: dict[str, Any]) -> M:
    """A module with these fields; its `__init__` is not called."""
    module = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    return module
