"""The start of message passing: a deliberately wrong prior factor breaks the symmetry between components.

A prior that treats all components alike is a fixed point of its own (thesis 2.7.2), so the factor of the prior starts
as if each component had seen one datum. After a pass over the data it is replaced by the true prior.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ...models import Data
from ...models._answers import Enumerable
from ...models._factors import Blocks, Factor, exact_prior
from ...models.mixture.starts import kmeans_plus_plus


def wrong_prior(key: Key[Array, ""], model: Enumerable, data: Data, factors: Factor) -> Blocks:
    """The prior with one datum added to each component.

    The datum is chosen as in the model's start: by seeds of k-means++, given means or responsibilities, or at random.
    """
    prior = exact_prior(model)
    size = prior["components"].batch_shape[0]
    return prior | {"components": prior["components"] + _seen(key, model, data, factors, size)}


def _seen(key: Key[Array, ""], model: Enumerable, data: Data, factors: Factor, size: int) -> Any:
    start = model.start
    if start.kind == "means":
        return model.pair.statistics(start.values)
    if start.kind == "responsibilities":
        shares = model.starting_labels(key, data) * data.weights[:, None]
        return _average(factors.statistics, shares / jnp.sum(shares, axis=0, keepdims=True))
    if start.kind in ("mixed", "kmeans++"):
        rows = _seeds(key, model, data, size)
    else:
        # With replacement: there may be more components than data.
        rows = jax.random.categorical(key, jnp.log(data.weights), shape=(size,))
    return jax.tree.map(lambda leaf: leaf[rows], factors.statistics)


def _seeds(key: Key[Array, ""], model: Enumerable, data: Data, size: int) -> Int[Array, " k"]:
    rows = model.pair.coordinates(data.values).astype(jnp.float64)
    spread = jnp.std(rows, axis=0)
    rows = rows / jnp.where(spread > 0, spread, 1.0)[None]
    centres = kmeans_plus_plus(key, rows, data.weights, size)
    return jnp.argmin(jnp.sum(jnp.square(centres[:, None] - rows[None]), axis=-1), axis=1)


def _average(statistics: Any, shares: Float[Array, "n k"]) -> Any:
    return jax.tree.map(lambda leaf: jnp.tensordot(shares, leaf, axes=(0, 0)), statistics)
