"""Labels that can be exchanged: for moves between the copies of a mixture's posterior, and for summaries.

With a prior that treats all components alike the posterior has K! copies of every mode. Draws are never altered;
a summary aligns copies of them.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...families import Dirichlet
from ...families._family import Family
from ...models import HMM, Mixture, Model


def exchangeable(model: Model) -> bool:
    """Whether the components of this model can be renamed without changing its joint density."""
    if isinstance(model, HMM):
        return model.exchangeable
    if not isinstance(model, Mixture) or not isinstance(model.prior.get("weights"), Dirichlet):
        return False
    return all(isinstance(p, Family) and symmetric(p) for p in model.prior.values())


def symmetric(family: Family) -> bool:
    """Whether a block of the mixture is the same for every component."""
    axis = -1 if isinstance(family, Dirichlet) and family.batch_shape == () else 0
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(family.natural)]
    return all(bool(np.all(leaf == leaf.take([0], axis=axis))) for leaf in leaves)


def relabel(model: Model, draws: dict[str, Any], order: Int[Array, " k"]) -> dict[str, Any]:
    """A draw with its components in another order."""
    ordered = jax.tree.map(lambda leaf: leaf[order], draws)
    if isinstance(model, HMM):
        ordered["transitions"] = ordered["transitions"][:, order]
    return ordered


def align(model: Any, draws: dict[str, Any], pivot: dict[str, Any], x: Any) -> np.ndarray:
    """For each of the draws (leading axis), the order of components that matches the pivot's best.

    Components match when they are responsible for the same data (as in Stephens, 2000): an assignment problem.
    """
    from scipy.optimize import linear_sum_assignment

    each = np.asarray(_overlaps(model, draws, pivot, x))
    return np.stack([linear_sum_assignment(overlap, maximize=True)[1] for overlap in each])


@eqx.filter_jit
def _overlaps(model: Any, draws: dict[str, Any], pivot: dict[str, Any], x: Any) -> Float[Array, "draw k k"]:
    def responsibilities(draw: dict[str, Any]) -> Float[Array, "n k"]:
        return jax.nn.softmax(model.log_joint_z(model.statistics(draw), x), axis=-1)

    target = responsibilities(pivot)
    return jax.lax.map(lambda draw: target.T @ responsibilities(draw), draws, batch_size=16)


def aligned(model: Model, draws: dict[str, Any], orders: np.ndarray) -> dict[str, Any]:
    """Draws (leading axis) with their components reordered, each by its own order."""
    return jax.vmap(lambda draw, order: relabel(model, draw, order))(jax.tree.map(jnp.asarray, draws), orders)
