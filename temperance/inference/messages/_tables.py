"""Sums over the configurations of all factors: along chains by forward and backward recursions, else one by one."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...models._factors import Factors
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
