"""What a model is fitted to: arrays with one leading axis of data, weights, and how to walk over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_PIECE = 2**16  # rows


class Data(eqx.Module):
    """N data as a pytree of arrays with a leading axis, padded with weight zero to whole blocks."""

    values: Any
    weights: Float[Array, " n"]
    size: int = eqx.field(static=True)  # the number of data without the padding
    blocks: int = eqx.field(static=True, default=1)

    @property
    def total_weight(self) -> Float[Array, ""]:
        return jnp.sum(self.weights)


def make_data(
    values: Any,
    weights: Any = None,
    block_size: int | None = None,
    transform: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
) -> Data:
    """Put `values` (host arrays) on the device, transformed and padded to a whole number of blocks.

    A piece at a time: beside what the caller holds there is one copy, however many steps lead to it.
    """
    n = jax.tree.leaves(values)[0].shape[0]
    blocks = 1 if block_size is None else max(1, -(-n // block_size))
    size = blocks * -(-n // blocks)

    def place(leaf: Any) -> Array:
        leaf = np.asarray(leaf)
        last = transform(leaf[-1:])
        rows = np.empty((size, *last.shape[1:]), last.dtype)
        for start in range(0, n, _PIECE):
            rows[start : min(start + _PIECE, n)] = transform(leaf[start : start + _PIECE])
        # A repeated row is as valid as the original, whatever the model does with it.
        rows[n:] = last
        return jax.device_put(rows, may_alias=True)

    padded = np.zeros(size)
    padded[:n] = 1.0 if weights is None else weights
    return Data(jax.tree.map(place, values), jnp.asarray(padded), n, blocks)


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
