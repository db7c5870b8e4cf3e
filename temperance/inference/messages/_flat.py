"""Natural parameters of all blocks as one vector of distinct coordinates, and back."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...models._factors import Natural


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
    """A symmetric matrix instead of its upper triangle."""
    leaves, structure = jax.tree.flatten(vector)
    halves = [
        0.5 * (leaf + jnp.swapaxes(leaf, -1, -2)) if kind == "symmetric" else leaf
        for leaf, kind in zip(leaves, vector.kinds, strict=True)
    ]
    return jax.tree.unflatten(structure, halves)
