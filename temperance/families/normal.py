"""Multivariate Normal in information form, and the Gaussian likelihood of known covariance it is conjugate to."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import (
    cholesky,
    explicit_inverse,
    is_positive_definite,
    log_det,
    outer,
    quadratic_form,
    solve_vector,
)
from ._family import LOG_2PI, Family, Vector, as_float, closed_form, require, require_square
from ._pair import Pair


class NormalVector(Vector):
    """η = (Λ m, Λ), t(x) = (x, −½ x xᵀ)."""

    linear: Float[Array, "*b d"]
    precision: Float[Array, "*b d d"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "symmetric")


def _value_and_mean(natural: NormalVector) -> tuple[Float[Array, "*b"], NormalVector]:
    factor = cholesky(natural.precision)
    centre = solve_vector(factor, natural.linear)
    d = natural.linear.shape[-1]
    value = 0.5 * (jnp.sum(centre * natural.linear, axis=-1) - log_det(factor) + d * LOG_2PI)
    return value, NormalVector(centre, -0.5 * (explicit_inverse(factor) + outer(centre, centre)))


_log_normaliser = closed_form(_value_and_mean)


class Normal(Family):
    """p(x) = N(x | mean, covariance), kept as the precision and the precision times the mean."""

    natural: NormalVector

    def __init__(
        self, mean: ArrayLike, covariance: ArrayLike | None = None, *, precision: ArrayLike | None = None
    ):
        mean = as_float(mean)
        require(mean.ndim >= 1, "mean must be a vector (with leading batch axes), got a scalar")
        require((covariance is None) != (precision is None), "give exactly one of covariance and precision")
        name = "covariance" if precision is None else "precision"
        matrix = as_float(covariance if precision is None else precision)
        require(jnp.isfinite(mean), "mean must be finite")
        require_square(name, matrix, mean.shape[-1])
        require(is_positive_definite(matrix), f"{name} must be positive definite")
        inverse = matrix if precision is not None else explicit_inverse(cholesky(matrix))
        batch = jnp.broadcast_shapes(mean.shape[:-1], inverse.shape[:-2])
        mean = jnp.broadcast_to(mean, batch + mean.shape[-1:])
        inverse = jnp.broadcast_to(inverse, batch + inverse.shape[-2:])
        self.natural = NormalVector((inverse @ mean[..., None])[..., 0], inverse)

    @property
    def location(self) -> Float[Array, "*b d"]:
        return solve_vector(cholesky(self.natural.precision), self.natural.linear)

    @property
    def precision(self) -> Float[Array, "*b d d"]:
        return self.natural.precision

    @property
    def covariance(self) -> Float[Array, "*b d d"]:
        return explicit_inverse(cholesky(self.natural.precision))

    def log_normaliser(self) -> Float[Array, "*b"]:
        return _log_normaliser(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        return is_positive_definite(self.natural.precision)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b d"]:
        factor = cholesky(self.natural.precision)
        noise = jax.random.normal(key, self.natural.linear.shape)
        shift = jax.scipy.linalg.solve_triangular(factor, noise[..., None], lower=True, trans=1)[..., 0]
        return solve_vector(factor, self.natural.linear) + shift

    def statistics(self, draw: Float[Array, "*b d"]) -> NormalVector:
        return NormalVector(draw, -0.5 * outer(draw, draw))

    def mode(self) -> Float[Array, "*b d"]:
        return self.location

    @classmethod
    def from_mean(cls, mean: NormalVector, guess: Self | None = None) -> Self:
        covariance = -2.0 * mean.precision - outer(mean.linear, mean.linear)
        precision = explicit_inverse(cholesky(covariance))
        return cls.from_natural(NormalVector((precision @ mean.linear[..., None])[..., 0], precision))


class KnownCovarianceGaussian(Pair):
    """x ~ N(μ, covariance) with the covariance known and μ ~ Normal."""

    covariance: Float[Array, "d d"]
    missing: bool = eqx.field(static=True)  # whether NaN may stand for a column not seen

    def __init__(self, covariance: ArrayLike, missing: bool = False):
        self.missing = missing
        self.covariance = as_float(covariance)
        require_square("covariance", self.covariance)
        require(is_positive_definite(self.covariance), "covariance must be positive definite")

    def coordinates(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return jnp.where(jnp.isnan(x), 0.0, x)

    def statistics(self, x: Float[Array, "n d"]) -> NormalVector:
        if not self.missing:
            precision = explicit_inverse(cholesky(self.covariance))
            return NormalVector(x @ precision, jnp.broadcast_to(precision, (x.shape[0], *precision.shape)))
        # The seen columns are Gaussian with their block of the covariance: still linear in t(μ).
        seen, factor = self._seen(x)
        precision = explicit_inverse(factor) * outer(seen, seen)
        return NormalVector((precision @ jnp.where(seen > 0, x, 0.0)[..., None])[..., 0], precision)

    def log_base(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        seen, factor = self._seen(x)
        distance = quadratic_form(factor, jnp.where(seen > 0, x, 0.0))
        return -0.5 * (distance + log_det(factor) + jnp.sum(seen, axis=-1) * LOG_2PI)

    def _seen(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Float[Array, "#n d d"]]:
        """1 where a column is seen, and the factor of the seen block of the covariance (identity elsewhere)."""
        if not self.missing:
            factor = cholesky(self.covariance)
            return jnp.ones_like(x), jnp.broadcast_to(factor, (x.shape[0], *factor.shape))
        seen = (~jnp.isnan(x)).astype(jnp.float64)
        both = outer(seen, seen) > 0
        return seen, cholesky(jnp.where(both, self.covariance[None], jnp.eye(x.shape[-1])[None]))

    def sample(self, key: Key[Array, ""], draw: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        factor = cholesky(self.covariance)
        return draw + jax.random.normal(key, draw.shape) @ factor.T

    def default_prior(self, x: Any, size: int) -> Normal:
        """Centred on the data with ten times their variance in each column."""
        spread = jnp.maximum(jnp.nanvar(x, axis=0), 1e-12)
        mean = jnp.broadcast_to(jnp.nanmean(x, axis=0), (size, x.shape[-1]))
        return Normal(mean, jnp.broadcast_to(10.0 * jnp.diag(spread), (size, x.shape[-1], x.shape[-1])))
