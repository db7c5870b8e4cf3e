"""Gibbs sampling from the model's one function: its gradient at a draw is the conditional of every block.

For Normal blocks that are not conjugate the conditional is replaced by a proposal (Gamerman, 1997): a Newton step from
the present draw. Close to the posterior nearly all proposals are accepted, but far away perhaps none; so each is
followed by an elliptical slice step (Murray, Adams & MacKay, 2010), which always moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..families._family import Family
from ._blocks import Each, Means, Powers, add, join_powers, member, power_rows, replace_slice
from ._data import Data, over_blocks

if TYPE_CHECKING:
    from ._model import Model

_NARROWEST = 1e-12  # width of a slice's range of angles at which the draw stays in place


def conditional(
    model: Model, key: Key[Array, ""], draws: dict[str, Any], data: Data, powers: Powers, local: dict[str, Any]
) -> Means:
    """The natural parameters of every block's conditional, given all draws and freshly drawn latents."""
    m = model.statistics(draws)
    m_local = model._local_statistics(m, data, local)

    def block(part: Any, index: Array) -> tuple[Means, tuple[()]]:
        x, weights, rows, here = part
        scaled = join_powers(powers, rows)
        block_key = jax.random.fold_in(key, index)

        def total(m_global: Means) -> Float[Array, ""]:
            return jnp.sum(weights * model._datum(m_global | here, x, scaled, block_key))

        return jax.grad(total)(m), ()

    rows = (data.values, data.weights, power_rows(powers), m_local)
    messages, _ = over_blocks(block, rows, *data.cuts)
    return add(jax.grad(model.log_prior)(m), messages)


def draw_slices(
    model: Model,
    key: Key[Array, ""],
    group: Each,
    draws: dict[str, Any],
    data: Data,
    powers: Powers,
    local: dict[str, Any],
    backwards: bool = False,
) -> Any:
    size = model._family(group.block, model.statistics(draws)[group.block]).batch_shape[group.axis]

    def body(step: Array, block: Any) -> Any:
        index = size - 1 - step if backwards else step
        key_data, key_draw = jax.random.split(jax.random.fold_in(key, index))
        natural = conditional(model, key_data, draws | {group.block: block}, data, powers, local)
        fresh = model._family(group.block, natural[group.block]).sample(key_draw)
        return replace_slice(block, fresh, group.axis, index)

    return jax.lax.fori_loop(0, size, body, draws[group.block])


def metropolis(
    model: Model,
    key: Key[Array, ""],
    name: str,
    draws: dict[str, Any],
    data: Data,
    powers: Powers,
    local: dict[str, Any],
    backwards: bool = False,
) -> Any:
    """A draw of a Normal block by two reversible moves, which leave its conditional distribution invariant."""

    def likelihood(draw: Any) -> Float[Array, ""]:
        return model.log_likelihood(draws | {name: draw}, data, powers, local)

    p = model.prior[name]
    prior = p if isinstance(p, Family) else p.family(p.natural(model.statistics(draws)))

    def tangent(key: Key[Array, ""], draw: Any) -> Any:
        key_propose, key_accept = jax.random.split(key)

        def proposal(at: Any) -> Family:
            return model._family(name, conditional(model, key, draws | {name: at}, data, powers, local)[name])

        there = proposal(draw)
        fresh = there.sample(key_propose)
        gain = prior.log_prob(fresh) - prior.log_prob(draw) + proposal(fresh).log_prob(draw) - there.log_prob(fresh)
        gain = likelihood(fresh) - likelihood(draw) + jnp.sum(gain)  # of all members together
        return jnp.where(jnp.log(jax.random.uniform(key_accept)) < gain, fresh, draw)

    def ellipse(key: Key[Array, ""], draw: Any) -> Any:
        key_other, key_level, key_angle = jax.random.split(key, 3)
        centre = prior.mode()
        one, other = draw - centre, prior.sample(key_other) - centre
        level = likelihood(draw) + jnp.log(jax.random.uniform(key_level))

        def place(angle: Array) -> Array:
            return centre + one * jnp.cos(angle) + other * jnp.sin(angle)

        def shrink(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            low, high, angle, key = carry
            low, high = jnp.where(angle < 0.0, angle, low), jnp.where(angle < 0.0, high, angle)
            key, key_next = jax.random.split(key)
            return low, high, jax.random.uniform(key_next, minval=low, maxval=high), key

        key_first, key_rest = jax.random.split(key_angle)
        first = 2.0 * jnp.pi * jax.random.uniform(key_first)
        start = (first - 2.0 * jnp.pi, first, first, key_rest)
        end = jax.lax.while_loop(
            lambda carry: (likelihood(place(carry[2])) < level) & (carry[1] - carry[0] > _NARROWEST), shrink, start
        )
        return jnp.where(end[1] - end[0] > _NARROWEST, place(end[2]), draw)

    moves = (ellipse, tangent) if backwards else (tangent, ellipse)
    draw = draws[name]
    for number, move in enumerate(moves):
        draw = move(jax.random.fold_in(key, number), draw)
    return draw


def draw_in_turn(
    model: Model,
    key: Key[Array, ""],
    draws: dict[str, Any],
    data: Data,
    powers: Powers,
    local: dict[str, Any],
    backwards: bool = False,
) -> dict[str, Any]:
    turn: Any = reversed if backwards else iter
    m = model.statistics(draws)
    local = dict(local)
    priors = model.local_prior(data.values)
    for number, group in turn(list(enumerate(model.local_groups))):
        names = (group.block,) if isinstance(group, Each) else group
        group_key = jax.random.fold_in(key, number)

        def draw(local: dict[str, Any], key: Any, names: tuple[str, ...] = names) -> dict[str, Any]:
            key_data, key_draw = jax.random.split(key)
            m_local = model._local_statistics(m, data, local)
            rest = {name: value for name, value in m_local.items() if name not in names}

            def total(m_group: Means) -> Float[Array, ""]:
                return jnp.sum(model._datum(m | rest | m_group, data.values, powers, key_data))

            natural = jax.grad(total)({name: m_local[name] for name in names})
            fresh = {}
            for index, name in enumerate(names):
                family = member(priors[name], natural[name])
                fresh[name] = family.sample(jax.random.fold_in(key_draw, index))
            return fresh

        if isinstance(group, Each):
            size = member(priors[group.block], model._local_statistics(m, data, local)[group.block])
            for index in turn(range(size.batch_shape[group.axis])):
                fresh = draw(local, jax.random.fold_in(group_key, index))
                local[group.block] = replace_slice(
                    local[group.block], fresh[group.block], group.axis, jnp.asarray(index)
                )
        else:
            local |= draw(local, group_key)
    return local
