"""What a regression says about a new target: a Student-t, or a Gaussian when the noise is known."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...errors import InvalidParameter
from ...numerics.special import LOG_2PI, log_gamma


class Prediction(NamedTuple):
    """Mean and variance of each new target (the noise included), in the user's units."""

    mean: Float[np.ndarray, " n"]
    variance: Float[np.ndarray, " n"]


class Forecast(NamedTuple):
    """Mean and variance of each future step and column, the draws that they summarise, and where states are discrete
    the probability of each."""

    mean: Float[np.ndarray, "n d"]
    variance: Float[np.ndarray, "n d"]
    draws: Float[np.ndarray, "s n d"]
    states: Float[np.ndarray, "n k"] | None = None

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles with so much probability between them."""
        if not 0.0 < level < 1.0:
            raise InvalidParameter(f"level must be between 0 and 1, got {level!r}")
        low, high = np.quantile(self.draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return low, high


class Location(NamedTuple):
    """The density of each target: centre, squared scale, and degrees of freedom (None for a Gaussian)."""

    centre: Float[Array, " n"]
    square: Float[Array, " n"]
    dof: Float[Array, ""] | None

    def log_density(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        distance = jnp.square(y - self.centre) / self.square
        if self.dof is None:
            return -0.5 * (LOG_2PI + jnp.log(self.square) + distance)
        half = 0.5 * self.dof
        constant = log_gamma(half + 0.5) - log_gamma(half) - 0.5 * jnp.log(2.0 * jnp.pi * half)
        return constant - 0.5 * jnp.log(self.square) - (half + 0.5) * jnp.log1p(distance / self.dof)

    def variance(self) -> Float[Array, " n"]:
        """Infinite for a Student-t with two degrees of freedom or fewer."""
        if self.dof is None:
            return self.square
        return self.square * jnp.where(self.dof > 2.0, self.dof / jnp.maximum(self.dof - 2.0, 1e-300), jnp.inf)
