"""Natural parameters as plain rows of distinct coordinates, how large each is, and second derivatives in them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import temperance as tp

EPS = float(np.finfo(np.float64).eps)
# Fields that hold a parameter minus a constant, so that rounding is relative to the parameter.
SHIFTED = {"log", "log_complement", "dof", "indicator"}


def lift(template: Any, row: jax.Array) -> Any:
    """The vector v with v.features() = row: the transpose of `weights`, off-diagonals on both sides."""
    transpose = jax.linear_transpose(lambda vector: vector.weights(), template)
    (vector,) = transpose(row)
    return _symmetric(vector, lambda leaf: 0.5 * (leaf + jnp.swapaxes(leaf, -1, -2)))


def _symmetric(vector: Any, function: Any) -> Any:
    leaves, structure = jax.tree.flatten(vector)
    changed = [function(leaf) if kind == "symmetric" else leaf for leaf, kind in zip(leaves, vector.kinds, strict=True)]
    return jax.tree.unflatten(structure, changed)


def size(natural: Any) -> jax.Array:
    """What rounding is relative to, for each coordinate of a row: the last digit of η is EPS times this.

    Cholesky factors a matrix that differs by up to (d + 1) √(S_ii S_jj) roundings (Demmel, 1989).
    """
    paths = jax.tree_util.tree_flatten_with_path(natural)[0]
    d = max(leaf.shape[-1] if leaf.ndim > 1 else 1 for _, leaf in paths)
    sizes = []
    for (path, leaf), kind in zip(paths, natural.kinds, strict=True):
        shift = float(d + 1) if path[-1].name in SHIFTED else 0.0
        if kind == "symmetric":
            width = jnp.sqrt(jnp.abs(jnp.diagonal(leaf, axis1=-2, axis2=-1)))
            sizes.append((leaf.shape[-1] + 1) * width[..., :, None] * width[..., None, :])
        else:
            sizes.append(jnp.abs(leaf) + shift)
    return jax.tree.unflatten(jax.tree.structure(natural), sizes).features()


def hessian(family: tp.Family) -> jax.Array:
    """∂²A/∂u² in rows u of coordinates, one matrix per batch element, by differentiating `mean`."""
    natural = family.natural
    width = natural.features().shape[-1]

    def slope(row: jax.Array) -> jax.Array:
        return family.with_natural(natural + lift(natural, row)).mean().weights()

    def column(direction: jax.Array) -> jax.Array:
        zero = jnp.zeros((*family.batch_shape, width))
        return jax.jvp(slope, (zero,), (jnp.broadcast_to(direction, zero.shape),))[1]

    return jnp.moveaxis(jax.vmap(column)(jnp.eye(width)), 0, -1)
