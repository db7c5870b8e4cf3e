"""Data with a plan for stochastic steps: which rows come next, how many data they represent, and the budget."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ...models import Data
from ...numerics.shuffle import shuffled
from ..step_sizes import StepSize
from ..thermostats import Thermostat


class Plan(eqx.Module):
    """The budget and step sizes, as arrays, so that another plan needs no compilation."""

    step_size: StepSize
    round: Int[Array, ""]  # steps from one report to the next
    steps: Int[Array, ""]  # steps in all
    patience: Int[Array, ""]  # reports without progress on the held-out data after which a run ends
    tol: Float[Array, ""]  # the least progress that counts, in nats per datum


class Batches(Data):
    """Rows to draw minibatches from; `stands_for` is the number of data they represent."""

    plan: Plan | None = None
    stands_for: Float[Array, ""] | None = None
    held_out: Data | None = None
    thermostat: Thermostat | None = None


def rows_of_step(key: Key[Array, ""], step: Int[Array, ""], size: int, n: int, replacement: bool) -> Int[Array, " b"]:
    """The rows of one minibatch out of n.

    Without replacement every pass is a new permutation, cut into minibatches. Rows that do not fill the last minibatch
    are left out of that pass, so that all rows are equally likely.
    """
    if replacement:
        return jax.random.randint(jax.random.fold_in(key, step), (size,), 0, n)
    passes, number = step // (n // size), step % (n // size)
    return shuffled(jax.random.fold_in(key, passes), number * size + jnp.arange(size), n)


def minibatch(data: Data, rows: Int[Array, " b"], stands_for: Float[Array, ""]) -> Data:
    """These rows, weighted so that they represent `stands_for` data, in blocks no larger than those of the data."""
    size = rows.shape[0]
    block = max(1, data.weights.shape[0] // data.blocks)
    blocks, devices = -(-size // block), data.cuts.devices
    padding = -(-size // (blocks * devices)) * blocks * devices - size
    chosen = jnp.concatenate([rows, jnp.broadcast_to(rows[-1:], (padding,))])
    weights = jnp.take(data.weights, rows) * (stands_for / size)
    return Data(
        values=jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0), data.values),
        weights=jnp.concatenate([weights, jnp.zeros(padding)]),
        size=size,
        blocks=blocks,
        devices=devices,
        engine=data.engine,
    )
