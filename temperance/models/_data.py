"""What a model is fitted to: arrays with one leading axis of data, weights, and how to walk over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Data(eqx.Module):
    """N data as a pytree of arrays with a leading axis, padded with weight zero to whole blocks."""

    values: Any
    weights: Float[Array, " n"]
    size: int = eqx.field(static=True)  # the number of data without the padding
    blocks: int = eqx.field(static=True, default=1)

    @property
    def total_weight(self) -> Float[Array, ""]:
        return jnp.sum(self.weights)


def make_data(values: Any, weights: Any = None, block_size: int | None = None) -> Data:
    """Pad `values` (host arrays) to a whole number of blocks and put them on the device once."""
    n = jax.tree.leaves(values)[0].shape[0]
    blocks = 1 if block_size is None else max(1, -(-n // block_size))
    size = -(-n // blocks)
    padding = blocks * size - n

    def pad(leaf: Any) -> Array:
        if padding == 0:
            return jnp.asarray(leaf)
        # A repeated row is as valid as the original, whatever the model does with it.
        return jnp.asarray(np.concatenate([leaf, np.repeat(np.asarray(leaf)[-1:], padding, axis=0)]))

    one = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    return Data(
        values=jax.tree.map(pad, values),
        weights=jnp.asarray(np.concatenate([one, np.zeros(padding)])),
        size=n,
        blocks=blocks,
    )


def over_blocks(function: Callable[[Any, Array], tuple[Any, Any]], data: Any, blocks: int) -> tuple[Any, Any]:
    """Apply `function(block, number) → (sums, rows)` to each block of rows; add the sums, join the rows.

    Peak memory is that of one block: nothing of size N × K is ever held.
    """
    if blocks == 1:
        return function(data, jnp.asarray(0))
    split = jax.tree.map(lambda leaf: leaf.reshape((blocks, -1, *leaf.shape[1:])), data)

    def body(total: Any, part: tuple[Any, Array]) -> tuple[Any, Any]:
        sums, rows = function(*part)
        return jax.tree.map(jnp.add, total, sums), rows

    numbered = (split, jnp.arange(blocks))
    shapes = jax.eval_shape(function, *jax.tree.map(lambda leaf: leaf[0], numbered))[0]
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    total, rows = jax.lax.scan(body, zeros, numbered)
    return total, jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), rows)
