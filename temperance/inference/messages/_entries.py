"""Vectors as lists of plain numbers for the inside of a scan.

Arrays whose last axes are a 2 × 2 matrix are slow to loop over: the compiler builds them entry by entry, without vector
instructions, once for each reader. Kept as separate arrays of the batch's shape, the entries stay in fast loops, and
joining them costs nothing where they are split again at once.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

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
