"""Matrix-Normal-Wishart over (weights, precision): linear-Gaussian regression and dynamics."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import (
    cholesky,
    explicit_inverse,
    is_positive_definite,
    log_det,
    outer,
    solve,
    symmetrise,
    transpose,
    transposed_solve,
    transposed_solve_vector,
    whiten,
)
from ._family import LOG_2PI, ClosedForm, Vector, closed_form
from ._located import Located
from ._pair import Pair
from ._parameters import as_arrays, parameters, positive_definite
from .wishart import (
    TINY,
    log_wishart_normaliser,
    match_precision_mean,
    mean_log_det,
    require_dof,
    sample_covariant,
    sample_precision,
)


class MatrixNormalWishartVector(Vector):
    """η = (M V, V, S + M V Mᵀ, dof − d − 1 + p), t(W, Λ) = (ΛW, −½ WᵀΛW, −½ Λ, ½ log|Λ|),
    T(x, y) = (y xᵀ, x xᵀ, y yᵀ, 1). Its parts are `cross`, `inputs`, `outputs` and `dof`."""

    cross: Float[Array, "*b d p"]
    inputs: Float[Array, "*b p p"]
    outputs: Float[Array, "*b d d"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("matrix", "symmetric", "symmetric", "scalar")

    @property
    def width(self) -> int:
        return self.cross.shape[-2]

    def moved(self, shift: Float[Array, " d"]) -> Self:
        """Every column of the weights is a location."""
        location = _location(self) + shift[:, None]
        cross = location @ self.inputs
        outputs = _scatter(self) + symmetrise(cross @ transpose(location))
        return type(self)(cross, self.inputs, outputs, self.dof)


class WeightsAndPrecision(NamedTuple):
    """A draw of the regression weights W (d × p) and the noise precision Λ (d × d)."""

    weights: Float[Array, "*b d p"]  # W
    precision: Float[Array, "*b d d"]  # Λ


def _natural(location: Array, inputs: Array, dof: Array, scatter: Array) -> MatrixNormalWishartVector:
    d, p = location.shape[-2:]
    cross = location @ inputs
    outputs = scatter + symmetrise(cross @ transpose(location))
    return MatrixNormalWishartVector(cross, inputs, outputs, dof - d - 1 + p)


def _location(natural: MatrixNormalWishartVector) -> Float[Array, "*b d p"]:
    return transpose(solve(cholesky(natural.inputs), transpose(natural.cross)))


def _scatter(natural: MatrixNormalWishartVector) -> Float[Array, "*b d d"]:
    # M V Mᵀ as a square: a product of M with M V would cancel where V is badly conditioned.
    return natural.outputs - _square(whiten(cholesky(natural.inputs), transpose(natural.cross)))


def _square(half: Float[Array, "*b p d"]) -> Float[Array, "*b d d"]:
    return transpose(half) @ half


def _value_and_mean(
    natural: MatrixNormalWishartVector,
) -> tuple[Float[Array, "*b"], MatrixNormalWishartVector]:
    d, p = natural.cross.shape[-2:]
    dof = natural.dof + d + 1 - p
    factor_inputs, factor = cholesky(natural.inputs), cholesky(_scatter(natural))
    location = _location(natural)
    value = log_wishart_normaliser(factor, dof) + 0.5 * d * (p * LOG_2PI - log_det(factor_inputs))
    half, scale = whiten(factor, location), dof[..., None, None]
    mean = MatrixNormalWishartVector(
        scale * transposed_solve(factor, half),
        -0.5 * (d * explicit_inverse(factor_inputs) + scale * _square(half)),
        -0.5 * scale * explicit_inverse(factor),
        0.5 * mean_log_det(factor, dof),
    )
    return value, mean


class MatrixNormalWishart(Located):
    """Λ ~ Wishart(dof, scatter), and W | Λ with E[W] = mean, rows of covariance Λ⁻¹ and columns of covariance
    pseudo_inputs⁻¹.

    `mean` is (d, p). `pseudo_inputs` (p, p) is positive definite and acts as the sum of x xᵀ of imaginary data. `dof`
    is above d − 1, and `scatter` (d, d) is positive definite: E[Λ] = dof · scatter⁻¹.
    """

    natural: MatrixNormalWishartVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, mean: ArrayLike, pseudo_inputs: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        m, v, nu, s = parameters(mean=(mean, 2), pseudo_inputs=(pseudo_inputs, 2), dof=(dof, 0), scatter=(scatter, 2))
        v = positive_definite("pseudo_inputs", v, m.shape[-1])
        s = positive_definite("scatter", s, m.shape[-2])
        require_dof(nu, m.shape[-2])
        self.natural = as_arrays(_natural(m, v, nu, s))

    @property
    def location(self) -> Float[Array, "*b d p"]:
        """E[W]."""
        return _location(self.natural)

    @property
    def pseudo_inputs(self) -> Float[Array, "*b p p"]:
        return self.natural.inputs

    @property
    def dof(self) -> Float[Array, "*b"]:
        d, p = self.natural.cross.shape[-2:]
        return self.natural.dof + d + 1 - p

    @property
    def scatter(self) -> Float[Array, "*b d d"]:
        return _scatter(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        proper_inputs = is_positive_definite(self.natural.inputs)
        enough = self.dof > self.natural.cross.shape[-2] - 1
        return proper_inputs & enough & is_positive_definite(self.scatter)

    def sample(self, key: Key[Array, ""]) -> WeightsAndPrecision:
        key_precision, key_weights = jax.random.split(key)
        factor = cholesky(self.scatter)
        precision, bartlett = sample_precision(key_precision, factor, self.dof)
        rows = sample_covariant(key_weights, factor, bartlett, self.natural.cross.shape[-1])
        both = transposed_solve(cholesky(self.natural.inputs), transpose(rows))
        return WeightsAndPrecision(self.location + transpose(both), precision)

    def statistics(self, draw: WeightsAndPrecision) -> MatrixNormalWishartVector:
        weights, precision = draw
        cross = precision @ weights
        return MatrixNormalWishartVector(
            cross,
            -0.5 * symmetrise(transpose(weights) @ cross),
            -0.5 * precision,
            0.5 * log_det(cholesky(precision)),
        )

    def mode(self) -> WeightsAndPrecision:
        # At W = E[W] the density in Λ has exponent ½ (dof − d − 1 + p).
        scale = jnp.maximum(self.natural.dof, TINY)[..., None, None]
        return WeightsAndPrecision(self.location, scale * explicit_inverse(cholesky(self.scatter)))

    @staticmethod
    def _moments(mean: MatrixNormalWishartVector) -> tuple[Array, Array, Array]:
        precision = -2.0 * mean.outputs
        factor = cholesky(precision)
        half = whiten(factor, mean.cross)
        return transposed_solve(factor, half), -2.0 * mean.inputs - _square(half), precision

    @classmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        inputs = location.shape[-2] * explicit_inverse(cholesky(spread))
        scatter, dof = match_precision_mean(precision, mean_log, guess)
        return cls.from_natural(_natural(location, inputs, dof, scatter))

    def _spread(self, location: Float[Array, "*b d p"]) -> Float[Array, "*b p p"]:
        half = whiten(cholesky(self.scatter), self.location - location)
        within = location.shape[-2] * explicit_inverse(cholesky(self.pseudo_inputs))
        return within + self.dof[..., None, None] * _square(half)


class LinearGaussian(Pair):
    """y ~ N(W x, Λ⁻¹) with (W, Λ) ~ matrix-Normal-Wishart; a datum is the pair (x, y)."""

    def statistics(self, x: tuple[Float[Array, "n p"], Float[Array, "n d"]]) -> MatrixNormalWishartVector:
        inputs, outputs = x
        return MatrixNormalWishartVector(
            outer(outputs, inputs),
            outer(inputs, inputs),
            outer(outputs, outputs),
            jnp.ones(inputs.shape[:-1]),
        )

    def log_base(self, x: tuple[Float[Array, "n p"], Float[Array, "n d"]]) -> Float[Array, " n"]:
        outputs = x[1]
        return jnp.full(outputs.shape[:-1], -0.5 * outputs.shape[-1] * LOG_2PI)

    def sample(self, key: Key[Array, ""], draw: tuple[WeightsAndPrecision, Array]) -> Float[Array, "*b d"]:
        """`draw` is ((W, Λ), inputs); returns the outputs."""
        (weights, precision), inputs = draw
        mean = (weights @ inputs[..., None])[..., 0]
        noise = jax.random.normal(key, mean.shape)
        factor = cholesky(precision)
        return mean + transposed_solve_vector(factor, noise)

    def default_prior(self, x: Any, size: int) -> MatrixNormalWishart:
        inputs, outputs = x
        p, d = inputs.shape[-1], outputs.shape[-1]
        variance = jnp.maximum(jnp.var(outputs, axis=0), 1e-12)
        scale = jnp.maximum(jnp.mean(jnp.square(inputs), axis=0), 1e-12)
        return MatrixNormalWishart(
            jnp.zeros((size, d, p)), 0.01 * jnp.diag(scale), jnp.full(size, d + 2.0), jnp.diag(variance)
        )
