"""Data from a graph: every variable drawn given its parents, in the order of definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from ..families import CategoricalDistribution, CategoricalVector
from . import factors
from .columns import event_rank
from .elimination import chain_tables
from .gaussian_chain import draw_steps
from .responses import draw
from .scope import Scope
from .spec import RESPONSES, Quantity
from .tables import spread

if TYPE_CHECKING:
    from .compiled import GraphModel


def simulate(
    model: GraphModel, key: Key[Array, ""], draws: dict[str, Any], n: int, inputs: dict[str, Array] | None = None
) -> dict[str, Array]:
    """n data given a draw of the global blocks (and of the local ones, if the draw has them). A graph does not describe
    its inputs, so inputs that are not given are drawn as standard normal numbers or uniform categories."""
    spec = model.spec
    m: dict[str, Any] = dict(model.statistics({name: draws[name] for name in model.prior}))
    x: dict[str, Array] = {}
    states: dict[str, Array] = {}
    for q in spec:
        if q.random and not q.observed and not spec.local(q):
            if q.discrete:
                states[q.name] = jnp.argmax(draws[q.name], axis=-1).astype(jnp.float64)
            continue
        part = jax.random.fold_in(key, spec.state_axis(q.name))
        scope = Scope(spec, model.constants, m, x, rows=n, states=states)
        if q.kind == "input":
            x[q.name] = inputs[q.name] if inputs is not None else _input(part, scope, q)
        elif q.kind == "markov_chain":
            states[q.name] = _path(part, scope, q)
        elif q.kind == "gaussian_chain":
            m[q.name] = draw_steps(part, scope, q)
        elif q.random and q.discrete and q.latent:
            given = draws.get(q.name)
            found = _draw(part, scope, q.name) if given is None else given
            states[q.name] = jnp.argmax(found, axis=-1).astype(jnp.float64)
        elif q.random and q.latent:
            family = scope.family(q.name, scope.natural(q.name))
            m[q.name] = family.statistics(draws[q.name] if q.name in draws else family.sample(part))
        elif q.random:
            x[q.name] = _observed(part, scope, q)
    return x


def _input(key: Key[Array, ""], scope: Scope, q: Quantity) -> Array:
    shape = scope.shape(q) + ((q.size,) if event_rank(q) else ())
    if q.value == "category":
        return jax.random.randint(key, shape, 0, q.size).astype(jnp.float64)
    if q.value == "positive":
        return jnp.exp(jax.random.normal(key, shape))
    return jax.random.normal(key, shape)


def _draw(key: Key[Array, ""], scope: Scope, name: str) -> Array:
    """A one-hot draw of a discrete variable."""
    return CategoricalDistribution.from_natural(CategoricalVector(_states(scope, scope.spec[name]))).sample(key)


def _states(scope: Scope, q: Quantity) -> Array:
    """log p of each value of a discrete variable, along the last axis."""
    parents = {argument: scope.value(parent) for argument, parent in q.parents}
    axis = scope.spec.state_axis(q.name)
    table = factors.states(parents, axis)
    wide = spread(table.array, table.axes, (*scope.axes(q), axis))
    return jnp.broadcast_to(wide, (*scope.shape(q), q.size))


def _path(key: Key[Array, ""], scope: Scope, q: Quantity) -> Array:
    """A path of a Markov chain; time is the last plate."""
    first, step = chain_tables(scope, q)
    axes, time = scope.axes(q), scope.spec.axis(q.time)
    batch = tuple(a for a in axes if a != time)
    shape = tuple(scope.sizes[a] for a in batch)
    state = scope.spec.state_axis(q.name)
    start = jnp.broadcast_to(spread(first.array, first.axes, (*batch, state)), (*shape, q.size))
    moves = spread(step.array, step.axes, (*batch, step.axes[-1], state))
    moves = jnp.broadcast_to(moves, (*shape, q.size, q.size))
    key_first, key_rest = jax.random.split(key)
    z = jax.random.categorical(key_first, start)

    def advance(z: Array, key: Key[Array, ""]) -> tuple[Array, Array]:
        row = jnp.take_along_axis(moves, z[..., None, None], axis=-2)[..., 0, :]
        z = jax.random.categorical(key, row)
        return z, z

    _, rest = jax.lax.scan(advance, z, jax.random.split(key_rest, scope.sizes[time] - 1))
    path = jnp.concatenate([z[None], rest])
    return jnp.moveaxis(path, 0, axes.index(time)).astype(jnp.float64)


def _observed(key: Key[Array, ""], scope: Scope, q: Quantity) -> Array:
    if q.kind in RESPONSES:
        return draw(key, scope, q)
    parents = {argument: scope.value(parent) for argument, parent in q.parents}
    shape = scope.shape(q)
    if q.kind == "poisson":
        rate = parents["rate"]
        wide = jnp.broadcast_to(spread(rate.fields["value"], rate.axes, scope.axes(q)), shape)
        return jax.random.poisson(key, wide).astype(jnp.float64)
    if q.kind == "multinomial":
        p = parents["probabilities"]
        wide = jnp.broadcast_to(jnp.exp(spread(p.fields["log"], p.axes, scope.axes(q))), (*shape, q.size))
        total = scope.constants[f"{q.name}.total"]
        return jax.random.multinomial(key, jnp.broadcast_to(total, shape), wide)
    if q.discrete:
        return jax.random.categorical(key, _states(scope, q)).astype(jnp.float64)
    found = scope.family(q.name, scope.natural(q.name)).sample(key)
    return found[..., 0] if q.scalar else found
