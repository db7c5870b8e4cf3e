"""Arguments of models."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidParameter


def check_count(name: str, value: Any) -> int:
    whole = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not whole or not np.isfinite(value) or int(value) != value or value < 1:
        raise InvalidParameter(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def check_choice(name: str, value: Any, options: dict[Any, Any]) -> Any:
    if not isinstance(value, str | None) or value not in options:
        accepted = ", ".join(repr(option) for option in options)
        raise InvalidParameter(f"{name} must be one of {accepted}, got {value!r}")
    return options[value]
