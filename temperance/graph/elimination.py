"""Discrete latents summed out one after the other: inner plates first, chains by a forward recursion.

With a key each sum is a draw (see `numerics/latents.py`), and the derivative of an inner sum is a draw given the draw
of the outer one: by the chain rule alone, variable elimination becomes backward sampling.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Key

from ..numerics.latents import sum_out
from .scope import Scope
from .spec import Quantity
from .tables import Axes, Table, add, arrange, combine, multiply, reduce, scale, spread, union, weigh

LARGEST = 4096  # most joint values of latents that share a factor; beyond it they are treated as independent
_BEFORE = 5000  # added to the axis of a chain's state, gives the axis of the previous state


class Factor(NamedTuple):
    """A table, and all plates on which it is repeated."""

    table: Table
    plates: Axes


def eliminate(
    scope: Scope,
    pending: list[Factor],
    latent: Table,
    key: Key[Array, ""] | None,
    fixed: dict[str, Table] | None = None,
    needed: dict[str, Table] | None = None,
) -> Float[Array, " n"]:
    """log Σ over all discrete latents that are summed out, for each datum. Latents in `fixed` are averaged over given
    shares instead, as the start requires. `needed` says at which times an observed value depends on the state of a
    chain."""
    spec, sizes = scope.spec, scope.sizes
    for number, names in enumerate(spec.elimination):
        here = scope.axes(spec[names[0]])
        states = {spec.state_axis(name) for name in names}
        group = [f for f in pending if states & set(f.table.axes)]
        pending = [f for f in pending if not states & set(f.table.axes)]
        part = None if key is None else jax.random.fold_in(key, number)
        tables = [reduce(f.table, f.plates, here, sizes) for f in group]
        if spec[names[0]].kind == "markov_chain":
            table = _forward(scope, [spec[name] for name in names], tables, latent, part, fixed, needed or {})
            here = tuple(axis for axis in here if axis != spec.axis(spec[names[0]].time))
        else:
            (axis,) = states
            total = add(*tables)
            if fixed is not None and names[0] in fixed:
                table = weigh(total, fixed[names[0]], axis)
            else:
                table = _sum_out(total, axis, part, here, sizes)
        pending.append(Factor(table, here))
    totals = [reduce(f.table, f.plates, (0,), sizes) for f in pending]
    value = add(*totals)
    return jnp.broadcast_to(value.array if value.axes else value.array[None], (sizes[0],))


def _sum_out(total: Table, axis: int, key: Key[Array, ""] | None, plates: Axes, sizes: dict[int, int]) -> Table:
    if key is not None and not set(plates) <= set(total.axes):
        # Every member of a plate is drawn separately, even if all have the same distribution.
        axes = union([total.axes, plates])
        shape = [sizes.get(a, 1) if a in plates else 1 for a in axes]
        array = spread(total.array, total.axes, axes)
        total = Table(axes, array + jnp.zeros(shape))
    place = total.axes.index(axis)
    rest = tuple(a for a in total.axes if a != axis)
    return Table(rest, sum_out(jnp.moveaxis(total.array, place, -1), key))


def chain_tables(scope: Scope, chain: Quantity) -> tuple[Table, Table]:
    """log p of the first state, and of each state (axis s) given the previous state (axis s + _BEFORE)."""
    state = scope.spec.state_axis(chain.name)
    first, step = (scope.value(chain.parent(argument)) for argument in ("initial", "transition"))
    before = scope.spec.axis(scope.spec.plate_beyond(chain, "transition"))
    axes = [state + _BEFORE if a == before else a for a in step.axes]
    return arrange(first.fields["log"], (*first.axes, state)), arrange(step.fields["log"], (*axes, state))


def _forward(
    scope: Scope,
    chains: list[Quantity],
    tables: list[Table],
    latent: Table,
    key: Key[Array, ""] | None,
    fixed: dict[str, Table] | None,
    needed: dict[str, Table],
) -> Table:
    """The forward recursion over the joint states of chains that meet in a factor."""
    spec, sizes = scope.spec, scope.sizes
    chains = sorted(chains, key=lambda chain: spec.state_axis(chain.name))
    time = spec.axis(chains[0].time)
    states = tuple(spec.state_axis(chain.name) for chain in chains)
    parts = [chain_tables(scope, chain) for chain in chains]
    first, step = add(*(p[0] for p in parts)), add(*(p[1] for p in parts))
    first, step = multiply(first, latent), multiply(step, latent)
    before = tuple(axis + _BEFORE for axis in states)
    seen = add(*tables) if tables else Table((), jnp.zeros(()))
    batch = tuple(a for a in union([first.axes, step.axes, seen.axes, (0,)]) if a not in (time, *states, *before))
    counts = tuple(chain.size for chain in chains)
    size, length = math.prod(counts), sizes[time]
    lead = [sizes.get(a, 1) if a < len(spec.plates) else spec.quantities[a - len(spec.plates)].size for a in batch]
    emission = _laid(seen, (time, *batch, *states), (length, *lead, *counts)).reshape((length, *lead, size))
    start = _laid(first, (*batch, *states), (*lead, *counts)).reshape((*lead, size))
    moves_shape = tuple(n if a in step.axes else 1 for a, n in zip(batch, lead, strict=True))
    moves = _laid(step, (*batch, *states, *before), (*moves_shape, *counts, *counts))
    moves = moves.reshape((*moves_shape, size, size))

    if fixed is not None:
        return _chain_start(chains, fixed, emission, start, moves, batch)

    going = _going_on([needed[c.name] for c in chains if c.name in needed], time, batch, length)

    def advance(alpha: Array, now: tuple[Array, Array, Array | None]) -> tuple[Array, None]:
        number, here, on = now
        part = None if key is None else jax.random.fold_in(key, number)
        step = moves if on is None else jnp.where(on[..., None, None], moves, -jnp.log(size))
        return sum_out(alpha[..., None, :] + step, part) + here, None

    rest = (jnp.arange(1, length), emission[1:], None if going is None else going[1:])
    alpha, _ = jax.lax.scan(advance, start + emission[0], rest)
    return Table(batch, sum_out(alpha, None if key is None else jax.random.fold_in(key, 0)))


def _going_on(needed: list[Table], time: int, batch: Axes, length: int) -> Array | None:
    """Whether anything is observed at this time or later: (time, batch); None if that is always so."""
    if not needed:
        return None
    seen = combine(operator.or_, *needed)
    here = spread(seen.array, seen.axes, (time, *batch))
    here = jnp.broadcast_to(here, (length, *here.shape[1:]))
    return jnp.flip(jax.lax.cummax(jnp.flip(here, 0).astype(int), axis=0), 0) > 0


def _chain_start(
    chains: list[Quantity], fixed: dict[str, Table], emission: Array, start: Array, moves: Array, batch: Axes
) -> Table:
    """The chain's term at the start: the average over given, independent shares at every time instead of over paths."""
    share = fixed[chains[0].name].array
    for chain in chains[1:]:
        other = fixed[chain.name].array
        share = (share[..., :, None] * other[..., None, :]).reshape((*share.shape[:-1], -1))
    share = jnp.moveaxis(share, -2, 0)
    value = jnp.sum(share[0] * start, axis=-1) + jnp.sum(share * emission, axis=(0, -1))
    pairs = share[1:, ..., :, None] * share[:-1, ..., None, :]
    return Table(batch, value + jnp.sum(pairs * moves[None], axis=(0, -2, -1)))


def _laid(table: Table, axes: Axes, shape: tuple[int, ...]) -> Array:
    """The array with exactly these axes, in this order, and this shape."""
    return jnp.broadcast_to(spread(table.array, table.axes, axes), shape)


def power_table(power: ArrayLike) -> Table:
    array = jnp.asarray(power)
    return Table((0,) if array.ndim == 1 else (), array)


def tempered(table: Table, power: Table) -> Table:
    return multiply(table, power) if power.axes else scale(table, power.array)
