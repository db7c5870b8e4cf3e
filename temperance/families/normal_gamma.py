"""Normal-Gamma over (mean, precision) of scalars, and of vectors that share one precision.

`NormalGamma` is the Normal-Wishart in one dimension without matrices; a diagonal Gaussian has one per column.
`IsotropicNormalGamma` has one precision for all columns of a spherical Gaussian. Both have the natural parameter
η = (v m, v, s + v|m|², dof − 2 + d), where d = 1 for a scalar.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.random import log_gamma_variate, normal
from ..numerics.special import digamma, inverse_wishart_gap, log_gamma, steady_log
from ._family import LOG_2PI, ClosedForm, Vector, along_last, closed_form
from ._located import Located
from ._pair import Pair
from ._parameters import as_arrays, parameters, require_finite_positive
from .normal_wishart import MeanAndPrecision, default_spread
from .wishart import TINY


class NormalGammaVector(Vector):
    """η = (v m, v, s + v m², dof − 1), t(μ, λ) = (λμ, −½ λμ², −½ λ, ½ log λ), T(x) = (x, 1, x², 1).

    Its parts are `first`, `count`, `second` and `dof`.
    """

    first: Float[Array, "*b"]
    count: Float[Array, "*b"]
    second: Float[Array, "*b"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("scalar", "scalar", "scalar", "scalar")

    def moved(self, shift: Array) -> Self:
        return _moved(self, self.count * along_last(shift, self.first))


class IsotropicNormalGammaVector(Vector):
    """η = (v m, v, s + v|m|², dof − 2 + d), t(μ, λ) = (λμ, −½ λ|μ|², −½ λ, ½ log λ),
    T(x) = (x, 1, |x|², d). Its parts are `first`, `count`, `second` and `dof`."""

    first: Float[Array, "*b d"]
    count: Float[Array, "*b"]
    second: Float[Array, "*b"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "scalar", "scalar", "scalar")

    @property
    def width(self) -> int:
        return self.first.shape[-1]

    def moved(self, shift: Float[Array, " d"]) -> Self:
        return _moved(self, self.count[..., None] * along_last(shift, self.first))


# ---- the one precision of all columns ---------------------------------------------------------------------------


def gamma_terms(dof: Float[Array, "*b"], scatter: Float[Array, "*b"]) -> tuple[Array, Array, Array]:
    """(log ∫ λ^(dof/2 − 1) exp(−½ scatter λ) dλ, E[λ], ½ E[log λ])."""
    half_dof, rate = 0.5 * dof, 0.5 * scatter
    log_rate = jnp.log(rate)
    return log_gamma(half_dof) - half_dof * log_rate, half_dof / rate, 0.5 * (digamma(half_dof) - log_rate)


def sample_scalar_precision(
    key: Key[Array, ""], dof: Float[Array, "*b"], scatter: Float[Array, "*b"]
) -> Float[Array, "*b"]:
    """A draw of λ, by way of log λ and never zero: with few degrees of freedom λ itself would underflow."""
    log = log_gamma_variate(key, 0.5 * dof)
    return jnp.exp(jnp.maximum(log, np.log(TINY)) - jnp.log(0.5 * scatter))


def match_scalar_precision(
    precision: Float[Array, "*b"], mean_log: Float[Array, "*b"], guess: Float[Array, "*b"] | None = None
) -> tuple[Float[Array, "*b"], Float[Array, "*b"]]:
    """(scatter, dof) with E[λ] = `precision` and E[log λ] = `mean_log`; dof is searched for from `guess`."""
    dof = inverse_wishart_gap(jnp.log(precision) - mean_log, 1, guess)
    return dof / precision, dof


# ---- the families -------------------------------------------------------------------------------------------


def _wide(value: Array, vector: Any) -> Array:
    """One number per batch element, shaped so that it can multiply means."""
    return value[..., None] if vector.kinds[0] == "vector" else value


def _square(first: Array, second: Array, vector: Any) -> Array:
    """The inner product of two means."""
    return (first * second).sum(axis=-1) if vector.kinds[0] == "vector" else first * second


def _columns(mean: Array, vector: Any) -> int:
    return mean.shape[-1] if vector.kinds[0] == "vector" else 1


def _moved(natural: Any, step: Array) -> Any:
    first = natural.first + step
    scatter = natural.second - _square(natural.first, natural.first, natural) / natural.count
    return type(natural)(first, natural.count, scatter + _square(first, first, natural) / natural.count, natural.dof)


def _value_and_mean(natural: Any) -> tuple[Float[Array, "*b"], Any]:
    d = _columns(natural.first, natural)
    location = natural.first / _wide(natural.count, natural)
    scatter = natural.second - _square(natural.first, location, natural)
    value, precision, half_log = gamma_terms(natural.dof + (2.0 - d), scatter)
    mean = type(natural)(
        _wide(precision, natural) * location,
        -0.5 * (d / natural.count + precision * _square(location, location, natural)),
        -0.5 * precision,
        half_log,
    )
    return value + 0.5 * d * (LOG_2PI - jnp.log(natural.count)), mean


class _NormalGamma(Located):
    """λ ~ Gamma(dof/2, rate = scatter/2) and μ | λ ~ N(mean, I/(pseudo_count · λ)), for a `vector` of either kind."""

    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    vector: ClassVar[Any]

    @classmethod
    def _checked(cls, mean: Any, pseudo_count: Any, dof: Any, scatter: Any) -> Any:
        rank = 1 if cls.vector.kinds[0] == "vector" else 0
        m, v, nu, s = parameters(mean=(mean, rank), pseudo_count=(pseudo_count, 0), dof=(dof, 0), scatter=(scatter, 0))
        require_finite_positive(pseudo_count=v, dof=nu, scatter=s)
        return as_arrays(cls._natural(m, v, nu, s))

    @classmethod
    def _natural(cls, location: Array, count: Array, dof: Array, scatter: Array) -> Any:
        second = scatter + count * _square(location, location, cls.vector)
        d = _columns(location, cls.vector)
        return cls.vector(_wide(count, cls.vector) * location, count, second, dof - (2.0 - d))

    @property
    def location(self) -> Float[Array, "..."]:
        return self.natural.first / _wide(self.natural.count, self.vector)

    @property
    def pseudo_count(self) -> Float[Array, "*b"]:
        return self.natural.count

    @property
    def dof(self) -> Float[Array, "*b"]:
        return self.natural.dof + (2.0 - _columns(self.natural.first, self.vector))

    @property
    def scatter(self) -> Float[Array, "*b"]:
        return self.natural.second - _square(self.natural.first, self.natural.first, self.vector) / self.natural.count

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.count > 0) & (self.dof > 0) & (self.scatter > 0)

    def sample(self, key: Key[Array, ""]) -> MeanAndPrecision:
        key_precision, key_mean = jax.random.split(key)
        precision = sample_scalar_precision(key_precision, self.dof, self.scatter)
        noise = normal(key_mean, self.natural.first.shape)
        width = _wide(jnp.sqrt(self.natural.count * precision), self.vector)
        return MeanAndPrecision(self.location + noise / width, precision)

    def statistics(self, draw: MeanAndPrecision) -> Any:
        mean, precision, _ = draw
        return self.vector(
            _wide(precision, self.vector) * mean,
            -0.5 * precision * _square(mean, mean, self.vector),
            -0.5 * precision,
            0.5 * steady_log(precision),
        )

    def mode(self) -> MeanAndPrecision:
        return MeanAndPrecision(self.location, jnp.maximum(self.natural.dof, TINY) / self.scatter)

    def described(self) -> dict[str, Any]:
        return {"mean": self.location, "sd": np.sqrt(self.scatter / self.dof)}

    @staticmethod
    def _moments(mean: Any) -> tuple[Array, Array, Array]:
        precision = -2.0 * mean.second
        location = mean.first / _wide(precision, mean)
        return location, -2.0 * mean.count - _square(mean.first, location, mean), precision

    @classmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        scatter, dof = match_scalar_precision(precision, mean_log, guess)
        return cls.from_natural(cls._natural(location, _columns(location, cls.vector) / spread, dof, scatter))

    def _spread(self, location: Array) -> Float[Array, "*b"]:
        apart = self.location - location
        within = _columns(location, self.vector) / self.pseudo_count
        return within + self.dof / self.scatter * _square(apart, apart, self.vector)


class NormalGamma(_NormalGamma):
    """λ ~ Gamma(dof/2, rate = scatter/2) and μ | λ ~ N(mean, 1/(pseudo_count · λ)), for each element.

    `pseudo_count`, `dof` and `scatter` are above 0; E[λ] = dof / scatter. `mean` has the weight of `pseudo_count` data.
    """

    natural: NormalGammaVector
    vector: ClassVar[Any] = NormalGammaVector

    def __init__(self, mean: ArrayLike, pseudo_count: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        self.natural = self._checked(mean, pseudo_count, dof, scatter)


class IsotropicNormalGamma(_NormalGamma):
    """λ ~ Gamma(dof/2, rate = scatter/2) and μ | λ ~ N(mean, I/(pseudo_count · λ)): one λ for d columns.

    `mean` has d entries; `pseudo_count`, `dof` and `scatter` are above 0, and E[λ] = dof / scatter.
    """

    natural: IsotropicNormalGammaVector
    vector: ClassVar[Any] = IsotropicNormalGammaVector

    def __init__(self, mean: ArrayLike, pseudo_count: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        self.natural = self._checked(mean, pseudo_count, dof, scatter)


# ---- likelihoods --------------------------------------------------------------------------------------------


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
        """The prior of `Gaussian.default_prior`, one column at a time."""
        centre, spread = np.nanmean(x), default_spread(x[:, None], size)[0]
        return NormalGamma(np.full(size, centre), 0.01, 3.0, np.full(size, spread))


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
        """The prior of `Gaussian.default_prior`, with the average variance of the columns."""
        d = x.shape[-1]
        mean = np.broadcast_to(np.nanmean(x, axis=0), (size, d))
        return IsotropicNormalGamma(mean, 0.01, 3.0, np.full(size, np.mean(default_spread(x, size))))
