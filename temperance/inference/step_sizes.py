"""Step sizes of stochastic methods: ρ_t = scale · (delay + t)^(−decay), t = 1, 2, …"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from ..errors import InvalidParameter
from ..numerics.place import on_device


class StepSize(NamedTuple):
    """Arrays rather than numbers, so that another schedule needs no compilation."""

    scale: Float[Array, ""]
    delay: Float[Array, ""]
    decay: Float[Array, ""]

    def __call__(self, t: Int[Array, ""]) -> Float[Array, ""]:
        return self.scale * (self.delay + t) ** -self.decay


def as_step_size(value: Any) -> StepSize:
    """From a constant in (0, 1], or from (delay, decay): τ ≥ 0 and 0 < κ ≤ 1 in (τ + t)^(−κ)."""
    if isinstance(value, StepSize):
        return value
    pair = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and len(value) == 2
    numbers = tuple(value) if pair else (value,)
    if not all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in numbers):
        raise _wrong(value)
    if pair:
        delay, decay = (float(x) for x in numbers)
        if not (0 <= delay < np.inf and 0 < decay <= 1):
            raise _wrong(value)
        return _make(1.0, delay, decay)
    if not 0 < numbers[0] <= 1:
        raise _wrong(value)
    return _make(float(numbers[0]), 1.0, 0.0)


def _make(*numbers: float) -> StepSize:
    return StepSize(*(on_device(number, np.float64) for number in numbers))


def _wrong(value: Any) -> InvalidParameter:
    return InvalidParameter(
        "step_size must be a constant above 0 and at most 1, or a pair (delay, decay) with delay at least 0 and "
        f"0 < decay ≤ 1, got {value!r}"
    )
