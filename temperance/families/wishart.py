"""Wishart over precision matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.linalg import cholesky, explicit_inverse, is_positive_definite, log_det, transposed_solve
from ..numerics.random import log_gamma_variate, normal
from ..numerics.special import inverse_wishart_gap, log_multigamma, multidigamma
from ._family import ClosedForm, Family, Vector, closed_form
from ._parameters import as_arrays, is_traced, parameters, positive_definite, require

# Stands for zero on the boundary of the domain, where a logarithm must stay finite.
TINY = 1e-100


class WishartVector(Vector):
    """η = (scatter, dof − d − 1), t(Λ) = (−½ Λ, ½ log|Λ|). Its parts are `scatter` and `dof`."""

    scatter: Float[Array, "*b d d"]
    dof: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("symmetric", "scalar")


def log_wishart_normaliser(factor: Float[Array, "*b d d"], dof: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """log ∫ |Λ|^((dof − d − 1)/2) exp(−½ tr SΛ) dΛ, from the Cholesky factor of the scatter S."""
    d = factor.shape[-1]
    return 0.5 * dof * (d * math.log(2.0) - log_det(factor)) + log_multigamma(0.5 * dof, d)


def mean_log_det(factor: Float[Array, "*b d d"], dof: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """E[log|Λ|]."""
    d = factor.shape[-1]
    return multidigamma(0.5 * dof, d) + d * math.log(2.0) - log_det(factor)


def sample_bartlett(
    key: Key[Array, ""], dof: Float[Array, "*b"], d: int, least: float = 1e-13
) -> tuple[Float[Array, "*b d d"], Float[Array, "*b"]]:
    """Bartlett's lower triangular B, with B Bᵀ ~ Wishart(dof, I), and log|B Bᵀ|.

    With dof near d − 1 a draw can be singular in floating point, and its factor NaN. `least` bounds draws away from
    singular ones, for callers that use only the entries of B Bᵀ.
    """
    key_diagonal, key_below = jax.random.split(key)
    index = jnp.arange(d, dtype=dof.dtype).reshape((1,) * dof.ndim + (d,))
    log_chi2 = math.log(2.0) + log_gamma_variate(key_diagonal, 0.5 * (dof[..., None] - index))
    log_chi2 = jnp.maximum(log_chi2, jnp.log(least * dof[..., None]))
    below = jnp.tril(normal(key_below, (*dof.shape, d, d)), -1)
    diagonal = jnp.exp(0.5 * log_chi2)[..., None] * jnp.eye(d).reshape((1,) * dof.ndim + (d, d))
    return below + diagonal, jnp.sum(log_chi2, axis=-1)


def sample_precision(
    key: Key[Array, ""], factor: Float[Array, "*b d d"], dof: Float[Array, "*b"]
) -> tuple[Float[Array, "*b d d"], Float[Array, "*b d d"]]:
    """Λ = L⁻ᵀ B Bᵀ L⁻¹ with S = L Lᵀ; returns Λ and B."""
    bartlett, _ = sample_bartlett(key, dof, factor.shape[-1])
    half = transposed_solve(factor, bartlett)
    return half @ jnp.swapaxes(half, -1, -2), bartlett


def sample_covariant(
    key: Key[Array, ""], factor: Float[Array, "*b d d"], bartlett: Float[Array, "*b d d"], columns: int
) -> Float[Array, "*b d m"]:
    """Columns of noise with covariance Λ⁻¹ = (L B⁻ᵀ)(L B⁻ᵀ)ᵀ, from the factors of the draw, without a second
    Cholesky."""
    noise = normal(key, (*factor.shape[:-1], columns))
    return factor @ transposed_solve(bartlett, noise)


def match_precision_mean(
    mean_precision: Float[Array, "*b d d"], mean_log: Float[Array, "*b"], guess: Float[Array, "*b"] | None = None
) -> tuple[Float[Array, "*b d d"], Float[Array, "*b"]]:
    """(scatter, dof) with E[Λ] = `mean_precision` and E[log|Λ|] = `mean_log`; dof is searched for from `guess`."""
    factor = cholesky(mean_precision)
    dof = inverse_wishart_gap(log_det(factor) - mean_log, factor.shape[-1], guess)
    return dof[..., None, None] * explicit_inverse(factor), dof


def require_dof(dof: Any, dim: int) -> None:
    if not is_traced(dof):
        require(dof > dim - 1, f"dof must be greater than dimension − 1 = {dim - 1}", dof)


def _value_and_mean(natural: WishartVector) -> tuple[Float[Array, "*b"], WishartVector]:
    factor = cholesky(natural.scatter)
    dof = natural.dof + factor.shape[-1] + 1
    mean = WishartVector(-0.5 * dof[..., None, None] * explicit_inverse(factor), 0.5 * mean_log_det(factor, dof))
    return log_wishart_normaliser(factor, dof), mean


class Wishart(Family):
    """Precision matrices Λ (d, d) with E[Λ] = dof · scatter⁻¹: `dof` is above d − 1, `scatter` is positive definite."""

    natural: WishartVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, dof: ArrayLike, scatter: ArrayLike):
        nu, s = parameters(dof=(dof, 0), scatter=(scatter, 2))
        s = positive_definite("scatter", s)
        d = s.shape[-1]
        require_dof(nu, d)
        self.natural = as_arrays(WishartVector(s, nu - d - 1))

    @property
    def dof(self) -> Float[Array, "*b"]:
        return self.natural.dof + self.natural.scatter.shape[-1] + 1

    @property
    def scatter(self) -> Float[Array, "*b d d"]:
        return self.natural.scatter

    def described(self) -> dict[str, Any]:
        return {"mean": self.dof[..., None, None] * explicit_inverse(cholesky(self.scatter))}

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.dof > -2.0) & is_positive_definite(self.natural.scatter)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b d d"]:
        return sample_precision(key, cholesky(self.scatter), self.dof)[0]

    def statistics(self, draw: Float[Array, "*b d d"]) -> WishartVector:
        return WishartVector(-0.5 * draw, 0.5 * log_det(cholesky(draw)))

    def mode(self) -> Float[Array, "*b d d"]:
        # With dof ≤ d + 1 the density grows towards singular matrices; a nearly zero matrix stands for their limit.
        scale = jnp.maximum(self.natural.dof, TINY)[..., None, None]
        return scale * explicit_inverse(cholesky(self.scatter))

    @classmethod
    def from_mean(cls, mean: WishartVector, guess: Self | None = None) -> Self:
        start = None if guess is None else guess.dof
        scatter, dof = match_precision_mean(-2.0 * mean.scatter, 2.0 * mean.dof, start)
        return cls.from_natural(WishartVector(scatter, dof - scatter.shape[-1] - 1))
