"""Coordinate ascent over one part of the data at a time, with the exact bound for all data.

Each part p stores the contribution of its latents' latest posterior: its messages S_p to the globals, and the rest of
its value, c_p (Neal & Hinton, 1998; Hughes & Sudderth, 2013). Then

    bound = log_prior(m) + Σ_p [⟨S_p, m⟩ + c_p] + Σ_i entropy(q_i)

is exact for these latents even if m has changed since; refreshing a part at the current m, and then the globals, never
lowers it. All this holds where a datum's term is *jointly* affine in the statistics given its latents: no two blocks
meet in it. With globals that are points it is incremental EM.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...errors import UnsupportedMethod
from ...families._family import Family
from ...models import Data, Each, Model, Posterior, Way
from ...models._model import Means, add, entropy, means

Locals = dict[str, Family]


class Parts(NamedTuple):
    """The posterior, and each part's latest messages to the globals."""

    posterior: Posterior
    messages: Means  # leading axis: parts
    rest: Float[Array, " p"]


def require_additive(model: Model, method: str, instead: str) -> None:
    """Refuse a model in which two blocks meet in one datum's term."""
    if any(model.unconjugate.values()):
        raise UnsupportedMethod(
            f"{method} keeps old messages from each part of the data, which give no bound on the likelihood of "
            f"{type(model).__name__}; use {instead}"
        )
    walks = [group for group in model.groups if isinstance(group, Each) or not set(group) <= set(model.apart)]
    if len(walks) > 1 or isinstance(walks[0], Each):
        raise UnsupportedMethod(
            f"{method} needs parameters that are independent given the latents, and those of "
            f"{type(model).__name__} are not; use {instead}"
        )


def require_whole_units(model: Model, data: Data, method: str, instead: str) -> None:
    """Refuse sequences that are cut into windows, because windows give no bound."""
    if not model.rows.are_whole(data):
        raise UnsupportedMethod(
            f"{method} takes whole sequences, and one here is longer than the window of this {type(model).__name__}; "
            f"give it a wider window, or use {instead}"
        )


def start_parts(model: Model, posterior: Posterior, data: Data, parts: int | None, local_steps: int = 1) -> Parts:
    """One walk over the data, kept part by part; by default every datum is a part."""
    m = means(posterior.blocks)

    def look(local: Locals, index: Int[Array, " n"]) -> tuple[Locals, tuple[Means, Array]]:
        messages, rest, fresh = refresh(model, m, data, index, local, local_steps)
        return _put(local, index, fresh), (messages, rest)

    local, (messages, rest) = jax.lax.scan(look, posterior.locals, split(model, data, parts))
    return Parts(Posterior(posterior.blocks, local), messages, rest)


def pass_over_parts(model: Model, state: Parts, data: Data, local_steps: int = 1) -> tuple[Parts, Float[Array, ""]]:
    """Refresh every part once, and the globals after each; returns the bound at the start. Local blocks that are not
    kept start afresh. If they end in a worse place than before, the part keeps its earlier messages.
    """
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), state.messages)
    m = means(state.posterior.blocks)
    bound = model.log_prior(m) + jnp.sum(state.rest) + _dot(total, m) + entropy(state.posterior.blocks)
    forgetful = bool(model.local_groups) and not state.posterior.locals

    def body(carry: Any, part: Any) -> tuple[Any, Any]:
        blocks, local, total = carry
        old, index = part
        m = means(blocks)
        messages, rest, fresh = refresh(model, m, data, index, local, local_steps)
        new = (messages, rest)
        if forgetful:
            better = rest + _dot(messages, m) > old[1] + _dot(old[0], m)
            new = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old)
        total = jax.tree.map(lambda t, a, b: t - a + b, total, old[0], new[0])
        return (_ascend(model, blocks, total), _put(local, index, fresh), total), new

    carry = (state.posterior.blocks, state.posterior.locals, total)
    parts = ((state.messages, state.rest), split(model, data, state.rest.shape[0]))
    (blocks, local, _), (messages, rest) = jax.lax.scan(body, carry, parts)
    return Parts(Posterior(blocks, local), messages, rest), bound


def refresh(
    model: Model, m: Means, data: Data, index: Int[Array, " n"], local: Locals, local_steps: int = 1
) -> tuple[Means, Float[Array, ""], Locals]:
    """The messages of some rows (or sequences) at m, the rest of their value, and their local blocks, if these are
    kept."""
    if not model.rows.independent:
        walked = model.walk(m, _sequences(model, data, index), Way(local_steps=local_steps))
        return walked.messages, walked.value - _dot(walked.messages, m), {}
    size, count = data.weights.shape[0], index.shape[0]
    blocks, devices = -(-count // max(1, size // data.blocks)), data.cuts.devices
    index = jnp.concatenate([index, jnp.full(-count % (blocks * devices), size)])
    inside = index < size
    row = jnp.where(inside, index, 0)
    values = jax.tree.map(lambda leaf: leaf[row], data.values)
    part = Data(values, jnp.where(inside, data.weights[row], 0.0), count, blocks, devices, data.engine)
    here = {name: family[row] for name, family in local.items()}
    walked = model.walk(m, part, Way(local_steps=local_steps), here or None)
    kept = {name: walked.local[name][:count] for name in local}
    return walked.messages, walked.value - _dot(walked.messages, m), kept


def _sequences(model: Model, data: Data, index: Int[Array, " n"]) -> Data:
    """Whole sequences with their weights; numbers past the end get weight zero."""
    units, count = model.rows.parts(data), index.shape[0]
    inside = index < units
    part = model.rows.minibatch(data, jnp.where(inside, index, 0), jnp.asarray(data.size * count / units), index)
    weights = jnp.where(inside[:, None], part.weights.reshape((count, -1)), 0.0)
    return dataclasses.replace(part, weights=weights.reshape(-1))


def split(model: Model, data: Data, parts: int | None) -> Int[Array, "p n"]:
    """The rows (or sequences) of each part, at equal distances, so that parts are alike even if the data are
    ordered."""
    n = data.weights.shape[0] if model.rows.independent else model.rows.parts(data)
    count = n if parts is None else min(parts, n)
    size = -(-n // count)
    return jnp.arange(count * size).reshape((size, count)).T


def _ascend(model: Model, blocks: dict[str, Family], total: Means) -> dict[str, Family]:
    blocks = dict(blocks)
    for group in model.groups:
        assert not isinstance(group, Each)
        target = add(jax.grad(model.log_prior)(means(blocks)), total)
        for name in group:
            blocks[name] = blocks[name].with_natural(target[name])
    return blocks


def _put(local: Locals, index: Int[Array, " n"], fresh: Locals) -> Locals:
    return jax.tree.map(lambda old, new: old.at[index].set(new, mode="drop"), local, fresh)


def _dot(left: Means, right: Means) -> Float[Array, ""]:
    return sum((jnp.sum(left[name].dot(right[name])) for name in left), start=jnp.zeros(()))
