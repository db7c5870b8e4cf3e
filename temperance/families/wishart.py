"""Wishart over precision matrices."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import cholesky, explicit_inverse, is_positive_definite, log_det
from ..numerics.special import inverse_wishart_gap, log_multigamma, multidigamma
from ._family import Family, Vector, as_float, closed_form, require, require_square, show


class WishartVector(Vector):
    """η = (scatter, dof − d − 1), t(Λ) = (−½ Λ, ½ log|Λ|)."""

    scatter: Float[Array, "*b d d"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("symmetric", "scalar")


def log_wishart_normaliser(
    factor: Float[Array, "*b d d"], dof: Float[Array, "*b"]
) -> Float[Array, "*b"]:
    """log ∫ |Λ|^((dof − d − 1)/2) exp(−½ tr SΛ) dΛ, from the Cholesky factor of the scatter S."""
    d = factor.shape[-1]
    return 0.5 * dof * (d * math.log(2.0) - log_det(factor)) + log_multigamma(0.5 * dof, d)


def mean_log_det(factor: Float[Array, "*b d d"], dof: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """E[log|Λ|]."""
    d = factor.shape[-1]
    return multidigamma(0.5 * dof, d) + d * math.log(2.0) - log_det(factor)


def sample_precision(
    key: Key[Array, ""], factor: Float[Array, "*b d d"], dof: Float[Array, "*b"]
) -> Float[Array, "*b d d"]:
    """Bartlett: Λ = L⁻ᵀ B Bᵀ L⁻¹ with S = L Lᵀ and B lower triangular."""
    d = factor.shape[-1]
    key_diagonal, key_below = jax.random.split(key)
    index = jnp.arange(d, dtype=dof.dtype).reshape((1,) * dof.ndim + (d,))
    diagonal = jnp.exp(0.5 * (math.log(2.0) + jax.random.loggamma(key_diagonal, 0.5 * (dof[..., None] - index))))
    below = jnp.tril(jax.random.normal(key_below, factor.shape), -1)
    bartlett = below + diagonal[..., None] * jnp.eye(d).reshape((1,) * dof.ndim + (d, d))
    half = jax.scipy.linalg.solve_triangular(factor, bartlett, lower=True, trans=1)
    return half @ jnp.swapaxes(half, -1, -2)


def match_precision_mean(
    mean_precision: Float[Array, "*b d d"], mean_log: Float[Array, "*b"]
) -> tuple[Float[Array, "*b d d"], Float[Array, "*b"]]:
    """(scatter, dof) with E[Λ] = `mean_precision` and E[log|Λ|] = `mean_log`."""
    factor = cholesky(mean_precision)
    dof = inverse_wishart_gap(log_det(factor) - mean_log, factor.shape[-1])
    return dof[..., None, None] * explicit_inverse(factor), dof


def require_wishart(scatter: Array, dof: Array, dim: int | None = None) -> None:
    """Refuse a scatter that is not positive definite, or too few degrees of freedom."""
    require_square("scatter", scatter, dim)
    require(is_positive_definite(scatter), f"scatter must be positive definite, got {show(scatter)}")
    limit = scatter.shape[-1] - 1
    require(
        jnp.isfinite(dof) & (dof > limit),
        f"dof must be greater than dimension − 1 = {limit}, got {show(dof)}",
    )


def _value_and_mean(natural: WishartVector) -> tuple[Float[Array, "*b"], WishartVector]:
    factor = cholesky(natural.scatter)
    dof = natural.dof + factor.shape[-1] + 1
    mean = WishartVector(
        -0.5 * dof[..., None, None] * explicit_inverse(factor), 0.5 * mean_log_det(factor, dof)
    )
    return log_wishart_normaliser(factor, dof), mean


_log_normaliser = closed_form(_value_and_mean)


class Wishart(Family):
    """Precision matrices Λ with E[Λ] = dof · scatter⁻¹."""

    natural: WishartVector

    def __init__(self, dof: ArrayLike, scatter: ArrayLike):
        dof, scatter = as_float(dof), as_float(scatter)
        require_wishart(scatter, dof)
        batch = jnp.broadcast_shapes(dof.shape, scatter.shape[:-2])
        d = scatter.shape[-1]
        self.natural = WishartVector(
            jnp.broadcast_to(scatter, (*batch, d, d)), jnp.broadcast_to(dof, batch) - d - 1
        )

    @property
    def dof(self) -> Float[Array, "*b"]:
        return self.natural.dof + self.natural.scatter.shape[-1] + 1

    @property
    def scatter(self) -> Float[Array, "*b d d"]:
        return self.natural.scatter

    def log_normaliser(self) -> Float[Array, "*b"]:
        return _log_normaliser(self.natural)

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.dof > -2.0) & is_positive_definite(self.natural.scatter)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b d d"]:
        return sample_precision(key, cholesky(self.scatter), self.dof)

    def statistics(self, draw: Float[Array, "*b d d"]) -> WishartVector:
        return WishartVector(-0.5 * draw, 0.5 * log_det(cholesky(draw)))

    def mode(self) -> Float[Array, "*b d d"]:
        return self.natural.dof[..., None, None] * explicit_inverse(cholesky(self.scatter))

    @classmethod
    def from_mean(cls, mean: WishartVector, guess: Self | None = None) -> Self:
        scatter, dof = match_precision_mean(-2.0 * mean.scatter, 2.0 * mean.dof)
        return cls.from_natural(WishartVector(scatter, dof - scatter.shape[-1] - 1))


