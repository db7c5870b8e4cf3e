"""Sums over the configurations of all factors: along chains by forward and backward recursions, else one by one.

Also the layouts of blocks for these sums: as one vector, or as separate entries inside a scan.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...models._factors import Factors, Natural
from ...numerics.chains import ON


class Chained(NamedTuple):
    """q(z) ∝ Π_t τ_t."""

    log_sum: Float[Array, ""]  # ln Σ_z Π_t τ_t
    pairs: Float[Array, "n *c"]  # the probability of every configuration of every factor


def chained(tables: Float[Array, "n *c"], factors: Factors) -> Chained:
    """The sum and the shares; `tables` are log τ, (n, k, k) along a chain. Rows that are not live are ignored."""
    if factors.starts is None:
        flat = tables.reshape((tables.shape[0], -1))
        each = jnp.where(factors.live, jax.nn.logsumexp(flat, axis=1), 0.0)
        return Chained(jnp.sum(each), jax.nn.softmax(flat, axis=1).reshape(tables.shape))
    size = round(tables[0].size ** 0.5)
    square = tables.reshape((-1, size, size))
    on = factors.starts == ON

    def ahead(message: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, Array]:
        """log of the sum over all steps after t, given the state at t."""
        table, goes_on = part
        back = jax.nn.logsumexp(table + message[None], axis=1)
        return jnp.where(goes_on, back - jnp.max(back), 0.0), message

    def behind(message: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        """log q of the state before step t given all steps up to it, and the increment of the log sum."""
        table, goes_on = part
        # At the start of a sequence only one row is finite, so the state before it gets no weight.
        before = jnp.where(goes_on, message, 0.0)
        joint = jax.nn.logsumexp(before[:, None] + table, axis=0)
        norm = jax.nn.logsumexp(joint)
        return joint - norm, (before, norm)

    nothing = jnp.zeros(size)
    after = jax.lax.scan(ahead, nothing, (square, on), reverse=True)[1]
    before, norms = jax.lax.scan(behind, nothing, (square, on))[1]
    logits = (before[:, :, None] + square + after[:, None, :]).reshape((square.shape[0], -1))
    pairs = jax.nn.softmax(logits, axis=1).reshape(tables.shape)
    return Chained(jnp.sum(jnp.where(factors.live, norms, 0.0)), pairs)


# ---- blocks as one vector ----------------------------------------------------------------------------------
#
# Natural parameters of all blocks as one vector of distinct coordinates, and back.


def flatten(natural: Natural) -> Float[Array, " p"]:
    return jnp.concatenate([natural[name].features().ravel() for name in sorted(natural)])


def unflatten(flat: Float[Array, " p"], like: Natural) -> Natural:
    """The inverse of `flatten`: its dual, transposed."""
    return jax.linear_transpose(_dual, like)(flat)[0]


def unflatten_mean(flat: Float[Array, " p"], like: Natural) -> Any:
    """The means whose dual coordinates (derivatives in the coordinates of `flatten`) these are."""
    upper = jax.linear_transpose(flatten, like)(flat)[0]
    return {name: _symmetric(vector) for name, vector in upper.items()}


def _dual(natural: Natural) -> Float[Array, " p"]:
    return jnp.concatenate([natural[name].weights().ravel() for name in sorted(natural)])


def _symmetric(vector: Any) -> Any:
    """The vector with symmetric matrices in place of their upper triangles."""
    leaves, structure = jax.tree.flatten(vector)
    halves = [
        0.5 * (leaf + jnp.swapaxes(leaf, -1, -2)) if kind == "symmetric" else leaf
        for leaf, kind in zip(leaves, vector.kinds, strict=True)
    ]
    return jax.tree.unflatten(structure, halves)


# ---- entries of small arrays -------------------------------------------------------------------------------
#
# Vectors as lists of plain numbers for the inside of a scan.
#
# Arrays whose last axes are a 2 × 2 matrix are slow to loop over: the compiler builds them entry by entry, without
# vector instructions, once for each reader. Kept as separate arrays of the batch's shape, the entries stay in fast
# loops, and joining them costs nothing where they are split again at once.


MOST_ENTRIES = 9  # entries of one leaf; larger leaves are not split


def split(vector: Any) -> list[list[Array]]:
    """The distinct entries of each leaf, each an array of the batch's shape."""
    return [_split_leaf(leaf, *layout) for leaf, layout in zip(jax.tree.leaves(vector), _layouts(vector), strict=True)]


def join(parts: list[list[Array]], like: Any) -> Any:
    """The vector whose `split` is `parts`; `like` is one of the same kind."""
    leaves = [
        _join_leaf(part, leaf.shape[leaf.ndim - rank :], symmetric)
        for part, leaf, (rank, symmetric) in zip(parts, jax.tree.leaves(like), _layouts(like), strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _layouts(vector: Any) -> list[tuple[int, bool]]:
    """(axes of one event, whether they are a symmetric matrix) for each leaf."""
    kinds = zip(vector.ranks, vector.kinds, strict=True)
    return [(rank, kind == "symmetric" and rank == 2) for rank, kind in kinds]


def _places(event: tuple[int, ...], symmetric: bool) -> np.ndarray:
    """For each entry of the flattened event, the index of the stored number it equals."""
    if not symmetric:
        return np.arange(math.prod(event))
    places = np.zeros(event, dtype=int)
    rows, columns = np.triu_indices(event[0])
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places.ravel()


def _split_leaf(leaf: Array, rank: int, symmetric: bool) -> list[Array]:
    event = leaf.shape[leaf.ndim - rank :]
    if math.prod(event) > MOST_ENTRIES:
        return [leaf]
    flat = leaf.reshape((*leaf.shape[: leaf.ndim - rank], -1))
    first = np.unique(_places(event, symmetric), return_index=True)[1]
    return [flat[..., i] for i in first.tolist()]


def _join_leaf(part: list[Array], event: tuple[int, ...], symmetric: bool) -> Array:
    if math.prod(event) > MOST_ENTRIES:
        return part[0]
    flat = jnp.stack([part[i] for i in _places(event, symmetric).tolist()], axis=-1)
    return flat.reshape(flat.shape[:-1] + event)
