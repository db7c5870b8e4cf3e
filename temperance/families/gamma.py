"""Gamma over rates and precisions, and the Poisson and exponential likelihoods it is conjugate to."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.random import log_gamma_variate
from ..numerics.special import digamma, inverse_wishart_gap, log_gamma, steady_log
from ._family import ClosedForm, Family, Vector, closed_form
from ._pair import Pair, check_counts
from ._parameters import as_arrays, is_traced, parameters, require, require_finite_positive

# No draw is below this part of 1/rate. A vague prior has most of its mass there, but data with such a draw as their
# precision would have squares that overflow.
LEAST = 1e-80


class GammaVector(Vector):
    """η = (a − 1, −b), t(λ) = (log λ, λ). Its parts are `log` and `value`."""

    log: Float[Array, "*b"]
    value: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("scalar", "scalar")


def _value_and_mean(natural: GammaVector) -> tuple[Float[Array, "*b"], GammaVector]:
    shape, rate = natural.log + 1.0, -natural.value
    log_rate = jnp.log(rate)
    return log_gamma(shape) - shape * log_rate, GammaVector(digamma(shape) - log_rate, shape / rate)


class Gamma(Family):
    """p(λ) ∝ λ^(shape − 1) exp(−rate · λ), with `shape` and `rate` above 0: E[λ] = shape / rate."""

    natural: GammaVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, shape: ArrayLike, rate: ArrayLike):
        a, b = parameters(shape=(shape, 0), rate=(rate, 0))
        require_finite_positive(shape=a, rate=b)
        if not is_traced(a):
            # The natural parameter is shape − 1, in which a smaller shape would be rounded away.
            require(a >= 1e-12, "shape must be at least 1e-12", a)
        self.natural = as_arrays(GammaVector(a - 1.0, -b))

    @property
    def shape(self) -> Float[Array, "*b"]:
        return self.natural.log + 1.0

    @property
    def rate(self) -> Float[Array, "*b"]:
        return -self.natural.value

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.log > -1.0) & (self.natural.value < 0.0)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b"]:
        log = jnp.maximum(log_gamma_variate(key, self.shape), np.log(LEAST)) - jnp.log(self.rate)
        return jnp.maximum(jnp.exp(log), jnp.finfo(log.dtype).tiny)

    def statistics(self, draw: Float[Array, "*b"]) -> GammaVector:
        return GammaVector(steady_log(draw), draw)

    def mode(self) -> Float[Array, "*b"]:
        # A quotient below the smallest normal number would be rounded to zero, whose logarithm is infinite.
        return jnp.maximum(self.natural.log / self.rate, jnp.finfo(self.natural.log.dtype).tiny)

    def described(self) -> dict[str, Any]:
        return {"mean": self.shape / self.rate}

    @classmethod
    def from_mean(cls, mean: GammaVector, guess: Self | None = None) -> Self:
        # A Wishart in one dimension with dof = 2a: log a − ψ(a) = log E[λ] − E[log λ].
        start = None if guess is None else 2.0 * guess.shape
        shape = inverse_wishart_gap(jnp.log(mean.value) - mean.log, 1, start) / 2
        return cls.from_natural(GammaVector(shape - 1.0, -shape / mean.value))


class Poisson(Pair):
    """x ∈ {0, 1, 2, …} with rate λ ~ Gamma."""

    def check(self, x: np.ndarray) -> np.ndarray:
        return check_counts(x, "Poisson counts")

    def statistics(self, x: Float[Array, "*n"]) -> GammaVector:
        return GammaVector(x, -jnp.ones(x.shape))

    def log_base(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return -log_gamma(x + 1.0)

    def sample(self, key: Key[Array, ""], draw: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jax.random.poisson(key, draw).astype(jnp.float64)

    def default_prior(self, x: Any, size: int) -> Gamma:
        """An exponential prior with the mean of the data: worth one pseudo-observation."""
        centre = np.maximum(np.nanmean(x), 1e-3)
        return Gamma(np.ones(size), np.full(size, 1.0 / centre))
