"""Errors about graphs, in sentences that quote the user's lines."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

from ..errors import InvalidParameter

_PACKAGE = str(Path(__file__).parents[1])


class NotConjugate(InvalidParameter):
    """Two variables whose pair is not conjugate."""


class PlateMismatch(InvalidParameter):
    """Quantities whose plates do not fit together."""


def users_line() -> str:
    """The line outside this package that is being executed, as 'file:number: code'."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    name, number = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(name, number).strip()
    return f"{Path(name).name}:{number}" + (f": {code}" if code else "")


def drawn(name: str, plates: tuple[str, ...], sizes: dict[str, int]) -> str:
    """A quantity with its plates: 'x (plates n = 10, d = 3)'."""
    if not plates:
        return f"{name} (no plates)"
    each = ", ".join(f"{plate} = {sizes[plate]}" if plate in sizes else plate for plate in plates)
    return f"{name} (plate{'s' if len(plates) > 1 else ''} {each})"
