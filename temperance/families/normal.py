"""Multivariate Normal in information form, and the Gaussian likelihood of known covariance."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..errors import InvalidData
from ..numerics.linalg import (
    cholesky,
    explicit_inverse,
    gram,
    inner,
    inverse_factor,
    is_positive_definite,
    log_det,
    outer,
    quadratic_form,
    solve_vector,
    times,
    transpose,
    transposed_solve_vector,
)
from ..numerics.random import normal
from ._family import LOG_2PI, ClosedForm, Family, Vector, along_last, closed_form
from ._pair import Pair
from ._parameters import as_arrays, as_float, parameters, positive_definite, require


class NormalVector(Vector):
    """η = (Λ m, Λ), t(x) = (x, −½ x xᵀ). Its parts are `linear` and `precision`."""

    linear: Float[Array, "*b d"]
    precision: Float[Array, "*b d d"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "symmetric")

    @property
    def width(self) -> int:
        return self.linear.shape[-1]

    def moved(self, shift: Float[Array, " d"]) -> Self:
        step = (self.precision @ along_last(shift, self.linear)[..., None])[..., 0]
        return type(self)(self.linear + step, self.precision)


def _value_and_mean(natural: NormalVector) -> tuple[Float[Array, "*b"], NormalVector]:
    factor = cholesky(natural.precision)
    half = inverse_factor(factor)  # all that follows are products with this inverse
    white = times(half, natural.linear)
    centre = times(transpose(half), white)
    d = natural.linear.shape[-1]
    value = 0.5 * (inner(white, white) - log_det(factor) + d * LOG_2PI)
    return value, NormalVector(centre, -0.5 * (gram(half) + outer(centre, centre)))


_invert = jax.jit(lambda matrix: explicit_inverse(cholesky(matrix)))


class Normal(Family):
    """p(x) = N(x | mean, covariance), in d dimensions.

    `mean` (d) comes with either the `covariance` or the `precision` (d, d), which is kept, as is precision · mean.
    """

    natural: NormalVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, mean: ArrayLike, covariance: ArrayLike | None = None, *, precision: ArrayLike | None = None):
        require((covariance is None) != (precision is None), "give exactly one of covariance and precision")
        if precision is None:
            m, matrix = parameters(mean=(mean, 1), covariance=(covariance, 2))
            matrix = _invert(as_float(positive_definite("covariance", matrix, m.shape[-1])))
        else:
            m, matrix = parameters(mean=(mean, 1), precision=(precision, 2))
            matrix = positive_definite("precision", matrix, m.shape[-1])
        self.natural = as_arrays(NormalVector((matrix @ m[..., None])[..., 0], matrix))

    @property
    def location(self) -> Float[Array, "*b d"]:
        return solve_vector(cholesky(self.natural.precision), self.natural.linear)

    @property
    def precision(self) -> Float[Array, "*b d d"]:
        return self.natural.precision

    @property
    def covariance(self) -> Float[Array, "*b d d"]:
        return explicit_inverse(cholesky(self.natural.precision))

    def is_proper(self) -> Bool[Array, "*b"]:
        return is_positive_definite(self.natural.precision)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b d"]:
        factor = cholesky(self.natural.precision)
        noise = normal(key, self.natural.linear.shape)
        return solve_vector(factor, self.natural.linear) + transposed_solve_vector(factor, noise)

    def statistics(self, draw: Float[Array, "*b d"]) -> NormalVector:
        return NormalVector(draw, -0.5 * outer(draw, draw))

    def mode(self) -> Float[Array, "*b d"]:
        return self.location

    def described(self) -> dict[str, Any]:
        width = np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))
        return {"mean": self.location, "uncertainty": width}

    @classmethod
    def from_mean(cls, mean: NormalVector, guess: Self | None = None) -> Self:
        second = -2.0 * mean.precision
        covariance = second - outer(mean.linear, mean.linear)
        # Moments of a few draws, or of a repeated one, have no spread but rounding in some direction.
        flat = jnp.any(jnp.isnan(cholesky(covariance)), axis=(-2, -1), keepdims=True)
        floor = 1e-12 * jnp.diagonal(second, axis1=-2, axis2=-1) + jnp.finfo(second.dtype).tiny
        unit = jnp.broadcast_to(jnp.eye(floor.shape[-1]), second.shape)
        return cls._matching(mean.linear, covariance + jnp.where(flat, floor[..., None] * unit, 0.0))

    @classmethod
    def _matching(cls, location: Array, covariance: Array) -> Self:
        precision = explicit_inverse(cholesky(covariance))
        return cls.from_natural(NormalVector((precision @ location[..., None])[..., 0], precision))

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        """The mixture of means, by the centred form of the covariance, which keeps its digits far from the origin."""
        weight = jnp.asarray(rate)
        share = weight[..., None]
        location = (1.0 - share) * self.location + share * other.location
        apart = self.location - other.location
        within = (1.0 - share)[..., None] * self.covariance + share[..., None] * other.covariance
        between = (weight * (1.0 - weight))[..., None, None] * outer(apart, apart)
        return type(self)._matching(location, within + between)


class KnownCovarianceGaussian(Pair):
    """x ~ N(μ, covariance) with the `covariance` (d, d) known and μ ~ Normal."""

    covariance: Float[Array, "d d"]
    missing: bool = eqx.field(static=True)  # whether NaN may stand for a column that was not seen

    def __init__(self, covariance: ArrayLike, missing: bool = False):
        self.missing = missing
        (matrix,) = parameters(covariance=(covariance, 2))
        self.covariance = as_float(positive_definite("covariance", matrix))

    def check(self, x: np.ndarray) -> np.ndarray:
        d = self.covariance.shape[-1]
        if x.shape[-1] != d:
            raise InvalidData(f"data has {x.shape[-1]} columns, but the known covariance is for {d}")
        return x

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
        """1 where a column is seen, and the factor of the covariance of the seen columns (the identity in other
        rows)."""
        if not self.missing:
            factor = cholesky(self.covariance)
            return jnp.ones_like(x), jnp.broadcast_to(factor, (x.shape[0], *factor.shape))
        seen = (~jnp.isnan(x)).astype(jnp.float64)
        both = outer(seen, seen) > 0
        return seen, cholesky(jnp.where(both, self.covariance[None], jnp.eye(x.shape[-1])[None]))

    def sample(self, key: Key[Array, ""], draw: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        factor = cholesky(self.covariance)
        return draw + normal(key, draw.shape) @ factor.T

    def default_prior(self, x: Any, size: int) -> Normal:
        """A Normal prior centred on the data, with ten times their variance in each column."""
        spread = np.nanvar(x, axis=0)
        spread = np.where(spread > 0.0, spread, 1.0)
        mean = np.broadcast_to(np.nanmean(x, axis=0), (size, x.shape[-1]))
        return Normal(mean, np.broadcast_to(10.0 * np.diag(spread), (size, x.shape[-1], x.shape[-1])))
