"""Declared checks of arguments: a table from the names of a method's arguments to checks, which `Method` runs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import InvalidParameter


class Check(NamedTuple):
    """The accepted values of an argument in words, and a test of a value."""

    accepted: str
    holds: Callable[[Any], bool]

    def __call__(self, name: str, value: Any) -> None:
        if not self.holds(value):
            raise InvalidParameter(f"{name} must be {self.accepted}, got {value!r}")


def given(value: Any) -> str:
    """A description, in one line, of an object that was given in place of a model or a method."""
    if isinstance(value, type):
        return f"the class itself: write {value.__name__}(…)"
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    if callable(getattr(value, "model", None)):
        return f"a {type(value).__name__}: give its .model()"
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


Checks = Mapping[str, Check]  # one for each argument


def whole(least: int) -> Check:
    """A whole number."""

    def holds(value: Any) -> bool:
        return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)

    return Check(f"a whole number of at least {least}", holds)


def number(accepted: str, holds: Callable[[float], bool]) -> Check:
    """A finite number for which `holds`."""

    def both(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            return False
        return math.isfinite(value) and holds(float(value))

    return Check(accepted, both)


def choice(*words: str) -> Check:
    """One of a few words."""
    return Check(" or ".join(map(repr, words)), lambda value: isinstance(value, str) and value in words)


def optional(check: Check) -> Check:
    """None, or a value that `check` accepts."""
    return Check(check.accepted, lambda value: value is None or check.holds(value))


NOT_NEGATIVE = number("a finite number of at least 0", lambda value: value >= 0.0)
SHARE = number("between 0 and 1", lambda value: 0.0 < value < 1.0)
FLAG = Check("True or False", lambda value: isinstance(value, bool))
TEXT = optional(Check("text", lambda value: isinstance(value, str)))


def check_path(name: str, value: Any) -> Path:
    """The path that a user gave, or an error if it is not a path."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidParameter(f"{name} must be the path of a file, got {value!r}")
    return Path(path)


# Arguments of models.

_MOST = 10**7  # parts that a model can have


def check_count(name: str, value: Any) -> int:
    whole = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not whole or not 1 <= value < np.inf or int(value) != value:
        raise InvalidParameter(f"{name} must be a whole number of at least 1, got {value!r}")
    if value > _MOST:
        raise InvalidParameter(f"{name} must be at most {_MOST:,}, got {value!r}")
    return int(value)


def check_choice(name: str, value: Any, options: dict[Any, Any]) -> Any:
    if not isinstance(value, str | None) or value not in options:
        accepted = ", ".join(repr(option) for option in options)
        raise InvalidParameter(f"{name} must be one of {accepted}, got {value!r}")
    return options[value]
