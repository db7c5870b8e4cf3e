"""A change of the factors' coordinates that leaves x = Wz + μ as it is, and raises the bound.

Mean-field coordinate ascent moves along the rotations, scales and shifts of the factors by tiny steps, because q(W)
holds z fast and q(z) holds W. One joint step z′ = A(z − c), W′ = WA⁻¹, μ′ = μ + Wc is free of that: it changes only
the terms of the two priors. The best A for a vague prior makes the scores white and the columns of W orthogonal
(Ilin & Raiko, 2010); it is taken where it raises the bound, which holds for any prior.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ...families import Gamma, GammaVector, Normal, NormalVector
from ...numerics.linalg import cholesky, log_det, symmetrise, whiten


class Scores(NamedTuple):
    """Σ_n of the weights, of E[z] and of E[z zᵀ]."""

    total: Float[Array, ""]
    first: Float[Array, " k"]
    second: Float[Array, "k k"]


class Sizes(NamedTuple):
    """What the prior says about the loadings' size: a Gamma over α, or α where it is known; s and κ."""

    relevance: Gamma | Float[Array, " k"]
    scale: Float[Array, " d"]
    level: Float[Array, ""]


def rotate(loadings: Normal, scores: Scores, sizes: Sizes) -> tuple[Normal, GammaVector | None]:
    """The loadings in better coordinates (or as they were), and the best natural parameter of α for them."""
    k, d = scores.first.shape[0], sizes.scale.shape[0]
    one = jnp.eye(k)
    centre = scores.first / scores.total
    lower = cholesky(scores.second / scores.total - centre[:, None] * centre[None])
    square = -2.0 * jnp.tensordot(1.0 / jnp.square(sizes.scale), loadings.mean().precision, axes=1)
    _, axes = jnp.linalg.eigh(symmetrise(lower.T @ square[:k, :k] @ lower))
    axes = axes[:, ::-1]
    # The scores' covariance L Lᵀ, then the loadings' axes U: A = Uᵀ L⁻¹, so that w′ = A⁻ᵀ w = Uᵀ Lᵀ w.
    move = _augmented((lower @ axes).T, centre)
    back = whiten(lower, one).T @ axes
    inverse = _augmented(back, -(centre @ back))
    after = move @ square @ move.T
    # (N − D) log |A| − ½ Σ E|z′|² against − ½ Σ E|z|².
    gain = -0.5 * (scores.total - d) * log_det(lower) - 0.5 * (scores.total * k - jnp.trace(scores.second))
    gain = gain + _log_prior(after, sizes) - _log_prior(square, sizes)
    accepted = gain > 0.0  # a NaN, from scores without extent, is refused too
    inverse = jnp.where(accepted, inverse, jnp.eye(k + 1))
    natural = NormalVector(
        loadings.natural.linear @ inverse,
        symmetrise(inverse.T[None] @ loadings.natural.precision @ inverse[None]),
    )
    return loadings.with_natural(natural), _relevance(jnp.where(accepted, after, square), sizes)


def _augmented(turn: Float[Array, "k k"], last: Float[Array, " k"]) -> Float[Array, "k+1 k+1"]:
    k = last.shape[0]
    return jnp.eye(k + 1).at[:k, :k].set(turn).at[k, :k].set(last)


def _log_prior(square: Float[Array, "k+1 k+1"], sizes: Sizes) -> Float[Array, ""]:
    """What the size of the loadings and of the mean does to the bound, with the best q(α)."""
    each = jnp.diagonal(square)
    value = -0.5 * sizes.level * each[-1]
    if isinstance(sizes.relevance, Gamma):
        shape, rate = sizes.relevance.shape + 0.5 * sizes.scale.shape[0], sizes.relevance.rate
        return value - jnp.sum(shape * jnp.log(rate + 0.5 * each[:-1]))
    return value - 0.5 * jnp.sum(sizes.relevance * each[:-1])


def _relevance(square: Float[Array, "k+1 k+1"], sizes: Sizes) -> GammaVector | None:
    if not isinstance(sizes.relevance, Gamma):
        return None
    prior = sizes.relevance.natural
    return GammaVector(prior.log + 0.5 * sizes.scale.shape[0], prior.value - 0.5 * jnp.diagonal(square)[:-1])
