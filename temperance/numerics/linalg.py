"""Positive-definite linear algebra: factor once, then solve. Nothing here calls `inv`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float

from . import _tiny


def cholesky(matrix: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """The lower factor L of `matrix` = L Lᵀ; NaN where the matrix is not positive definite."""
    if matrix.shape[-1] <= _tiny.TINY:
        return _tiny.cholesky(matrix)
    return jnp.linalg.cholesky(matrix, symmetrize_input=False)


def log_det(factor: Float[Array, "*b d d"]) -> Float[Array, "*b"]:
    """log |L Lᵀ| from the Cholesky factor."""
    if factor.shape[-1] <= _tiny.TINY:
        return 2.0 * jnp.log(_tiny.multiply(factor[..., i, i] for i in range(factor.shape[-1])))
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def whiten(factor: Float[Array, "*b d d"], right: Float[Array, "*b d m"]) -> Float[Array, "*b d m"]:
    """L⁻¹ B."""
    if _is_tiny(right):
        return _tiny.solve_lower(factor, right)
    return solve_triangular(factor, right, lower=True)


def transposed_solve(factor: Float[Array, "*b d d"], right: Float[Array, "*b d m"]) -> Float[Array, "*b d m"]:
    """L⁻ᵀ B."""
    if _is_tiny(right):
        return _tiny.solve_lower(factor, right, transposed=True)
    return solve_triangular(factor, right, lower=True, trans=1)


def solve(factor: Float[Array, "*b d d"], right: Float[Array, "*b d m"]) -> Float[Array, "*b d m"]:
    """(L Lᵀ)⁻¹ B."""
    return transposed_solve(factor, whiten(factor, right))


def solve_vector(factor: Float[Array, "*b d d"], right: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """(L Lᵀ)⁻¹ b."""
    return solve(factor, right[..., None])[..., 0]


def transposed_solve_vector(factor: Float[Array, "*b d d"], right: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """L⁻ᵀ b: turns white noise into noise of precision L Lᵀ."""
    return transposed_solve(factor, right[..., None])[..., 0]


def quadratic_form(factor: Float[Array, "*b d d"], vector: Float[Array, "*b d"]) -> Float[Array, "*b"]:
    """vᵀ (L Lᵀ)⁻¹ v, never negative."""
    half = whiten(factor, vector[..., None])[..., 0]
    return inner(half, half)


def inverse_factor(factor: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """L⁻¹, which turns several solves with one factor into products without calls to LAPACK."""
    return whiten(factor, jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape))


def gram(half: Float[Array, "*b d m"]) -> Float[Array, "*b m m"]:
    """HᵀH."""
    return _tiny.gram(half) if _is_tiny(half) else transpose(half) @ half


def explicit_inverse(factor: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """(L Lᵀ)⁻¹ as a symmetric matrix, for where the entries themselves are the answer (a mean precision)."""
    return gram(inverse_factor(factor))


def times(matrix: Float[Array, "*b m d"], vector: Float[Array, "*b d"]) -> Float[Array, "*b m"]:
    return (matrix @ vector[..., None])[..., 0]


def _is_tiny(right: Float[Array, "*b d m"]) -> bool:
    return max(right.shape[-2:]) <= _tiny.TINY


def transpose(matrix: Float[Array, "*b d e"]) -> Float[Array, "*b e d"]:
    return matrix.swapaxes(-1, -2)


def symmetrise(matrix: Float[Array, "*b d d"]) -> Float[Array, "*b d d"]:
    """The symmetric part of a matrix, which removes asymmetry caused by rounding."""
    return 0.5 * (matrix + transpose(matrix))


def inner(left: Float[Array, "*b d"], right: Float[Array, "*b d"]) -> Float[Array, "*b"]:
    if max(left.shape[-1], right.shape[-1]) <= _tiny.TINY:
        # Written out, the compiler fuses it with the operations before and after into one loop.
        product = left * right
        return _tiny.add(product[..., i] for i in range(product.shape[-1]))
    return jnp.sum(left * right, axis=-1)


def total(terms: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    """Σ over the last axis, as a product with ones: on the CPU the compiler merges a sum with the computation of its
    terms into a loop without vector instructions, which for special functions is several times slower."""
    return terms @ jnp.ones(terms.shape[-1], dtype=terms.dtype)


def outer(left: Float[Array, "*b d"], right: Float[Array, "*b e"]) -> Float[Array, "*b d e"]:
    return left[..., :, None] * right[..., None, :]


def is_positive_definite(matrix: Float[Array, "*b d d"]) -> Bool[Array, "*b"]:
    # Scaling to unit diagonal first makes the verdict independent of the units of the columns.
    diagonal = jnp.diagonal(matrix, axis1=-2, axis2=-1)
    positive = jnp.all(diagonal > 0, axis=-1)
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    # A failure makes every entry NaN.
    return positive & jnp.isfinite(cholesky(matrix * outer(scale, scale))[..., -1, -1])
