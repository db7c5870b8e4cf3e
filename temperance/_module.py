"""The base of the records that are sent between processes."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx


class Module(eqx.Module):
    """An Equinox module whose copies, read from a pickle, go when nobody needs them any more.

    Equinox keeps every module that was made but not initialised in a table of its own, and a pickle makes modules
    without initialising them: a worker that is sent one for each partition would hold all of them to its end.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if hasattr(self, field.name)
        }
        return _again, (type(self), fields)


def _again(kind: type[Module], fields: dict[str, Any]) -> Module:
    module = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    return module
