"""Everything that follows from a model's prior and its scalar function, by a few lines for all models, never
overridden.

With F(m) = log_prior(m) + Σ_n log_evidence_n(m),

    message to block i = ∂F/∂m_i,        bound = F(m) + Σ_i entropy(q_i).

`walk` is the only way over the data and `sweep` the only loop over groups: coordinate ascent, stochastic, annealed and
tempered steps and expectation–maximisation are this sweep with another `Way`, rate or source of rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from ..families._family import Family
from ._blocks import (
    Conditional,
    Each,
    Means,
    Posterior,
    Powers,
    Reparametrising,
    Respond,
    Swept,
    Walked,
    Way,
    add,
    ascend_slices,
    entropy,
    is_cold,
    join_powers,
    means,
    member,
    move,
    power_rows,
    prior_terms,
    replace_slice,
    rows_sum,
)
from ._data import Data, over_blocks
from ._gibbs import conditional, draw_in_turn, draw_slices, metropolis

if TYPE_CHECKING:
    from ._model import Model

_SHORTEST = 2.0**-30  # smallest part of a step that is tried


# ---- the bound -----------------------------------------------------------------------------------------------------


def log_prior(model: Model, m: Means) -> Float[Array, ""]:
    """E log p(θ) as a function of the statistics."""
    return sum((jnp.sum(prior_terms(p, m, name)) for name, p in model.prior.items()), start=jnp.zeros(()))


def walk(model: Model, m: Means, data: Data, way: Way = Way(), local: dict[str, Any] | None = None) -> Walked:
    """Go over the data once: the local value, the messages to the globals, and refreshed local blocks.

    Local blocks that are not given start afresh. If a registered engine suits, it makes the walk.
    """
    from ..kernels import plain, walk_engine

    engine = walk_engine(model, data, way)
    if not way.energy or not engine.by_euler:
        return engine.walk(model, m, data, way, local)
    together = way.heat is None and jnp.ndim(way.powers.observation) == 0
    base = model.tempering.log_base(data) if together else None
    if base is None:
        return plain().walk(model, m, data, way, local)
    # E log p(x, z | θ) is linear in all statistics, except for its base measure: by Euler's theorem the energy follows
    # from the messages, without a second derivative.
    walked = engine.walk(model, m, data, way._replace(energy=False), local)
    products = jax.tree.map(lambda message, mean: jnp.sum(message * mean), walked.messages, m)
    return walked._replace(energy=jnp.asarray(sum(jax.tree.leaves(products)) / way.powers.observation) + base)


def bound(model: Model, q: Posterior, data: Data, powers: Powers = Powers()) -> Float[Array, ""]:
    """The evidence lower bound, every constant kept (at temperature 1/power, the annealed bound)."""
    m = means(q.blocks)
    walked = model.walk(m, data, Way(powers, local_steps=0), q.locals)
    return model.log_prior(m) + walked.value + entropy(q.blocks)


def sweep(
    model: Model, q: Posterior, data: Data, way: Way = Way(), rate: ArrayLike = 1.0
) -> tuple[Posterior, Float[Array, ""]]:
    """Update every group in turn; returns the bound at the start, after the first local step."""
    swept = update(model, q, data, way, rate)
    return swept.posterior, swept.bound


def update(
    model: Model,
    q: Posterior,
    data: Data,
    way: Way = Way(),
    rate: ArrayLike = 1.0,
    respond: Respond | None = None,
) -> Swept:
    """The loop of `sweep`, which also returns what a thermostat needs.

    `respond` computes a new power from the energy once the latents are updated and before the globals are. The messages
    are scaled to this power: at fixed latents they are proportional to it.
    """
    blocks, local = dict(q.blocks), q.locals
    if way.heat is not None:
        way = way._replace(heat=model.tempering.priced(way.heat, blocks))
    first: Swept | None = None
    for group in model.groups or ((),):  # with every parameter known, the walk alone
        names = (group.block,) if isinstance(group, Each) else group
        m = means(blocks)
        value, target = jax.value_and_grad(model.log_prior)(m)
        messages: Means | None = None
        if first is None or not (set(names) <= set(model.apart) or isinstance(group, Each)):
            probes = model.probes(q, way, rate) if first is None and isinstance(model, Reparametrising) else {}
            walked = model.walk(m | probes, data, way, local)
            local, messages = walked.local, walked.messages
            if first is None:
                bound = value + walked.value + entropy(blocks)
                first, messages, way = _answer_heat(model, Swept(q, bound), walked, data, way, respond, blocks)
            target = {name: add(target[name], messages[name]) for name in target}
        if isinstance(group, Each):
            blocks, local = _sweep_slices(model, group, Posterior(blocks, local), data, way, rate)
        else:
            here = dict(blocks)
            blocks |= {name: move(blocks[name], target[name], rate) for name in names}
            if any(model.unconjugate.get(name) for name in names) and isinstance(rate, float):
                blocks = _step_back(model, here, blocks, data, way.powers, local)
            if isinstance(model, Reparametrising):
                blocks = model.reparametrised(blocks, messages or {}, data)
    assert first is not None
    return first._replace(posterior=Posterior(blocks, local))


def _answer_heat(
    model: Model,
    first: Swept,
    walked: Walked,
    data: Data,
    way: Way,
    respond: Respond | None,
    blocks: dict[str, Family],
) -> tuple[Swept, Means, Way]:
    """The power at which the globals are updated, the messages at that power, and the `Way` for the rest of the
    sweep."""
    messages, power = walked.messages, way.powers.observation
    acting: Array | None = None
    if walked.power is not None:
        power = walked.power
    if respond is not None:
        acting = model.tempering.acting_energy(blocks, walked, data)
        fresh = respond(acting)
        messages = jax.tree.map(lambda leaf: leaf * (fresh / power), messages)
        power = fresh
    powers = way.powers if power is way.powers.observation else Powers(power, power)
    swept = first._replace(energy=walked.energy, power=jnp.asarray(power), acting=acting)
    return swept, messages, Way(powers, way.local_steps)


def _step_back(
    model: Model, old: dict[str, Family], new: dict[str, Family], data: Data, powers: Powers, local: dict[str, Family]
) -> dict[str, Family]:
    """Halve the step from the old blocks to the new ones until the bound does not fall; if it always falls, keep the
    old ones."""

    def value(share: Array) -> Float[Array, ""]:
        return model.bound(Posterior(_between(old, new, share), local), data, powers)

    start = value(jnp.zeros(()))
    enough = start - 0.1 * model.rounding * jnp.abs(start)

    def lower(tried: tuple[Array, Array]) -> Array:
        return (tried[0] > _SHORTEST) & ~(tried[1] >= enough)

    def halve(tried: tuple[Array, Array]) -> tuple[Array, Array]:
        return 0.5 * tried[0], value(0.5 * tried[0])

    share, _ = jax.lax.while_loop(lower, halve, (jnp.ones(()), value(jnp.ones(()))))
    return _between(old, new, jnp.where(share > _SHORTEST, share, 0.0))


def _between(old: dict[str, Family], new: dict[str, Family], share: Array) -> dict[str, Family]:
    return {name: family.with_natural(old[name].natural.mix(family.natural, share)) for name, family in new.items()}


def _sweep_slices(model: Model, group: Each, q: Posterior, data: Data, way: Way, rate: ArrayLike) -> Posterior:
    blocks = q.blocks

    def body(index: Array, carry: tuple[Family, dict[str, Family]]) -> tuple[Family, dict[str, Family]]:
        block, local = carry
        m = means(blocks | {group.block: block})
        walked = model.walk(m, data, way, local)
        target = add(jax.grad(model.log_prior)(m), walked.messages)[group.block]
        return replace_slice(block, move(block, target, rate), group.axis, index), walked.local

    size = blocks[group.block].batch_shape[group.axis]
    block, local = jax.lax.fori_loop(0, size, body, (blocks[group.block], q.locals))
    return Posterior(blocks | {group.block: block}, local)


# ---- draws ---------------------------------------------------------------------------------------------------------


def gibbs(
    model: Model,
    key: Key[Array, ""],
    draws: dict[str, Any],
    data: Data,
    powers: Powers = Powers(),
    local: dict[str, Any] | None = None,
    backwards: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw every group in turn from its conditional given the rest; each with a new key, and so with new latents.

    `backwards` takes the groups in the opposite order: the sweep run backwards in time.
    """
    draws, local = dict(draws), dict(local or {})
    key_local = jax.random.fold_in(key, len(model.groups))
    if model.local_groups and backwards:
        local = model.gibbs_local(key_local, draws, data, powers, local, backwards)
    order = list(enumerate(model.groups))
    for number, group in reversed(order) if backwards else order:
        group_key = jax.random.fold_in(key, number)
        if isinstance(group, Each):
            draws[group.block] = draw_slices(model, group_key, group, draws, data, powers, local, backwards)
            continue
        if set(group) & set(model.unconjugate):
            (name,) = group
            draws[name] = metropolis(model, group_key, name, draws, data, powers, local, backwards)
            continue
        key_data, key_draw = jax.random.split(group_key)
        natural = conditional(model, key_data, draws, data, powers, local)
        for index, name in enumerate(group):
            family = model._family(name, natural[name])
            draws[name] = family.sample(jax.random.fold_in(key_draw, index))
    if model.local_groups and not backwards:
        local = model.gibbs_local(key_local, draws, data, powers, local)
    return draws, local


def sample_prior(model: Model, key: Key[Array, ""]) -> dict[str, Any]:
    """A draw of all global blocks, parents before children."""
    draws: dict[str, Any] = {}
    m: Means = {}
    waiting = dict(model.prior)
    while waiting:
        for name, p in list(waiting.items()):
            if isinstance(p, Conditional) and not all(parent in m for parent in p.parents):
                continue
            key, key_draw = jax.random.split(key)
            family = p.family(p.natural(m)) if isinstance(p, Conditional) else p
            draws[name] = family.sample(key_draw)
            m[name] = family.statistics(draws[name])
            del waiting[name]
    return draws


def sample_local_prior(model: Model, key: Key[Array, ""], x: Any, draws: dict[str, Any]) -> dict[str, Any]:
    """A draw of the local blocks from their prior given the globals."""
    m = model.statistics(draws)
    local: dict[str, Any] = {}
    for index, (name, p) in enumerate(model.local_prior(x).items()):
        family = p.family(p.natural(m)) if isinstance(p, Conditional) else p
        local[name] = family.sample(jax.random.fold_in(key, index))
        m = m | {name: family.statistics(local[name])}
    return local


def statistics(model: Model, draws: dict[str, Any]) -> Means:
    """t(θ) of a draw of the global blocks."""
    m: Means = {}
    for name, p in model.prior.items():
        if not isinstance(p, Conditional):
            m[name] = p.statistics(draws[name])
    for name, p in model.prior.items():
        if isinstance(p, Conditional):
            m[name] = child_family(model, p, m, draws).statistics(draws[name])
    return m


def log_likelihood(
    model: Model,
    draws: dict[str, Any],
    data: Data,
    powers: Powers = Powers(),
    local: dict[str, Any] | None = None,
) -> Float[Array, ""]:
    """Σ_n log p(x_n | θ, local blocks), to the powers, at a draw; other latents are summed out."""
    m = model.statistics(draws)
    m_local = model._local_statistics(m, data, local or {})

    def block(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        x, weights, rows, here = part
        return jnp.sum(weights * model.log_evidence(m | here, x, join_powers(powers, rows))), ()

    rows = (data.values, data.weights, power_rows(powers), m_local)
    return over_blocks(block, rows, *data.cuts)[0]


def log_joint(
    model: Model,
    draws: dict[str, Any],
    data: Data,
    powers: Powers = Powers(),
    local: dict[str, Any] | None = None,
) -> Float[Array, ""]:
    """log p(θ) + Σ_n log p(x_n | θ, local blocks)^powers at a draw (without the local blocks' prior)."""
    return model.log_prior(model.statistics(draws)) + model.log_likelihood(draws, data, powers, local)


# ---- pieces --------------------------------------------------------------------------------------------------------


def datum(model: Model, m: Means, x: Any, powers: Powers, key: Key[Array, ""] | None) -> Float[Array, " n"]:
    """The part of F that belongs to each datum: evidence and prior of its local blocks."""
    value = model.log_evidence(m, x, powers, key)
    for name, p in model.local_prior(x).items():
        value = value + rows_sum(prior_terms(p, m, name))
    return value


def local_statistics(model: Model, m: Means, data: Data, local: dict[str, Any]) -> Means:
    result: Means = {}
    for name, p in model.local_prior(data.values).items():
        family = p.family(p.natural(m | result)) if isinstance(p, Conditional) else p
        result[name] = family.statistics(local[name])
    return result


def family(model: Model, name: str, natural: Any) -> Family:
    return member(model.prior[name], natural)


def child_family(model: Model, p: Conditional, m: Means, draws: dict[str, Any]) -> Family:
    for parent in p.parents:
        if parent not in m:
            grandparent = model.prior[parent]
            assert isinstance(grandparent, Conditional)
            m[parent] = child_family(model, grandparent, m, draws).statistics(draws[parent])
    return p.family(p.natural(m))


def derived_walk(model: Model, m: Means, data: Data, way: Way = Way(), local: dict[str, Any] | None = None) -> Walked:
    """`Model.walk` by autodiff of `log_evidence`: what every engine is held to."""
    powers = way.powers
    if way.energy and is_cold(powers):
        powers = Powers(jnp.asarray(1.0), jnp.asarray(1.0))
    each = jnp.ndim(powers.observation) == 1
    ready, unpack = jax.vjp(model.packed, m)

    def block(part: Any, _: Array) -> tuple[Any, Any]:
        x, weights, rows, q_local = part
        here = join_powers(powers, rows)
        q_local = model.ascend_local(m, x, here, q_local or model.initial_local(m, x), way.local_steps)
        m_local = means(q_local)
        spread = sum((rows_sum(q.entropy()) for q in q_local.values()), start=jnp.zeros(()))
        if way.heat is not None:
            found = model.tempering.heated(m, ready, m_local, x, cast(Array, here.observation), way.heat)
            messages = found.messages(weights)
            own = {"energy": weights * found.energy, "power": found.power}
            return (jnp.sum(weights * (found.value + spread)), messages, {}), (q_local, own)

        def total(m_global: Means, powers: Powers) -> Float[Array, ""]:
            return jnp.sum(weights * model._datum(m_global | m_local, x, powers, None))

        if not way.energy:
            value, messages = jax.value_and_grad(total)(ready, here)
            return (value + jnp.sum(weights * spread), messages, {}), (q_local, {})
        value, (messages, slopes) = jax.value_and_grad(total, argnums=(0, 1))(ready, here)
        energy = {"energy": slopes.observation + slopes.latent}
        sums = (value + jnp.sum(weights * spread), messages, {} if each else energy)
        return sums, (q_local, energy if each else {})

    rows = (data.values, data.weights, power_rows(powers), local or {})
    (value, messages, of_all), (fresh, by_row) = over_blocks(block, rows, *data.cuts)
    found = of_all | by_row
    return Walked(value, unpack(messages)[0], found.get("energy"), fresh, found.get("power"))


# ---- local blocks --------------------------------------------------------------------------------------------------


def local_from_prior(model: Model, m: Means, x: Any) -> dict[str, Any]:
    local: dict[str, Family] = {}
    for name, p in model.local_prior(x).items():
        here = m | means(local)
        local[name] = p.family(p.natural(here)) if isinstance(p, Conditional) else p
    return local


def ascend_in_turn(
    model: Model, m: Means, x: Any, powers: Powers, q: dict[str, Family], steps: int
) -> dict[str, Family]:
    if not q or steps == 0:
        return q

    def step(_: Any, q: dict[str, Family]) -> dict[str, Family]:
        q = dict(q)
        for group in model.local_groups:
            names = (group.block,) if isinstance(group, Each) else group
            rest = means({name: family for name, family in q.items() if name not in names})

            def total(m_group: Means, rest: Means = rest) -> Float[Array, ""]:
                return jnp.sum(model._datum(m | rest | m_group, x, powers, None))

            if isinstance(group, Each):
                q[group.block] = ascend_slices(total, group.block, q[group.block], group.axis)
            else:
                natural = jax.grad(total)(means({name: q[name] for name in names}))
                q |= {name: q[name].with_natural(natural[name]) for name in names}
        return q

    return jax.lax.fori_loop(0, steps, step, q)


class OwnLocals:
    """A model with its own start, update or draw of local blocks: from a better place, or with less work than the
    derived form, to which a test compares it."""

    start_local = local_from_prior
    update_local = ascend_in_turn
    draw_local = draw_in_turn


def initial_local(model: Model, m: Means, x: Any) -> dict[str, Any]:
    """The start of the local blocks of new data: their prior given the globals, or the model's own start."""
    return model.start_local(m, x) if isinstance(model, OwnLocals) else local_from_prior(model, m, x)


def ascend_local(model: Model, m: Means, x: Any, powers: Powers, q: dict[str, Family], steps: int) -> dict[str, Family]:
    """Update the local blocks `steps` times, the globals held fixed."""
    ascend = model.update_local if isinstance(model, OwnLocals) else partial(ascend_in_turn, model)
    return ascend(m, x, powers, q, steps)


def gibbs_local(model: Model, *given: Any) -> dict[str, Any]:
    """Draw the local blocks given the globals; the arguments are those of `draw_in_turn`."""
    return model.draw_local(*given) if isinstance(model, OwnLocals) else draw_in_turn(model, *given)
