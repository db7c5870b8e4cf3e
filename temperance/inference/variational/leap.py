"""A leap along the path of the sweeps, for models whose sweeps creep.

Near an optimum a sweep moves the natural parameters η by a nearly constant matrix, η₂ − η₁ ≈ M (η₁ − η₀), so three
points determine where the path leads. With r = η₁ − η₀, v = (η₂ − η₁) − r and a = −max(1, −r·v/|v|²) that is η₀ − 2ar +
a²v (Varadhan and Roland 2008, scheme S2; their S3, |r|/|v|, leaps too far where r and v are not parallel). Lengths are
relative to the size of each row of η, so that units do not matter. A third sweep begins there, and is kept unless the
bound has fallen.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...models import Data, Model, Posterior, Way
from ...models._factors import Blocks, is_proper, naturals, with_naturals

SWEEPS = 3  # of a leap


def leap(model: Model, q: Posterior, data: Data, way: Way) -> tuple[Posterior, Float[Array, ""]]:
    """Two sweeps, and a third from the extrapolated point; returns the bound at the start, as a sweep does."""

    def sweep(number: Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        before, here, bounds = carry  # η of the last two starts, the posterior to go on from, the bounds of all starts
        beyond = _beyond(before[0], before[1], here.blocks)
        start = here._replace(blocks=_choose(number == SWEEPS - 1, beyond, here.blocks))
        after, bound = model.sweep(start, data, way)
        kept = (number < SWEEPS - 1) | (bound >= bounds[SWEEPS - 2])  # False for NaN too
        after = jax.tree.map(lambda new, old: jnp.where(kept, new, old), after, here)
        return (before[1], naturals(here.blocks)), after, bounds.at[number].set(bound)

    nowhere = naturals(q.blocks)
    first = ((nowhere, nowhere), q, jnp.zeros(SWEEPS))
    _, last, bounds = jax.lax.fori_loop(0, SWEEPS, sweep, first)  # traced and compiled once
    return last, bounds[0]


def _beyond(first: Any, second: Any, third: Blocks) -> Blocks:
    """The point to which three successive points lead, or the third one if that point is outside the domain."""
    step = jax.tree.map(jnp.subtract, second, first)
    turn = jax.tree.map(lambda a, b, c: c - 2.0 * b + a, first, second, naturals(third))
    sizes = jax.tree.map(lambda a, c: _largest(a) + _largest(c) + jnp.finfo(float).tiny, first, naturals(third))
    rate = jnp.maximum(1.0, -_product(step, turn, sizes) / (_product(turn, turn, sizes) + jnp.finfo(float).tiny))
    ahead = with_naturals(third, jax.tree.map(lambda eta, r, v: eta + 2.0 * rate * r + rate**2 * v, first, step, turn))
    return _choose(is_proper(ahead), ahead, third)


def _largest(leaf: Float[Array, "..."]) -> Float[Array, "..."]:
    """The largest entry of each row, in absolute value."""
    return jnp.max(jnp.abs(leaf), axis=tuple(range(1, leaf.ndim)), keepdims=True)


def _product(left: Any, right: Any, sizes: Any) -> Float[Array, ""]:
    terms = jax.tree.map(lambda a, b, size: jnp.sum((a / size) * (b / size)), left, right, sizes)
    return reduce(jnp.add, jax.tree.leaves(terms))


def _choose(condition: Array, yes: Blocks, no: Blocks) -> Blocks:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
