"""Gaussian latents summed out: log ∫ exp(hᵀz − ½ zᵀPz) dz with its derivative in closed form.

The derivative is (E[z], −½ E[z zᵀ]); one Cholesky factor gives it together with the value. Given a key, the statistics
of one draw stand in for these expectations, which turns a model's function into a sampler. `latents.integrate_out`
computes this by automatic differentiation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from .linalg import cholesky, gram, inner, inverse_factor, log_det, outer, times, transpose
from .special import LOG_2PI


class GaussianMoments(NamedTuple):
    """The mean of each z, and its covariance (a single matrix where all data share one precision)."""

    mean: Float[Array, "n k"]
    covariance: Float[Array, "*n k k"]


def gaussian_moments(linear: Float[Array, "n k"], precision: Float[Array, "*n k k"]) -> GaussianMoments:
    """E[z] and Cov[z] under exp(hᵀz − ½ zᵀPz), with one P per datum, or a single P (k, k)."""
    _, white, half = _value(linear, precision)
    return GaussianMoments(_times(half, white), gram(half))


def gaussian_integral(
    linear: Float[Array, "n k"], precision: Float[Array, "*n k k"], key: Key[Array, ""] | None = None
) -> Float[Array, " n"]:
    """log ∫ exp(hᵀz − ½ zᵀPz) dz of each datum, with one P per datum, or a single P (k, k)."""
    if key is None:
        return _integral(linear, precision)
    value, white, half = _value(linear, precision)
    z = stop_gradient(_times(half, white + jax.random.normal(key, linear.shape)))
    exponent = inner(linear, z) - 0.5 * inner(z, _times(precision, z))
    return stop_gradient(value) + (exponent - stop_gradient(exponent))


@jax.custom_jvp
def _integral(linear: Float[Array, "n k"], precision: Float[Array, "*n k k"]) -> Float[Array, " n"]:
    return _value(linear, precision)[0]


@_integral.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    (linear, precision), (linear_dot, precision_dot) = primals, tangents
    value, white, half = _value(linear, precision)
    mean, covariance = _times(half, white), gram(half)
    if precision.ndim == 2:
        # Σ over data first: the derivative in P is then one product of matrices, not n outer products.
        spread = jnp.sum(covariance * precision_dot) + inner(mean, mean @ precision_dot)
    else:
        spread = jnp.sum((covariance + outer(mean, mean)) * precision_dot, axis=(-2, -1))
    return value, inner(mean, linear_dot) - 0.5 * spread


def _value(linear: Array, precision: Array) -> tuple[Float[Array, " n"], Float[Array, "n k"], Float[Array, "*n k k"]]:
    """The log integral, L⁻¹h and L⁻¹; the moments are products of the latter two."""
    factor = cholesky(precision)
    half = inverse_factor(factor)
    white = _times(transpose(half), linear)
    value = 0.5 * (inner(white, white) - log_det(factor) + linear.shape[-1] * LOG_2PI)
    return value, white, half


def _times(matrix: Array, vector: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """vᵀM of each datum, with one M per datum or a single M."""
    return vector @ matrix if matrix.ndim == 2 else times(transpose(matrix), vector)
