"""The temperature at which the melted solution loses stability, found by power iteration.

At a high temperature only one solution is left, in which all components (factors, topics) are equal. Cooled, it stays a
fixed point of the sweep, but below a critical temperature a small difference between components grows from sweep to
sweep: the largest eigenvalue ρ(T) of the sweep's Jacobian, T_c/T or nearly so, passes 1. There the structure of the
data appears, the coarsest first, and there a schedule should begin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...models import Data, Model, Posterior, Powers, Way

_HOT, _HOTTEST = 100.0, 1e6
_ROWS = 2000  # most rows from which the temperature is estimated
_MELT = 30  # sweeps at each temperature
_ITERATIONS = 80  # most iterations of the power method
_CLOSE = 0.01  # how near to 1 the eigenvalue must come
_LEAST = 1.1  # below this temperature there is nothing to cool


class Growth(NamedTuple):
    """The largest eigenvalue of the sweep, and the direction that grows."""

    rate: Float[Array, ""]
    direction: Any


def critical_temperature(model: Model, data: Data, seed: int = 0) -> float | None:
    """T_c, or None if the melted solution is stable at T = 1, or if it is the local step that is unstable."""
    if not model.tempering.melts:
        return None
    data = model.rows.sample(data, _ROWS, np.random.default_rng(seed), 1)
    start = _initial(model, jax.random.key(seed), data)
    temperature, q, melted = _HOT, start, False
    for _ in range(30):
        q = _melt(model, q, data, jnp.asarray(1.0 / temperature))
        growth = _growth(model, q, data, jnp.asarray(1.0 / temperature), start, False)
        rate = float(growth.rate)
        if not np.isfinite(rate):
            return None
        if rate > 1.0 + _CLOSE:
            # A little below T_c the state is still close to the melted solution, unless the start never melted.
            temperature, q = (temperature * rate, q) if melted else (temperature * max(rate, 2.0), start)
            if temperature > _HOTTEST:
                return None
            continue
        melted = True
        if rate > 1.0 - _CLOSE:
            if model.local_groups and _local_rate(model, q, data, temperature, start) > 1.0 - 5 * _CLOSE:
                return None
            return temperature * rate
        temperature *= max(rate, 0.5)
        if temperature < _LEAST:
            return None
    return None


def _local_rate(model: Model, q: Posterior, data: Data, temperature: float, start: Posterior) -> float:
    """The eigenvalue of the local step alone, with fixed globals."""
    return float(_growth(model, q, data, jnp.asarray(1.0 / temperature), start, True).rate)


@eqx.filter_jit
def _initial(model: Model, key: Key[Array, ""], data: Data) -> Posterior:
    return model.initial(key, data)


@eqx.filter_jit
def _melt(model: Model, q: Posterior, data: Data, power: Float[Array, ""]) -> Posterior:
    def body(_: Array, q: Posterior) -> Posterior:
        return model.sweep(q, data, Way(Powers(power, power), local_steps=2))[0]

    return jax.lax.fori_loop(0, _MELT, body, q)


@eqx.filter_jit
def _growth(model: Model, q: Posterior, data: Data, power: Float[Array, ""], start: Posterior, local: bool) -> Growth:
    """Power iteration from the difference between a random start and the melted solution."""
    moving: Any = q.locals if local else q

    def sweep(moving: Any) -> Any:
        here = Posterior(q.blocks, moving) if local else moving
        swept = model.sweep(here, data, Way(Powers(power, power)))[0]
        return swept.locals if local else swept

    arrays, rest = eqx.partition(moving, eqx.is_inexact_array)
    first = eqx.filter(start.locals if local else start, eqx.is_inexact_array)

    def push(direction: Any) -> Any:
        moved = lambda here: eqx.filter(sweep(eqx.combine(here, rest)), eqx.is_inexact_array)  # noqa: E731
        return jax.jvp(moved, (arrays,), (direction,))[1]

    def unit(direction: Any) -> tuple[Any, Array]:
        size = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(direction)))
        return jax.tree.map(lambda leaf: leaf / jnp.maximum(size, 1e-300), direction), size

    def unsettled(carry: tuple[Any, Array, Array, Array]) -> Array:
        _, rate, before, count = carry
        moves = jnp.abs(rate - before) > 1e-4 * rate
        return (count < 10) | (moves & (count < _ITERATIONS))

    def body(carry: tuple[Any, Array, Array, Array]) -> tuple[Any, Array, Array, Array]:
        direction, rate, _, count = carry
        direction, size = unit(push(direction))
        return direction, size, rate, count + 1

    difference, _ = unit(jax.tree.map(jnp.subtract, first, arrays))
    zero = jnp.zeros(())
    direction, rate, _, _ = jax.lax.while_loop(unsettled, body, (difference, zero, zero, jnp.asarray(0)))
    return Growth(rate, direction)
