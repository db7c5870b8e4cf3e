"""Matrices whose columns are independent and share one covariance of the rows: weights of a linear model.

`MatrixNormal` is for noise that is known; `MatrixNormalGamma` also holds the noise precision, one for all
columns.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import (
    cholesky,
    explicit_inverse,
    is_positive_definite,
    log_det,
    solve,
    symmetrise,
    transpose,
    transposed_solve,
)
from ..numerics.special import steady_log
from ._family import LOG_2PI, ClosedForm, Family, Vector, closed_form
from ._located import Located
from ._parameters import as_arrays, parameters, positive_definite, require_finite_positive
from .normal_gamma import gamma_terms, match_scalar_precision, sample_scalar_precision
from .wishart import TINY


class MatrixNormalVector(Vector):
    """η = (V C, V), t(W) = (W, −½ W Wᵀ), T(z, x) = (z xᵀ, z zᵀ) for x = Wᵀz + noise of unit variance.

    Its parts are `cross` and `gram`.
    """

    cross: Float[Array, "*b k d"]
    gram: Float[Array, "*b k k"]

    kinds: ClassVar[tuple[str, ...]] = ("matrix", "symmetric")


def _square(matrix: Float[Array, "*b k d"]) -> Float[Array, "*b k k"]:
    return symmetrise(matrix @ transpose(matrix))


def _value_and_mean(natural: MatrixNormalVector) -> tuple[Float[Array, "*b"], MatrixNormalVector]:
    k, d = natural.cross.shape[-2:]
    factor = cholesky(natural.gram)
    centre = solve(factor, natural.cross)
    value = 0.5 * (jnp.sum(centre * natural.cross, axis=(-2, -1)) - d * log_det(factor) + k * d * LOG_2PI)
    return value, MatrixNormalVector(centre, -0.5 * (d * explicit_inverse(factor) + _square(centre)))


class MatrixNormal(Family):
    """W with E[W] = `mean` (k, d), whose columns are independent with the covariance `precision`⁻¹ (k, k)."""

    natural: MatrixNormalVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, mean: ArrayLike, precision: ArrayLike):
        centre, matrix = parameters(mean=(mean, 2), precision=(precision, 2))
        matrix = positive_definite("precision", matrix, centre.shape[-2])
        self.natural = as_arrays(MatrixNormalVector(matrix @ centre, matrix))

    @property
    def location(self) -> Float[Array, "*b k d"]:
        return solve(cholesky(self.natural.gram), self.natural.cross)

    @property
    def precision(self) -> Float[Array, "*b k k"]:
        return self.natural.gram

    @property
    def covariance(self) -> Float[Array, "*b k k"]:
        """The covariance of the rows (k, k), which all columns share."""
        return explicit_inverse(cholesky(self.natural.gram))

    def is_proper(self) -> Bool[Array, "*b"]:
        return is_positive_definite(self.natural.gram)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b k d"]:
        factor = cholesky(self.natural.gram)
        noise = jax.random.normal(key, self.natural.cross.shape)
        return solve(factor, self.natural.cross) + transposed_solve(factor, noise)

    def statistics(self, draw: Float[Array, "*b k d"]) -> MatrixNormalVector:
        return MatrixNormalVector(draw, -0.5 * _square(draw))

    def mode(self) -> Float[Array, "*b k d"]:
        return self.location

    @classmethod
    def from_mean(cls, mean: MatrixNormalVector, guess: Self | None = None) -> Self:
        d = mean.cross.shape[-1]
        covariance = (-2.0 * mean.gram - _square(mean.cross)) / d
        gram = explicit_inverse(cholesky(covariance))
        return cls.from_natural(MatrixNormalVector(gram @ mean.cross, gram))


class MatrixNormalGammaVector(Vector):
    """η = (V C, V, s + tr CᵀVC, dof − 2 + k d), t(W, λ) = (λW, −½ λWWᵀ, −½ λ, ½ log λ),
    T(z, x) = (z xᵀ, z zᵀ, |x|², d). Its parts are `cross`, `gram`, `second` and `dof`."""

    cross: Float[Array, "*b k d"]
    gram: Float[Array, "*b k k"]
    second: Float[Array, "*b"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("matrix", "symmetric", "scalar", "scalar")


class WeightsAndScale(NamedTuple):
    """A draw of the weights W (k × d) and of the noise precision λ."""

    weights: Float[Array, "*b k d"]  # W
    precision: Float[Array, "*b"]  # λ


def _gamma_natural(centre: Array, gram: Array, dof: Array, scatter: Array) -> MatrixNormalGammaVector:
    k, d = centre.shape[-2:]
    cross = gram @ centre
    return MatrixNormalGammaVector(cross, gram, scatter + (centre * cross).sum(axis=(-2, -1)), dof - 2.0 + k * d)


def _gamma_value_and_mean(
    natural: MatrixNormalGammaVector,
) -> tuple[Float[Array, "*b"], MatrixNormalGammaVector]:
    k, d = natural.cross.shape[-2:]
    factor = cholesky(natural.gram)
    centre = solve(factor, natural.cross)
    scatter = natural.second - jnp.sum(centre * natural.cross, axis=(-2, -1))
    value, precision, half_log = gamma_terms(natural.dof + (2.0 - k * d), scatter)
    wide = precision[..., None, None]
    mean = MatrixNormalGammaVector(
        wide * centre,
        -0.5 * (d * explicit_inverse(factor) + wide * _square(centre)),
        -0.5 * precision,
        half_log,
    )
    return value + 0.5 * d * (k * LOG_2PI - log_det(factor)), mean


class MatrixNormalGamma(Located):
    """λ ~ Gamma(dof/2, rate = scatter/2), and W | λ with E[W] = mean (k × d), whose columns are independent
    with the covariance (λ · pseudo_inputs)⁻¹.

    `pseudo_inputs` (k, k) is positive definite and acts as the sum of z zᵀ of imaginary data around `mean`. `dof` and
    `scatter` are above 0; E[λ] = dof / scatter.
    """

    natural: MatrixNormalGammaVector
    closed: ClassVar[ClosedForm | None] = closed_form(_gamma_value_and_mean)

    def __init__(self, mean: ArrayLike, pseudo_inputs: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        centre, inputs, freedom, spread = parameters(
            mean=(mean, 2), pseudo_inputs=(pseudo_inputs, 2), dof=(dof, 0), scatter=(scatter, 0)
        )
        inputs = positive_definite("pseudo_inputs", inputs, centre.shape[-2])
        require_finite_positive(dof=freedom, scatter=spread)
        self.natural = as_arrays(_gamma_natural(centre, inputs, freedom, spread))

    @property
    def location(self) -> Float[Array, "*b k d"]:
        return solve(cholesky(self.natural.gram), self.natural.cross)

    @property
    def pseudo_inputs(self) -> Float[Array, "*b k k"]:
        return self.natural.gram

    @property
    def dof(self) -> Float[Array, "*b"]:
        k, d = self.natural.cross.shape[-2:]
        return self.natural.dof + (2.0 - k * d)

    @property
    def scatter(self) -> Float[Array, "*b"]:
        return self.natural.second - jnp.sum(self.location * self.natural.cross, axis=(-2, -1))

    def is_proper(self) -> Bool[Array, "*b"]:
        return is_positive_definite(self.natural.gram) & (self.dof > 0) & (self.scatter > 0)

    def sample(self, key: Key[Array, ""]) -> WeightsAndScale:
        key_precision, key_weights = jax.random.split(key)
        precision = sample_scalar_precision(key_precision, self.dof, self.scatter)
        noise = jax.random.normal(key_weights, self.natural.cross.shape)
        spread = transposed_solve(cholesky(self.natural.gram), noise)
        return WeightsAndScale(self.location + spread / jnp.sqrt(precision)[..., None, None], precision)

    def statistics(self, draw: WeightsAndScale) -> MatrixNormalGammaVector:
        weights, precision = draw
        wide = precision[..., None, None]
        return MatrixNormalGammaVector(
            wide * weights, -0.5 * wide * _square(weights), -0.5 * precision, 0.5 * steady_log(precision)
        )

    def mode(self) -> WeightsAndScale:
        # At W = E[W] the density in λ has exponent ½ (dof − 2 + k d).
        return WeightsAndScale(self.location, jnp.maximum(self.natural.dof, TINY) / self.scatter)

    @staticmethod
    def _moments(mean: MatrixNormalGammaVector) -> tuple[Array, Array, Array]:
        precision = -2.0 * mean.second
        location = mean.cross / precision[..., None, None]
        return location, -2.0 * mean.gram - symmetrise(mean.cross @ transpose(location)), precision

    @classmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        gram = explicit_inverse(cholesky(spread / location.shape[-1]))
        scatter, dof = match_scalar_precision(precision, mean_log, guess)
        return cls.from_natural(_gamma_natural(location, gram, dof, scatter))

    def _spread(self, location: Float[Array, "*b k d"]) -> Float[Array, "*b k k"]:
        within = location.shape[-1] * explicit_inverse(cholesky(self.natural.gram))
        return within + (self.dof / self.scatter)[..., None, None] * _square(self.location - location)
