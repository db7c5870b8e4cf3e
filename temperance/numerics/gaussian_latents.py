"""Gaussian latents summed out: log ∫ exp(hᵀz − ½ zᵀPz) dz with its derivative in closed form.

The derivative is (E[z], −½ E[z zᵀ]), which one Cholesky factor gives together with the value; a key replaces both
by those of one draw, which turns the same model function into a sampler. `latents.integrate_out` is the same by
automatic differentiation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from .linalg import cholesky, explicit_inverse, inner, log_det, outer, solve, solve_vector, transposed_solve
from .special import LOG_2PI


class GaussianMoments(NamedTuple):
    """The mean of each z, and its covariance (one for all data where the precision is one for all)."""

    mean: Float[Array, "n k"]
    covariance: Float[Array, "*n k k"]


def gaussian_moments(linear: Float[Array, "n k"], precision: Float[Array, "*n k k"]) -> GaussianMoments:
    """E[z] and Cov[z] under exp(hᵀz − ½ zᵀPz), with P one for each datum or (k, k) for all."""
    factor = cholesky(precision)
    return GaussianMoments(_solve(factor, linear), explicit_inverse(factor))


def gaussian_integral(
    linear: Float[Array, "n k"], precision: Float[Array, "*n k k"], key: Key[Array, ""] | None = None
) -> Float[Array, " n"]:
    """log ∫ exp(hᵀz − ½ zᵀPz) dz of each datum, with P one for each, or (k, k) for all."""
    if key is None:
        return _integral(linear, precision)
    factor = cholesky(precision)
    noise = jax.random.normal(key, linear.shape)
    spread = transposed_solve(factor, noise.T).T if precision.ndim == 2 else _column(transposed_solve, factor, noise)
    z = stop_gradient(_solve(factor, linear) + spread)
    exponent = inner(linear, z) - 0.5 * inner(z, _times(precision, z))
    return stop_gradient(_integral(linear, precision)) + (exponent - stop_gradient(exponent))


@jax.custom_jvp
def _integral(linear: Float[Array, "n k"], precision: Float[Array, "*n k k"]) -> Float[Array, " n"]:
    return _value(linear, cholesky(precision))[0]


@_integral.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    (linear, precision), (linear_dot, precision_dot) = primals, tangents
    factor = cholesky(precision)
    value, mean = _value(linear, factor)
    covariance = explicit_inverse(factor)
    if precision.ndim == 2:
        # Σ over data first: the derivative in P is then one product of matrices, not n outer products.
        spread = jnp.sum(covariance * precision_dot) + inner(mean, mean @ precision_dot)
    else:
        spread = jnp.sum((covariance + outer(mean, mean)) * precision_dot, axis=(-2, -1))
    return value, inner(mean, linear_dot) - 0.5 * spread


def _value(linear: Array, factor: Array) -> tuple[Float[Array, " n"], Float[Array, "n k"]]:
    mean = _solve(factor, linear)
    return 0.5 * (inner(mean, linear) - log_det(factor) + linear.shape[-1] * LOG_2PI), mean


def _solve(factor: Array, right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    return solve(factor, right.T).T if factor.ndim == 2 else solve_vector(factor, right)


def _times(matrix: Array, vector: Float[Array, "n k"]) -> Float[Array, "n k"]:
    return vector @ matrix if matrix.ndim == 2 else (matrix @ vector[..., None])[..., 0]


def _column(function, factor: Array, right: Float[Array, "n k"]) -> Float[Array, "n k"]:  # type: ignore[no-untyped-def]
    return function(factor, right[..., None])[..., 0]
