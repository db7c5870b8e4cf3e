"""Where a state space starts: observation near the principal axes, dynamics of random persistence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import GammaVector, Normal, NormalVector
from ...families._family import Family
from .._data import Data
from .._model import Posterior
from .factor_start import principal_loadings

if TYPE_CHECKING:
    from .state_space import StateSpace


def principal_start(model: StateSpace, key: Key[Array, ""], data: Data) -> Posterior:
    """Observation near the principal axes, dynamics of random persistence, precisions to match. No walk over the
    series: the first sweep has one, and to compile another takes as long as many fits."""
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
    # Rows are as certain as regressions on states of variance one would make them.
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
    """In units of the columns' spread."""
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
