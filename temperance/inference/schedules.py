"""Ladders of inverse temperatures 0 = β_1 < … < β_K = 1."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import InvalidParameter

POWER = 5.0  # β = s^5: the integrand grows like 1/β near zero, where most of the ladder is needed
LEAST_REJECTION = 1e-3  # so that Λ rises even between neighbours that never reject


def power_ladder(size: int, power: float = POWER) -> np.ndarray:
    """(i / (size − 1))^power for i = 0 … size − 1."""
    return np.linspace(0.0, 1.0, size) ** power


def equal_rejection(betas: Float[Array, " k"], rejection: Float[Array, " k-1"], xp: Any = jnp) -> Any:
    """The ladder with equally many temperatures on which all neighbours would reject equally often.

    The rejection between neighbours is, to first order, the increase of the communication barrier
    Λ(β) = ∫ λ(β) dβ (Syed et al., 2022); Λ is interpolated in s = β^(1/5) and cut into equal parts.
    `xp` is the library of the arrays.
    """
    barrier = xp.concatenate([xp.zeros(1), xp.cumsum(xp.maximum(rejection, LEAST_REJECTION))])
    steps = xp.linspace(0.0, 1.0, betas.shape[0])
    places = xp.interp(steps, barrier / barrier[-1], betas ** (1.0 / POWER)) ** POWER
    return xp.concatenate([xp.zeros(1), places[1:-1], xp.ones(1)])


def as_ladder(betas: Any) -> tuple[float, ...]:
    """A ladder the user gave, checked."""
    values = np.asarray(betas, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or values[0] != 0 or values[-1] != 1 or not (np.diff(values) > 0).all():
        raise InvalidParameter(f"ladder must be increasing numbers from 0 to 1, at least two of them, got {betas!r}")
    return tuple(float(value) for value in values)
