"""Matrix-Normal-Wishart over (weights, precision): linear-Gaussian regression and dynamics."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import cholesky, explicit_inverse, is_positive_definite, log_det, outer, solve
from ._family import LOG_2PI, Family, Vector, as_float, closed_form, require, require_square
from ._pair import Pair
from .wishart import log_wishart_normaliser, match_precision_mean, mean_log_det, require_wishart, sample_precision


class MatrixNormalWishartVector(Vector):
    """η = (M V, V, S + M V Mᵀ, dof − d − 1 + p), t(W, Λ) = (ΛW, −½ WᵀΛW, −½ Λ, ½ log|Λ|),
    T(x, y) = (y xᵀ, x xᵀ, y yᵀ, 1)."""

    cross: Float[Array, "*b d p"]
    inputs: Float[Array, "*b p p"]
    outputs: Float[Array, "*b d d"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("matrix", "symmetric", "symmetric", "scalar")


class WeightsAndPrecision(NamedTuple):
    """A draw of the regression weights W (d × p) and the noise precision Λ (d × d)."""

    weights: Float[Array, "*b d p"]
    precision: Float[Array, "*b d d"]


def _transpose(matrix: Array) -> Array:
    return jnp.swapaxes(matrix, -1, -2)


def _location(natural: MatrixNormalWishartVector) -> Float[Array, "*b d p"]:
    return _transpose(solve(cholesky(natural.inputs), _transpose(natural.cross)))


def _scatter(natural: MatrixNormalWishartVector) -> Float[Array, "*b d d"]:
    residual = natural.outputs - _location(natural) @ _transpose(natural.cross)
    return 0.5 * (residual + _transpose(residual))


def _value_and_mean(
    natural: MatrixNormalWishartVector,
) -> tuple[Float[Array, "*b"], MatrixNormalWishartVector]:
    d, p = natural.cross.shape[-2:]
    dof = natural.dof + d + 1 - p
    factor_inputs, factor = cholesky(natural.inputs), cholesky(_scatter(natural))
    location = _transpose(solve(factor_inputs, _transpose(natural.cross)))
    value = log_wishart_normaliser(factor, dof) + 0.5 * d * (p * LOG_2PI - log_det(factor_inputs))
    precision = dof[..., None, None] * explicit_inverse(factor)
    cross = precision @ location
    quadratic = d * explicit_inverse(factor_inputs) + _transpose(location) @ cross
    mean = MatrixNormalWishartVector(cross, -0.5 * quadratic, -0.5 * precision, 0.5 * mean_log_det(factor, dof))
    return value, mean


_log_normaliser = closed_form(_value_and_mean)


class MatrixNormalWishart(Family):
    """Λ ~ Wishart(dof, scatter), and W | Λ with E[W] = mean (d × p), rows of covariance Λ⁻¹ and columns of
    covariance pseudo_inputs⁻¹ (a p × p matrix that acts as the sum of x xᵀ of imaginary data)."""

    natural: MatrixNormalWishartVector

    def __init__(self, mean: ArrayLike, pseudo_inputs: ArrayLike, dof: ArrayLike, scatter: ArrayLike):
        mean, inputs, dof, scatter = map(as_float, (mean, pseudo_inputs, dof, scatter))
        require(mean.ndim >= 2, "mean must be a matrix (with leading batch axes)")
        require(jnp.isfinite(mean), "mean must be finite")
        d, p = mean.shape[-2:]
        require_square("pseudo_inputs", inputs, p)
        require(is_positive_definite(inputs), "pseudo_inputs must be positive definite")
        require_wishart(scatter, dof, d)
        batch = jnp.broadcast_shapes(mean.shape[:-2], inputs.shape[:-2], dof.shape, scatter.shape[:-2])
        mean = jnp.broadcast_to(mean, (*batch, d, p))
        inputs = jnp.broadcast_to(inputs, (*batch, p, p))
        scatter = jnp.broadcast_to(scatter, (*batch, d, d))
        cross = mean @ inputs
        outputs = scatter + cross @ _transpose(mean)
        self.natural = MatrixNormalWishartVector(
            cross, inputs, 0.5 * (outputs + _transpose(outputs)), jnp.broadcast_to(dof, batch) - d - 1 + p
        )

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

    def log_normaliser(self) -> Float[Array, "*b"]:
        return _log_normaliser(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        proper_inputs = is_positive_definite(self.natural.inputs)
        return proper_inputs & (self.dof > self.natural.cross.shape[-2] - 1) & is_positive_definite(self.scatter)

    def sample(self, key: Key[Array, ""]) -> WeightsAndPrecision:
        key_precision, key_weights = jax.random.split(key)
        precision = sample_precision(key_precision, cholesky(self.scatter), self.dof)
        noise = jax.random.normal(key_weights, self.natural.cross.shape)
        rows = jax.scipy.linalg.solve_triangular(cholesky(precision), noise, lower=True, trans=1)
        both = jax.scipy.linalg.solve_triangular(
            cholesky(self.natural.inputs), _transpose(rows), lower=True, trans=1
        )
        return WeightsAndPrecision(self.location + _transpose(both), precision)

    def statistics(self, draw: WeightsAndPrecision) -> MatrixNormalWishartVector:
        weights, precision = draw
        cross = precision @ weights
        return MatrixNormalWishartVector(
            cross,
            -0.5 * _transpose(weights) @ cross,
            -0.5 * precision,
            0.5 * log_det(cholesky(precision)),
        )

    def mode(self) -> WeightsAndPrecision:
        # At W = E[W] the density in Λ has exponent ½ (dof − d − 1 + p).
        precision = self.natural.dof[..., None, None] * explicit_inverse(cholesky(self.scatter))
        return WeightsAndPrecision(self.location, precision)

    @classmethod
    def from_mean(cls, mean: MatrixNormalWishartVector, guess: Self | None = None) -> Self:
        d, p = mean.cross.shape[-2:]
        precision = -2.0 * mean.outputs
        location = solve(cholesky(precision), mean.cross)
        spread = -2.0 * mean.inputs - _transpose(location) @ mean.cross
        inputs = d * explicit_inverse(cholesky(0.5 * (spread + _transpose(spread))))
        scatter, dof = match_precision_mean(precision, 2.0 * mean.dof)
        cross = location @ inputs
        return cls.from_natural(
            MatrixNormalWishartVector(cross, inputs, scatter + cross @ _transpose(location), dof - d - 1 + p)
        )


class LinearGaussian(Pair):
    """y ~ N(W x, Λ⁻¹) with (W, Λ) ~ matrix-Normal-Wishart; a datum is the pair (x, y)."""

    def statistics(self, x: tuple[Float[Array, "n p"], Float[Array, "n d"]]) -> MatrixNormalWishartVector:
        inputs, outputs = x
        return MatrixNormalWishartVector(
            outer(outputs, inputs), outer(inputs, inputs), outer(outputs, outputs), jnp.ones(inputs.shape[:-1])
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
        return mean + jax.scipy.linalg.solve_triangular(factor, noise[..., None], lower=True, trans=1)[..., 0]

    def default_prior(self, x: Any, size: int) -> MatrixNormalWishart:
        inputs, outputs = x
        p, d = inputs.shape[-1], outputs.shape[-1]
        variance = jnp.maximum(jnp.var(outputs, axis=0), 1e-12)
        scale = jnp.maximum(jnp.mean(jnp.square(inputs), axis=0), 1e-12)
        return MatrixNormalWishart(
            jnp.zeros((size, d, p)), 0.01 * jnp.diag(scale), jnp.full(size, d + 2.0), jnp.diag(variance)
        )
