"""Patterns that are compiled when they are first used: each takes up to a millisecond, and most fits read no text."""

from __future__ import annotations

import re
from typing import Any, cast


class _Later:
    def __init__(self, text: str, flags: int):
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:  # called once for each method of the pattern
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile(text, flags)`, compiled at its first use."""
    return cast("re.Pattern[str]", _Later(text, flags))
