"""Draws of a model whose parts can change places, brought to one order for summaries; they are never altered."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...models import Data
from ...models._about import Parts
from ...models._answers import Alignable


def aligned(model: Alignable, parts: Parts, draws: dict[str, Any], pivot: int, data: Data) -> dict[str, Any]:
    """Draws (leading axis), each with its parts in the order, and with the signs, that match those of the pivot best.

    Parts match when the inner products of their traits are large, such as those that are responsible for the same data
    (Stephens, 2000): an assignment problem.
    """
    from scipy.optimize import linear_sum_assignment

    overlaps = np.asarray(_overlaps(model, draws, jnp.asarray(pivot), data.values))
    weighed = np.abs(overlaps) if parts.signs else overlaps
    orders = np.stack([linear_sum_assignment(one, maximize=True)[1] for one in weighed])
    signs = None
    if parts.signs:
        matched = np.take_along_axis(overlaps, orders[:, :, None], axis=2)[:, :, 0]
        signs = jnp.asarray(np.where(matched < 0.0, -1.0, 1.0))
    return jax.vmap(parts.rearranged)(jax.tree.map(jnp.asarray, draws), jnp.asarray(orders), signs)


@eqx.filter_jit
def _overlaps(model: Any, draws: dict[str, Any], pivot: Array, x: Any) -> Float[Array, "draw k k"]:
    target = model.traits(jax.tree.map(lambda leaf: jnp.asarray(leaf)[pivot], draws), x)
    return jax.lax.map(lambda draw: target.T @ model.traits(draw, x), draws, batch_size=16)
