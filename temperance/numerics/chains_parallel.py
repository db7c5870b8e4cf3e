"""Forward and backward recursions of a hidden Markov chain as products of matrices in a tree (`associative_scan`).

Step t is the matrix M_t of log p(x_t, z_t | z_(t−1)); products of all matrices up to a step, and after it, take log T
rounds instead of T, at k³ instead of k² operations a step: more work, which a CPU cannot spread and an accelerator can.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_LOWEST = -1e300  # stands for log 0 where a difference of infinities would be no number


class Pieces(NamedTuple):
    """As `chains._forward` and `chains._backward` have them."""

    forward: Float[Array, "t k"]
    increments: Float[Array, " t"]
    ahead: Float[Array, "t k"]
    joint: Float[Array, "t k"]


def forward_backward(
    entry: Float[Array, "t k"], on: Float[Array, " t"], transition: Float[Array, "k k"], likelihood: Float[Array, "t k"]
) -> Pieces:
    """`entry` is what is known of the state where a step does not go on from the one before (`on` is 0)."""
    forward, increments = filtered(entry, on, transition, likelihood)
    steps = _steps(entry, on, transition, likelihood)
    after = jax.lax.associative_scan(lambda later, earlier: _product(earlier, later), steps[1:], reverse=True)
    ahead = jax.nn.logsumexp(after, axis=2)
    ahead = jnp.concatenate([ahead - jnp.max(ahead, axis=1, keepdims=True), jnp.zeros((1, ahead.shape[1]))])
    return Pieces(forward, increments, ahead, ahead + likelihood)


def filtered(
    entry: Float[Array, "t k"], on: Float[Array, " t"], transition: Float[Array, "k k"], likelihood: Float[Array, "t k"]
) -> tuple[Float[Array, "t k"], Float[Array, " t"]]:
    """log p(z_t | x up to t), and the increments, each from the step before rather than as a difference of sums."""
    steps = _steps(entry, on.at[0].set(0.0), transition, likelihood)
    forward = jax.lax.associative_scan(_product, steps)[:, 0]  # the first step forgets: all rows are the same
    forward = jax.nn.log_softmax(forward, axis=1)
    before = jnp.concatenate([jnp.zeros((1, forward.shape[1])), forward[:-1]])
    moved = jax.nn.logsumexp(before[:, :, None] + transition[None], axis=1)
    return forward, jax.nn.logsumexp(jnp.where(on[:, None] > 0.0, moved, entry) + likelihood, axis=1)


def _steps(entry: Array, on: Array, transition: Array, likelihood: Array) -> Float[Array, "t k k"]:
    move = jnp.where(on[:, None, None] > 0.0, transition[None], entry[:, None, :])
    return jnp.maximum(move + likelihood[:, None, :], _LOWEST)


def _product(left: Float[Array, "t i j"], right: Float[Array, "t j k"]) -> Float[Array, "t i k"]:
    """log (exp(left) exp(right)) up to a constant: only ratios are needed, and sums over long sequences would lose
    their digits. Entry by entry in log space, because the largest paths can be out of reach of plain products."""
    product = _sum(left, right)
    return jnp.maximum(product - jnp.max(product, axis=(1, 2), keepdims=True), _LOWEST)


def _sum(left: Float[Array, "t i j"], right: Float[Array, "t j k"]) -> Float[Array, "t i k"]:
    return jax.nn.logsumexp(left[:, :, :, None] + right[:, None, :, :], axis=2)
