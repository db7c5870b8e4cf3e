"""Normal-Gamma over (mean, precision) of scalars, and of vectors that share one precision.

`NormalGamma` is the Normal-Wishart in one dimension without matrices; a diagonal Gaussian has one per column.
`IsotropicNormalGamma` has one precision for all columns of a spherical Gaussian.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.random import log_gamma_variate, normal
from ..numerics.special import digamma, inverse_wishart_gap, log_gamma
from ._family import LOG_2PI, Family, Vector, closed_form
from ._pair import Pair
from ._parameters import as_arrays, parameters, require_finite_positive
from .normal_wishart import MeanAndPrecision, default_spread
from .wishart import TINY


class NormalGammaVector(Vector):
    """η = (v m, v, s + v m², dof − 1), t(μ, λ) = (λμ, −½ λμ², −½ λ, ½ log λ), T(x) = (x, 1, x², 1)."""

    first: Float[Array, "*b"]
    count: Float[Array, "*b"]
    second: Float[Array, "*b"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("scalar", "scalar", "scalar", "scalar")


def _natural(location: Array, count: Array, dof: Array, scatter: Array) -> NormalGammaVector:
    return NormalGammaVector(count * location, count, scatter + count * location * location, dof - 1.0)


def _value_and_mean(natural: NormalGammaVector) -> tuple[Float[Array, "*b"], NormalGammaVector]:
    half_dof = 0.5 * (natural.dof + 1.0)
    location = natural.first / natural.count
    rate = 0.5 * (natural.second - natural.first * location)
    log_rate = jnp.log(rate)
    value = log_gamma(half_dof) - half_dof * log_rate + 0.5 * (LOG_2PI - jnp.log(natural.count))
    precision = half_dof / rate
    mean = NormalGammaVector(
        precision * location,
        -0.5 * (1.0 / natural.count + precision * jnp.square(location)),
        -0.5 * precision,
        0.5 * (digamma(half_dof) - log_rate),
    )
    return value, mean


_log_normaliser = closed_form(_value_and_mean)


class NormalGamma(Family):
    """λ ~ Gamma(dof/2, rate = scatter/2) and μ | λ ~ N(mean, 1/(pseudo_count · λ)), for each element."""

    natural: NormalGammaVector

    def __init__(self, mean: ArrayLike, pseudo_count: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        m, v, nu, s = parameters(mean=(mean, 0), pseudo_count=(pseudo_count, 0), dof=(dof, 0), scatter=(scatter, 0))
        require_finite_positive(pseudo_count=v, dof=nu, scatter=s)
        self.natural = as_arrays(_natural(m, v, nu, s))

    @property
    def location(self) -> Float[Array, "*b"]:
        return self.natural.first / self.natural.count

    @property
    def pseudo_count(self) -> Float[Array, "*b"]:
        return self.natural.count

    @property
    def dof(self) -> Float[Array, "*b"]:
        return self.natural.dof + 1.0

    @property
    def scatter(self) -> Float[Array, "*b"]:
        return self.natural.second - jnp.square(self.natural.first) / self.natural.count

    def log_normaliser(self) -> Float[Array, "*b"]:
        return _log_normaliser(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.count > 0) & (self.natural.dof > -1.0) & (self.scatter > 0)

    def sample(self, key: Key[Array, ""]) -> MeanAndPrecision:
        key_precision, key_mean = jax.random.split(key)
        precision = sample_scalar_precision(key_precision, self.dof, self.scatter)
        noise = normal(key_mean, precision.shape)
        return MeanAndPrecision(self.location + noise / jnp.sqrt(self.natural.count * precision), precision)

    def statistics(self, draw: MeanAndPrecision) -> NormalGammaVector:
        mean, precision, _ = draw
        return NormalGammaVector(
            precision * mean, -0.5 * precision * jnp.square(mean), -0.5 * precision, 0.5 * jnp.log(precision)
        )

    def mode(self) -> MeanAndPrecision:
        return MeanAndPrecision(self.location, jnp.maximum(self.natural.dof, TINY) / self.scatter)

    @classmethod
    def from_mean(cls, mean: NormalGammaVector, guess: Self | None = None) -> Self:
        precision = -2.0 * mean.second
        location = mean.first / precision
        spread = -2.0 * mean.count - mean.first * location
        return cls._matching(location, spread, precision, 2.0 * mean.dof, None if guess is None else guess.dof)

    @classmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        """The member with E[λμ] = E[λ] `location`, E[λ (μ − location)²] = `spread`; `guess` is one of dof."""
        dof = inverse_wishart_gap(jnp.log(precision) - mean_log, 1, guess)
        return cls.from_natural(_natural(location, 1.0 / spread, dof, dof / precision))

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        """By the centred form of the spread, as for the Normal-Wishart."""
        mean, weight = self.mean().mix(other.mean(), rate), jnp.asarray(rate)
        precision = -2.0 * mean.second
        location = mean.first / precision
        spread = (1.0 - weight) * self._spread(location) + weight * other._spread(location)
        between = (1.0 - weight) * self.dof + weight * other.dof
        return type(self)._matching(location, spread, precision, 2.0 * mean.dof, between)

    def _spread(self, location: Float[Array, "*b"]) -> Float[Array, "*b"]:
        """E[λ (μ − location)²]."""
        return 1.0 / self.pseudo_count + self.dof / self.scatter * jnp.square(self.location - location)


def sample_scalar_precision(
    key: Key[Array, ""], dof: Float[Array, "*b"], scatter: Float[Array, "*b"]
) -> Float[Array, "*b"]:
    """Through the logarithm, and never zero: with few degrees of freedom a draw underflows otherwise."""
    log = log_gamma_variate(key, 0.5 * dof) - jnp.log(0.5 * scatter)
    return jnp.maximum(jnp.exp(log), TINY)


class ScalarGaussian(Pair):
    """x ~ N(μ, 1/λ), a scalar, with (μ, λ) ~ Normal-Gamma."""

    def coordinates(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return x

    def statistics(self, x: Float[Array, "*n"]) -> NormalGammaVector:
        one = jnp.ones(x.shape, dtype=x.dtype)
        return NormalGammaVector(x, one, jnp.square(x), one)

    def log_base(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.full(x.shape, -0.5 * LOG_2PI)

    def sample(self, key: Key[Array, ""], draw: MeanAndPrecision) -> Float[Array, "*b"]:
        return draw.mean + normal(key, draw.mean.shape) / jnp.sqrt(draw.precision)

    def default_prior(self, x: Float[Array, " n"], size: int) -> NormalGamma:
        """As for the full covariance, one column at a time."""
        centre, spread = np.nanmean(x), default_spread(x[:, None], size)[0]
        return NormalGamma(np.full(size, centre), 0.01, 3.0, np.full(size, spread))


class IsotropicNormalGammaVector(Vector):
    """η = (v m, v, s + v|m|², dof − 2 + d), t(μ, λ) = (λμ, −½ λ|μ|², −½ λ, ½ log λ),
    T(x) = (x, 1, |x|², d)."""

    first: Float[Array, "*b d"]
    count: Float[Array, "*b"]
    second: Float[Array, "*b"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "scalar", "scalar", "scalar")


def _isotropic_natural(location: Array, count: Array, dof: Array, scatter: Array) -> IsotropicNormalGammaVector:
    second = scatter + count * (location * location).sum(axis=-1)
    d = location.shape[-1]
    return IsotropicNormalGammaVector(count[..., None] * location, count, second, dof - 2.0 + d)


def _isotropic_value_and_mean(
    natural: IsotropicNormalGammaVector,
) -> tuple[Float[Array, "*b"], IsotropicNormalGammaVector]:
    d = natural.first.shape[-1]
    half_dof = 0.5 * (natural.dof + 2.0 - d)
    location = natural.first / natural.count[..., None]
    rate = 0.5 * (natural.second - jnp.sum(natural.first * location, axis=-1))
    log_rate = jnp.log(rate)
    value = log_gamma(half_dof) - half_dof * log_rate + 0.5 * d * (LOG_2PI - jnp.log(natural.count))
    precision = half_dof / rate
    mean = IsotropicNormalGammaVector(
        precision[..., None] * location,
        -0.5 * (d / natural.count + precision * jnp.sum(jnp.square(location), axis=-1)),
        -0.5 * precision,
        0.5 * (digamma(half_dof) - log_rate),
    )
    return value, mean


_isotropic_log_normaliser = closed_form(_isotropic_value_and_mean)


class IsotropicNormalGamma(Family):
    """λ ~ Gamma(dof/2, rate = scatter/2) and μ | λ ~ N(mean, I/(pseudo_count · λ)): one λ for d columns."""

    natural: IsotropicNormalGammaVector

    def __init__(self, mean: ArrayLike, pseudo_count: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        m, v, nu, s = parameters(mean=(mean, 1), pseudo_count=(pseudo_count, 0), dof=(dof, 0), scatter=(scatter, 0))
        require_finite_positive(pseudo_count=v, dof=nu, scatter=s)
        self.natural = as_arrays(_isotropic_natural(m, v, nu, s))

    @property
    def location(self) -> Float[Array, "*b d"]:
        return self.natural.first / self.natural.count[..., None]

    @property
    def pseudo_count(self) -> Float[Array, "*b"]:
        return self.natural.count

    @property
    def dof(self) -> Float[Array, "*b"]:
        return self.natural.dof + 2.0 - self.natural.first.shape[-1]

    @property
    def scatter(self) -> Float[Array, "*b"]:
        return self.natural.second - jnp.sum(jnp.square(self.natural.first), axis=-1) / self.natural.count

    def log_normaliser(self) -> Float[Array, "*b"]:
        return _isotropic_log_normaliser(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.count > 0) & (self.dof > 0) & (self.scatter > 0)

    def sample(self, key: Key[Array, ""]) -> MeanAndPrecision:
        key_precision, key_mean = jax.random.split(key)
        precision = sample_scalar_precision(key_precision, self.dof, self.scatter)
        noise = normal(key_mean, self.natural.first.shape)
        return MeanAndPrecision(self.location + noise / jnp.sqrt(self.natural.count * precision)[..., None], precision)

    def statistics(self, draw: MeanAndPrecision) -> IsotropicNormalGammaVector:
        mean, precision, _ = draw
        return IsotropicNormalGammaVector(
            precision[..., None] * mean,
            -0.5 * precision * jnp.sum(jnp.square(mean), axis=-1),
            -0.5 * precision,
            0.5 * jnp.log(precision),
        )

    def mode(self) -> MeanAndPrecision:
        return MeanAndPrecision(self.location, jnp.maximum(self.natural.dof, TINY) / self.scatter)

    @classmethod
    def from_mean(cls, mean: IsotropicNormalGammaVector, guess: Self | None = None) -> Self:
        precision = -2.0 * mean.second
        location = mean.first / precision[..., None]
        spread = -2.0 * mean.count - jnp.sum(mean.first * location, axis=-1)
        return cls._matching(location, spread, precision, 2.0 * mean.dof, None if guess is None else guess.dof)

    @classmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        """The member with E[λμ] = E[λ] `location`, E[λ |μ − location|²] = `spread`; `guess` is one of dof."""
        dof = inverse_wishart_gap(jnp.log(precision) - mean_log, 1, guess)
        return cls.from_natural(_isotropic_natural(location, location.shape[-1] / spread, dof, dof / precision))

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        """By the centred form of the spread, as for the Normal-Wishart."""
        mean, weight = self.mean().mix(other.mean(), rate), jnp.asarray(rate)
        precision = -2.0 * mean.second
        location = mean.first / precision[..., None]
        spread = (1.0 - weight) * self._spread(location) + weight * other._spread(location)
        between = (1.0 - weight) * self.dof + weight * other.dof
        return type(self)._matching(location, spread, precision, 2.0 * mean.dof, between)

    def _spread(self, location: Float[Array, "*b d"]) -> Float[Array, "*b"]:
        """E[λ |μ − location|²]."""
        distance = jnp.sum(jnp.square(self.location - location), axis=-1)
        return location.shape[-1] / self.pseudo_count + self.dof / self.scatter * distance


class SphericalGaussian(Pair):
    """x ~ N(μ, I/λ) with (μ, λ) ~ isotropic Normal-Gamma."""

    def coordinates(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return x

    def statistics(self, x: Float[Array, "n d"]) -> IsotropicNormalGammaVector:
        one = jnp.ones(x.shape[:-1], dtype=x.dtype)
        return IsotropicNormalGammaVector(x, one, jnp.sum(jnp.square(x), axis=-1), x.shape[-1] * one)

    def log_base(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return jnp.full(x.shape[:-1], -0.5 * x.shape[-1] * LOG_2PI)

    def sample(self, key: Key[Array, ""], draw: MeanAndPrecision) -> Float[Array, "*b d"]:
        return draw.mean + normal(key, draw.mean.shape) / jnp.sqrt(draw.precision)[..., None]

    def default_prior(self, x: Any, size: int) -> IsotropicNormalGamma:
        """As for the full covariance, with the average variance of the columns."""
        d = x.shape[-1]
        mean = np.broadcast_to(np.nanmean(x, axis=0), (size, d))
        return IsotropicNormalGamma(mean, 0.01, 3.0, np.full(size, np.mean(default_spread(x, size))))
