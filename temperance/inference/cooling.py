"""Schedules of temperatures: a table with one entry a step, and T = 1 ever after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..errors import InvalidParameter
from ..models import Data, Powers

_ENTRIES = 256  # tables are this long, or twice, four times …: few shapes, few compilations


class Cooling(eqx.Module):
    """Temperatures as arrays, so that another schedule is no other compilation."""

    table: Float[Array, " s"]  # filled up with ones
    steps: Int[Array, ""]  # after so many steps T is 1

    def temperature(self, step: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.where(step < self.steps, self.table[jnp.minimum(step, self.table.shape[0] - 1)], 1.0)

    def powers(self, step: Int[Array, ""]) -> Powers:
        power = 1.0 / self.temperature(step)
        return Powers(power, power)


class Cooled(Data):
    """Data with the schedule at which they are looked at."""

    cooling: Cooling | None = None


def hot_steps(temperatures: np.ndarray) -> int:
    """How many there are before T is 1 for good."""
    return int(np.max(np.flatnonzero(temperatures != 1.0), initial=-1)) + 1


def make_cooling(temperatures: np.ndarray) -> Cooling:
    steps = hot_steps(temperatures)
    temperatures = temperatures[:steps]
    size = _ENTRIES
    while size < steps:
        size *= 2
    table = np.ones(size)
    table[:steps] = temperatures
    return Cooling(jnp.asarray(table), jnp.asarray(steps))


def spaced(kind: str, start: float, steps: int) -> np.ndarray:
    """From `start` towards 1, which comes after the last of them: equal differences, or equal ratios."""
    share = np.arange(steps) / max(steps, 1)
    return start + (1.0 - start) * share if kind == "linear" else start ** (1.0 - share)


def as_temperatures(name: str, values: Any) -> tuple[float, ...]:
    """Temperatures the user gave, checked: a tuple, so that methods can be compared and hashed."""
    row = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    try:
        numbers = np.asarray(values if row else ())
    except ValueError:  # rows of unequal length
        numbers = np.zeros(0)
    if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "fiu":
        raise InvalidParameter(f"{name} must be a row of numbers of at least 1, got {values!r}")
    if not (np.isfinite(numbers).all() and (numbers >= 1).all()):
        raise InvalidParameter(
            f"{name} must be finite and at least 1, found {numbers[~(np.isfinite(numbers) & (numbers >= 1))][0]:g}"
        )
    return tuple(float(number) for number in numbers)
