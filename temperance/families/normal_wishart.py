"""Normal-Wishart over (mean, precision), and the Gaussian likelihood of full covariance."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import (
    cholesky,
    explicit_inverse,
    inner,
    is_positive_definite,
    log_det,
    outer,
    quadratic_form,
    transposed_solve,
    transposed_solve_vector,
    whiten,
)
from ..numerics.random import normal
from ..numerics.special import log_gamma
from ._family import LOG_2PI, ClosedForm, Family, Vector, along_last, closed_form
from ._located import Located
from ._pair import Pair
from ._parameters import as_arrays, parameters, positive_definite, require_finite_positive
from .wishart import (
    TINY,
    log_wishart_normaliser,
    match_precision_mean,
    mean_log_det,
    require_dof,
    sample_bartlett,
)


class NormalWishartVector(Vector):
    """η = (v m, v, S + v m mᵀ, dof − d), t(μ, Λ) = (Λμ, −½ μᵀΛμ, −½ Λ, ½ log|Λ|), T(x) = (x, 1, x xᵀ, 1).

    Its parts are `first`, `count`, `second` and `dof`.
    """

    first: Float[Array, "*b d"]
    count: Float[Array, "*b"]
    second: Float[Array, "*b d d"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "scalar", "symmetric", "scalar")

    @property
    def width(self) -> int:
        return self.first.shape[-1]

    def moved(self, shift: Float[Array, " d"]) -> Self:
        # S + v m mᵀ by way of the scatter: subtract the term of the old mean, add that of the new one.
        first = self.first + self.count[..., None] * along_last(shift, self.first)
        second = _scatter(self) + outer(first, first) / self.count[..., None, None]
        return type(self)(first, self.count, second, self.dof)


class BeforeRounding(NamedTuple):
    """Functions of a draw that cannot be recovered from the rounded entries of a nearly singular Λ."""

    linear: Float[Array, "*b d"]  # Λμ
    square: Float[Array, "*b"]  # μᵀΛμ
    log_det: Float[Array, "*b"]  # log|Λ|


class MeanAndPrecision(NamedTuple):
    """A draw of the mean and the precision matrix of a Gaussian.

    With dof close to d − 1 most draws are nearly singular: `before` holds functions of the draw as they were before
    rounding.
    """

    mean: Float[Array, "*b d"]  # a vector
    precision: Float[Array, "*b d d"] | Float[Array, "*b d"]  # a matrix, or one number per column
    before: BeforeRounding | None = None


def from_root(mean: Float[Array, "*b d"], white: Float[Array, "*b d"], root: Array, log_det: Array) -> MeanAndPrecision:
    """The draw with Λ = R Rᵀ and `white` = Rᵀμ, which is of order one however singular Λ is."""
    linear = (root @ white[..., None])[..., 0]
    before = BeforeRounding(linear, inner(white, white), log_det)
    return MeanAndPrecision(mean, root @ jnp.swapaxes(root, -1, -2), before)


def _from_entries(mean: Float[Array, "*b d"], precision: Float[Array, "*b d d"]) -> BeforeRounding:
    linear = (precision @ mean[..., None])[..., 0]
    return BeforeRounding(linear, jnp.sum(linear * mean, axis=-1), log_det(cholesky(precision)))


def as_drawn(draw: Any) -> Any:
    """A draw given by the user, completed to the form that `sample` returns."""
    if not isinstance(draw, MeanAndPrecision) or draw.before is not None or draw.precision.ndim == draw.mean.ndim:
        return draw
    return draw._replace(before=_from_entries(draw.mean, draw.precision))


def _natural(location: Array, count: Array, dof: Array, scatter: Array) -> NormalWishartVector:
    second = scatter + count[..., None, None] * outer(location, location)
    return NormalWishartVector(count[..., None] * location, count, second, dof - location.shape[-1])


def _scatter(natural: NormalWishartVector) -> Float[Array, "*b d d"]:
    return natural.second - outer(natural.first, natural.first) / natural.count[..., None, None]


def _value_and_mean(natural: NormalWishartVector) -> tuple[Float[Array, "*b"], NormalWishartVector]:
    d = natural.first.shape[-1]
    dof = natural.dof + d
    location = natural.first / natural.count[..., None]
    factor = cholesky(_scatter(natural))
    value = log_wishart_normaliser(factor, dof) + 0.5 * d * (LOG_2PI - jnp.log(natural.count))
    half = whiten(factor, location[..., None])[..., 0]  # sums of its squares cannot cancel; products with E[Λ] can
    mean = NormalWishartVector(
        dof[..., None] * transposed_solve_vector(factor, half),
        -0.5 * (d / natural.count + dof * inner(half, half)),
        -0.5 * dof[..., None, None] * explicit_inverse(factor),
        0.5 * mean_log_det(factor, dof),
    )
    return value, mean


class NormalWishart(Located):
    """Λ ~ Wishart(dof, scatter) with E[Λ] = dof · scatter⁻¹, and μ | Λ ~ N(mean, (pseudo_count · Λ)⁻¹).

    `mean` (d) has the weight of `pseudo_count` data. `dof` is above d − 1, and `scatter` (d, d) is positive definite.
    In the thesis's symbols v = pseudo_count, a = dof/2, B = scatter/2.
    """

    natural: NormalWishartVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, mean: ArrayLike, pseudo_count: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        m, v, nu, s = parameters(mean=(mean, 1), pseudo_count=(pseudo_count, 0), dof=(dof, 0), scatter=(scatter, 2))
        require_finite_positive(pseudo_count=v)
        s = positive_definite("scatter", s, m.shape[-1])
        require_dof(nu, m.shape[-1])
        self.natural = as_arrays(_natural(m, v, nu, s))

    @property
    def location(self) -> Float[Array, "*b d"]:
        """The mean of μ."""
        return self.natural.first / self.natural.count[..., None]

    @property
    def pseudo_count(self) -> Float[Array, "*b"]:
        return self.natural.count

    @property
    def dof(self) -> Float[Array, "*b"]:
        return self.natural.dof + self.natural.first.shape[-1]

    @property
    def scatter(self) -> Float[Array, "*b d d"]:
        return _scatter(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        count = jnp.where(self.natural.count > 0, self.natural.count, 1.0)
        scatter = self.natural.second - outer(self.natural.first, self.natural.first) / count[..., None, None]
        return (self.natural.count > 0) & (self.natural.dof > -1.0) & is_positive_definite(scatter)

    def sample(self, key: Key[Array, ""]) -> MeanAndPrecision:
        key_precision, key_mean = jax.random.split(key)
        factor, location = cholesky(self.scatter), self.location
        # Λ = R Rᵀ with R = L⁻ᵀB, so Rᵀμ = Rᵀm + ε/√v for μ = m + L B⁻ᵀε/√v: no product with a singular Λ.
        bartlett, log_det_white = sample_bartlett(key_precision, self.dof, factor.shape[-1], least=TINY)
        root = transposed_solve(factor, bartlett)
        noise = normal(key_mean, location.shape) / jnp.sqrt(self.natural.count)[..., None]
        mean = location + (factor @ transposed_solve_vector(bartlett, noise)[..., None])[..., 0]
        white = (jnp.swapaxes(root, -1, -2) @ location[..., None])[..., 0] + noise
        return from_root(mean, white, root, log_det_white - log_det(factor))

    def statistics(self, draw: MeanAndPrecision) -> NormalWishartVector:
        mean, precision, before = draw
        before = before or _from_entries(mean, precision)
        return NormalWishartVector(before.linear, -0.5 * before.square, -0.5 * precision, 0.5 * before.log_det)

    def mode(self) -> MeanAndPrecision:
        scale = jnp.maximum(self.natural.dof, TINY)[..., None, None]
        return MeanAndPrecision(self.location, scale * explicit_inverse(cholesky(self.scatter)))

    def described(self) -> dict[str, Any]:
        # The inverse of the mean precision, which exists for every proper member (the mean covariance does not).
        width = np.diagonal(self.scatter, axis1=-2, axis2=-1) / self.dof[..., None]
        return {"mean": self.location, "sd": np.sqrt(width)}

    @staticmethod
    def _moments(mean: NormalWishartVector) -> tuple[Array, Array, Array]:
        precision = -2.0 * mean.second
        # E[Λμ] = E[Λ] m, and E[μᵀΛμ] = d/v + mᵀ E[Λ] m.
        factor = cholesky(precision)
        half = whiten(factor, mean.first[..., None])[..., 0]
        return transposed_solve_vector(factor, half), -2.0 * mean.count - inner(half, half), precision

    @classmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        scatter, dof = match_precision_mean(precision, mean_log, guess)
        return cls.from_natural(_natural(location, location.shape[-1] / spread, dof, scatter))

    def _spread(self, location: Float[Array, "*b d"]) -> Float[Array, "*b"]:
        distance = quadratic_form(cholesky(self.scatter), self.location - location)
        return location.shape[-1] / self.pseudo_count + self.dof * distance


class Gaussian(Pair):
    """x ~ N(μ, Λ⁻¹) with (μ, Λ) ~ Normal-Wishart: full covariance."""

    def coordinates(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return x

    def statistics(self, x: Float[Array, "n d"]) -> NormalWishartVector:
        one = jnp.ones(x.shape[:-1], dtype=x.dtype)
        return NormalWishartVector(x, one, outer(x, x), one)

    def features(self, x: Float[Array, "n d"]) -> Float[Array, "f n"]:
        """T(x) packed, from products of columns: ten times faster than packing x xᵀ datum by datum."""
        columns, one = x.T, jnp.ones((1, x.shape[0]), dtype=x.dtype)
        first, second = np.triu_indices(x.shape[1])
        return jnp.concatenate([columns, one, columns[first] * columns[second], one])

    def log_base(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        return jnp.full(x.shape[:-1], -0.5 * x.shape[-1] * LOG_2PI)

    def log_predictive(self, family: Family, x: Any, power: ArrayLike = 1.0) -> Float[Array, "n k"]:
        """The Student-t density: A(η + T(x)) − A(η) with one Cholesky factor per component instead of
        one per datum."""
        if not (isinstance(power, float) and power == 1.0):
            return super().log_predictive(family, x, power)
        assert isinstance(family, NormalWishart)
        d = x.shape[-1]
        dof, count = family.dof[None], family.pseudo_count[None]
        factor, white = self.whitened(family, x)
        distance = jnp.sum(jnp.square(white), axis=-2).T * count / (count + 1.0)
        return (
            log_gamma(0.5 * (dof + 1.0))
            - log_gamma(0.5 * (dof + 1.0 - d))
            - 0.5 * d * (jnp.log(jnp.pi) + jnp.log1p(1.0 / count))
            - 0.5 * log_det(factor)[None]
            - 0.5 * (dof + 1.0) * jnp.log1p(distance)
        )

    def whitened(self, family: NormalWishart, x: Any) -> tuple[Float[Array, "k d d"], Float[Array, "k d n"]]:
        """The factor L of each component's scatter, and L⁻¹(x − m) for its mean m."""
        factor = cholesky(family.scatter)
        centred = jnp.swapaxes(x[:, None] - family.location[None], 0, 1)  # k n d
        return factor, whiten(factor, jnp.swapaxes(centred, -1, -2))

    def sample(self, key: Key[Array, ""], draw: MeanAndPrecision) -> Float[Array, "*b d"]:
        noise = jax.random.normal(key, draw.mean.shape)
        # A matrix that rounding made singular is replaced by the nearest one that is not.
        d = noise.shape[-1]
        ridge = 1e-14 * jnp.eye(d).reshape((1,) * (noise.ndim - 1) + (d, d)) * draw.precision
        factor = cholesky(draw.precision + ridge)
        return draw.mean + transposed_solve_vector(factor, noise)

    def default_prior(self, x: Float[Array, "n d"], size: int) -> NormalWishart:
        """Weak, from the data's scale: mean at the data's mean with pseudo-count 0.01, dof = d + 2, and an
        expected covariance scatter/(dof − d − 1) of the data's variances divided by the number of components
        squared (to the power 2/d): components are expected to be narrower than the whole."""
        d = x.shape[-1]
        variance = default_spread(x, size)
        return NormalWishart(
            mean=np.broadcast_to(np.nanmean(x, axis=0), (size, d)),
            pseudo_count=np.full(size, 0.01),
            dof=np.full(size, d + 2.0),
            scatter=np.broadcast_to(np.diag(variance), (size, d, d)),
        )


def default_spread(x: Float[Array, "n d"], size: int) -> Float[Array, " d"]:
    """The variance expected within a component: that of each column, shrunk by size^(−2/d).

    A column that never varies (beyond what rounding alone can cause) has no scale to learn, and gets 1.
    """
    variance = np.nanvar(x, axis=0)
    rounding = 8.0 * np.finfo(np.float64).eps * np.nanmax(np.abs(x), axis=0)
    # Compiled sums round subnormal variances to zero.
    varies = (np.sqrt(variance) > rounding) & (variance >= np.finfo(np.float64).tiny)
    variance = np.where(varies, variance, 1.0)
    return variance * float(size) ** (-2.0 / x.shape[-1])
