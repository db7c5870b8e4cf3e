"""Incremental EM: the statistics of one part of the data at a time are replaced (Neal & Hinton, 1998).

Each part keeps the latents' posterior q_p it was last given, as its messages S_p and what is left, c_p. Then

    F(q, θ) = log p(θ) + Σ_p [⟨S_p, t(θ)⟩ + c_p]

never falls, whichever part is refreshed, and touches log p(x, θ) where every part is fresh. All this holds
when F is *jointly* affine in the statistics given the latents: no two blocks meet in one datum's factor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...errors import UnsupportedMethod
from ...models import Data, Each, Mixture, Model, Posterior
from ...models._model import Means, add, means


class Parts(NamedTuple):
    """The parameters, and what each part of the data last said about them."""

    posterior: Posterior
    messages: Means  # leading axis: parts
    rest: Float[Array, " p"]


def require_additive(model: Model) -> None:
    together = len(model.groups) == 1 and isinstance(model.groups[0], tuple) and not model.local_groups
    if not (together or isinstance(model, Mixture)):
        raise UnsupportedMethod(
            f"incremental EM needs parameters that are independent given the latents, and those of "
            f"{type(model).__name__} are not; use tp.EM(incremental=False)"
        )


def start_parts(model: Model, posterior: Posterior, data: Data, parts: int | None) -> Parts:
    """An ordinary E-step, kept part by part."""
    m = means(posterior.blocks)
    messages, rest = jax.lax.map(lambda index: _look(model, m, data, index), _split(data, parts))
    return Parts(posterior, messages, rest)


def incremental_pass(model: Model, state: Parts, data: Data) -> tuple[Parts, Float[Array, ""]]:
    """Refresh every part once, with an M-step after each; returns F at the start."""
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), state.messages)
    m = means(state.posterior.blocks)
    bound = model.log_prior(m) + jnp.sum(state.rest) + _dot(total, m)

    def body(carry: Any, part: Any) -> tuple[Any, Any]:
        blocks, total = carry
        old, index = part
        new, rest = _look(model, means(blocks), data, index)
        total = jax.tree.map(lambda t, a, b: t - a + b, total, old, new)
        return (_maximise(model, blocks, total), total), (new, rest)

    index = _split(data, state.rest.shape[0])
    (blocks, _), (messages, rest) = jax.lax.scan(
        body, (state.posterior.blocks, total), (state.messages, index)
    )
    return Parts(Posterior(blocks, state.posterior.locals), messages, rest), bound


def _maximise(model: Model, blocks: dict[str, Any], total: Means) -> dict[str, Any]:
    blocks = dict(blocks)
    for group in model.groups:
        assert not isinstance(group, Each)
        target = add(jax.grad(model.log_prior)(means(blocks)), total)
        for name in group:
            blocks[name] = blocks[name].with_natural(target[name])
    return blocks


def _look(model: Model, m: Means, data: Data, index: Int[Array, " n"]) -> tuple[Means, Float[Array, ""]]:
    """The messages of one part, and the part of its value that does not depend on the parameters."""
    inside = index < data.weights.shape[0]
    row = jnp.where(inside, index, 0)
    values = jax.tree.map(lambda leaf: leaf[row], data.values)
    part = Data(values, jnp.where(inside, data.weights[row], 0.0), size=index.shape[0])
    terms, _ = model.terms(m, part)
    return terms.messages, terms.value - _dot(terms.messages, m)


def _dot(left: Means, right: Means) -> Float[Array, ""]:
    return sum((jnp.sum(left[name].dot(right[name])) for name in left), start=jnp.zeros(()))


def _split(data: Data, parts: int | None) -> Int[Array, "p n"]:
    """The rows of each part, every so many apart, so that data in order still give parts that are alike."""
    n = data.weights.shape[0]
    count = n if parts is None else min(parts, n)
    size = -(-n // count)
    return jnp.arange(count * size).reshape((size, count)).T
