"""Coordinates of factors and hidden states: where they start, a change of them that raises the bound, and their order.

Mean-field coordinate ascent moves along the rotations, scales and shifts of the factors in tiny steps, because q(W)
holds z in place and q(z) holds W. The joint step

    z′ = A(z − c),    W′ = WA⁻¹,    μ′ = μ + Wc

leaves x = Wz + μ as it is and changes only the terms of the two priors. The best A for a vague prior makes the scores
white and the columns of W orthogonal (Ilin & Raiko, 2010); it is taken where it raises the bound, under any prior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import Gamma, GammaVector, Normal, NormalVector
from ...families._family import Family
from ...numerics.linalg import cholesky, log_det, symmetrise, whiten
from .._data import Data, over_blocks
from .._model import Posterior

if TYPE_CHECKING:
    from .state_space import StateSpace

_PRODUCTS = 4  # enough to come near the axes; from there a sweep is the better step
_SHAKE = 0.1


# ---- starts -----------------------------------------------------------------------------------------------


def principal_loadings(
    key: Key[Array, ""], data: Data, scale: Float[Array, " d"], size: int
) -> tuple[Float[Array, "d k"], Float[Array, " d"]]:
    """Loadings in units of `scale`, each times a random factor near 1, and the number of values in each column."""
    key_start, key_shake = jax.random.split(key)

    def block(part: Any, _: Array, axes: Float[Array, "d k"]) -> tuple[Any, tuple[()]]:
        x, weights = part
        seen = ~jnp.isnan(x)
        rows = jnp.where(seen, x, 0.0) / scale[None]
        return (rows.T @ (weights[:, None] * (rows @ axes)), weights @ seen.astype(x.dtype)), ()

    def times(axes: Float[Array, "d k"]) -> tuple[Float[Array, "d k"], Float[Array, " d"]]:
        rows = (data.values, data.weights)
        (product, count), _ = over_blocks(lambda part, number: block(part, number, axes), rows, *data.cuts)
        return product, count

    axes = jnp.linalg.qr(jax.random.normal(key_start, (scale.shape[0], size)))[0]
    axes = jax.lax.fori_loop(0, _PRODUCTS, lambda _, axes: jnp.linalg.qr(times(axes)[0])[0], axes)
    product, count = times(axes)
    variances, turn = jnp.linalg.eigh(axes.T @ product / jnp.maximum(data.total_weight, 1.0))
    variances = jnp.maximum(variances, 1e-3)
    # A principal variance is the sum of those of the factor and of the noise; the noise's is guessed to be ½.
    loadings = axes @ turn * jnp.sqrt(jnp.maximum(variances - 0.5, 0.1 * variances))[None]
    return loadings * jnp.exp(_SHAKE * jax.random.normal(key_shake, loadings.shape)), count


def principal_start(model: StateSpace, key: Key[Array, ""], data: Data) -> Posterior:
    """Observation near the principal axes, dynamics of random persistence, precisions to match. There is no walk
    over the series: the first sweep makes one, and compiling another would take as long as many fits."""
    key_c, key_a, key_v = jax.random.split(key, 3)
    x, scale, k = data.values, model._scale(), model.n_states
    steps = jnp.sum(data.weights[:, None] * ~jnp.isnan(x.real))
    count = jnp.einsum("n,ntd->d", data.weights, (~jnp.isnan(x.x)).astype(x.x.dtype))
    blocks: dict[str, Family] = {}
    shake = jnp.exp(0.5 * jax.random.normal(key_v, (k + len(scale),)))
    variance = 0.5 * jnp.square(scale) * shake[k:]
    if "noise" in model.prior:
        blocks["noise"] = model._family_of("noise") + GammaVector(0.5 * count, -0.5 * count * variance)
    if "state_noise" in model.prior:
        state_variance = 0.1 * jnp.mean(jnp.square(scale)) * shake[:k]
        half = jnp.full(k, 0.5 * steps)
        blocks["state_noise"] = model._family_of("state_noise") + GammaVector(half, -half * state_variance)
    # Rows are as certain as a regression on states of unit variance would make them.
    if "dynamics" in model.prior:
        a = jnp.diag(jax.random.uniform(key_a, (k,), minval=0.3, maxval=0.95))
        rows = jnp.concatenate([a, jnp.zeros((k, model.n_controls))], axis=1)
        blocks["dynamics"] = _around(rows, jnp.full(k, 1.0 + steps))
    if "observation" in model.prior:
        c = _loadings(model, key_c, data)
        if "relevance" in model.prior:
            half = jnp.full(k, 0.5 * len(scale))
            found = GammaVector(half, -0.5 * jnp.sum(jnp.square(c), axis=0))
            blocks["relevance"] = model._family_of("relevance") + found
        rows = jnp.concatenate([c * scale[:, None], jnp.zeros((len(scale), model.n_controls + 1))], axis=1)
        blocks["observation"] = _around(rows, (1.0 + count) / variance)
    return Posterior(blocks, {})


def _loadings(model: StateSpace, key: Key[Array, ""], data: Data) -> Float[Array, "d k"]:
    """Loadings in units of the columns' spread."""
    d, k = len(model._scale()), model.n_states
    if k > d:
        return 0.5 * jax.random.normal(key, (d, k))
    rows = data.values.x.reshape((-1, d))
    weights = (data.weights[:, None] * ~jnp.isnan(data.values.real)).reshape(-1)
    return principal_loadings(key, Data(rows, weights, rows.shape[0]), model._scale(), k)[0]


def _around(rows: Float[Array, "r c"], precision: Float[Array, " r"]) -> Normal:
    """Normal rows with these means, of independent entries."""
    matrix = precision[:, None, None] * np.eye(rows.shape[1])[None]
    return Normal.from_natural(NormalVector(precision[:, None] * rows, matrix))


# ---- rotation ---------------------------------------------------------------------------------------------


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


def rotate(loadings: Normal, scores: Scores, sizes: Sizes) -> Normal:
    """The loadings in better coordinates, or as they were; the bound is compared at the best q(α) for each."""
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
    accepted = gain > 0.0  # False for NaN too, which scores without any spread give
    inverse = jnp.where(accepted, inverse, jnp.eye(k + 1))
    natural = NormalVector(
        loadings.natural.linear @ inverse,
        symmetrise(inverse.T[None] @ loadings.natural.precision @ inverse[None]),
    )
    return loadings.with_natural(natural)


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
