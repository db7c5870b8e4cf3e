"""Arrays with named axes: plates, and the values of discrete variables.

An axis is a number, and axes always stand in rising order: plates first (0 is that of the data), then the values of
discrete variables. The axes of one event come last and have no names.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

Axes = tuple[int, ...]
I, J = 10_000, 10_001  # names for the axes of events, in contractions  # noqa: E741


class Table(NamedTuple):
    """A number for each combination of its axes."""

    axes: Axes
    array: Array


def union(many: Iterable[Axes]) -> Axes:
    return tuple(sorted(set().union(*many)))


def spread(array: Any, axes: Sequence[int], target: Axes) -> Any:
    """The array with the axes of `target`, in its order: of size one where the array lacks an axis. The axes of an
    event stay last."""
    order = [axes.index(axis) for axis in target if axis in axes]
    if order != sorted(order):
        array = array.transpose((*order, *range(len(axes), array.ndim)))
    return array[tuple(slice(None) if axis in axes else None for axis in target)]


def arrange(array: Array, axes: Sequence[int]) -> Table:
    """A table of an array whose axes are in any order."""
    return Table(tuple(sorted(axes)), spread(array, axes, tuple(sorted(axes))))


def combine(function: Callable[[Any, Any], Any], *tables: Table) -> Table:
    """The function of the numbers of two tables, and of the result and the next table, and so on."""
    axes = union(t.axes for t in tables)
    return Table(axes, functools.reduce(function, [spread(t.array, t.axes, axes) for t in tables]))


def add(*tables: Table) -> Table:
    return combine(operator.add, *tables)


def multiply(*tables: Table) -> Table:
    return combine(operator.mul, *tables)


def scale(table: Table, factor: ArrayLike) -> Table:
    return Table(table.axes, jnp.asarray(factor) * table.array)


def contract(*terms: tuple[Axes, Array, tuple[int, ...]], keep: tuple[int, ...] = ()) -> Table:
    """The sum over all event axes (but `keep`) of a product of arrays, each given as (axes, array, event axes)."""
    terms = _without_ones(terms, keep)
    if not keep and not any(event for _, _, event in terms):
        # Only numbers: as products of 1 × 1 matrices, XLA's loop over the plates would be several times slower.
        return multiply(*(Table(axes, array) for axes, array, _ in terms))
    out = union(axes for axes, _, _ in terms)
    arguments: list[object] = []
    for axes, array, event in terms:
        arguments += [array, [*axes, *event]]
    return Table(out, jnp.einsum(*arguments, [*out, *keep], optimize="optimal"))


def _without_ones(
    terms: tuple[tuple[Axes, Array, tuple[int, ...]], ...], keep: tuple[int, ...]
) -> tuple[tuple[Axes, Array, tuple[int, ...]], ...]:
    """The operands without event axes of size one."""
    sizes: dict[int, int] = {}
    for axes, array, event in terms:
        for name, size in zip(event, array.shape[len(axes) :], strict=True):
            sizes[name] = max(size, sizes.get(name, 1))
    gone = {name for name, size in sizes.items() if size == 1 and name not in keep}

    def squeeze(axes: Axes, array: Array, event: tuple[int, ...]) -> tuple[Axes, Array, tuple[int, ...]]:
        places = tuple(len(axes) + i for i, name in enumerate(event) if name in gone)
        return axes, jnp.squeeze(array, places) if places else array, tuple(n for n in event if n not in gone)

    return tuple(squeeze(*term) for term in terms)


def weigh(table: Table, weights: Table, axis: int) -> Table:
    """Σ over one axis, with weights."""
    out = tuple(a for a in union([table.axes, weights.axes]) if a != axis)
    return Table(out, jnp.einsum(table.array, list(table.axes), weights.array, list(weights.axes), list(out)))


def reduce(table: Table, plates: Axes, keep: Axes, sizes: dict[int, int]) -> Table:
    """The sum of a factor over the plates that are not kept. `plates` are all plates on which the factor is repeated,
    even if its value is the same for all members."""
    gone = tuple(position for position, axis in enumerate(table.axes) if axis in plates and axis not in keep)
    array = jnp.sum(table.array, axis=gone) if gone else table.array
    for axis in plates:
        if axis not in keep and axis not in table.axes:
            array = array * sizes[axis]
    return Table(tuple(a for a in table.axes if a in keep or a not in plates), array)
