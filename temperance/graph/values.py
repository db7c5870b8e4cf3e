"""The expectations that represent a quantity, and the functions of quantities that keep a graph conjugate.

    real         mean (d), second (d, d) = E[x xᵀ], which is missing where x is known
    positive     log, value                                   (a Gamma variable)
    matrix       value (d, d), log_det                        (a Wishart variable)
    diagonal     value (d), log_det                           (a matrix of independent Gamma variables)
    gaussian     first (d), count, second (d, d), dof         (mean and precision together: Normal-Wishart)
    simplex      log (k)
    probability  log, log_complement
    category     the axis over its values, or the values themselves where they are known

Every field is affine in the statistics of each variable it depends on, given the others: so is every factor made of
such fields, and its gradients are the messages.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..families import NormalVector
from ..numerics.linalg import symmetrise
from .tables import Axes, I, J, Table, add, arrange, contract, multiply, spread, union

_TINY = 1e-300


class Nought(NormalVector):
    """The statistics of a Normal variable that is zero."""


@dataclasses.dataclass(frozen=True)
class Value:
    axes: Axes
    fields: dict[str, Array]
    flat: bool = False  # a real quantity whose second moments are zero, without arrays of zeros: see integration.py
    zero: bool = False  # a flat quantity whose first moment is zero too: its products are skipped

    def table(self, field: str) -> Table:
        return Table(self.axes, self.fields[field])

    @property
    def known(self) -> bool:
        """Whether a real quantity is known, without spread."""
        return "second" not in self.fields and not self.flat


# ---- functions of quantities ------------------------------------------------------------------------------


def rename(value: Value, axis: int, to: int) -> Value:
    """The members of a plate become the values of a discrete variable."""
    axes = [to if a == axis else a for a in value.axes]
    fields = {name: arrange(array, axes).array for name, array in value.fields.items()}
    return dataclasses.replace(value, axes=tuple(sorted(axes)), fields=fields)


def pick(value: Value, axis: int, index: Table) -> Value:
    """The members of a plate that a known index names."""
    place = value.axes.index(axis)
    rest = tuple(a for a in value.axes if a != axis)
    shared = set(rest) & set(index.axes)
    fields = {}
    out: Axes = ()
    for name, array in value.fields.items():
        moved = jnp.moveaxis(array, place, 0)
        if not shared:
            taken = jnp.take(moved, index.array.astype(int), axis=0)
            out, fields[name] = arrange(taken, (*index.axes, *rest))
            continue
        # If both are on the plate, each member picks its own entry, by a sum over a one-hot axis.
        hot = (index.array[..., None] == jnp.arange(moved.shape[0]).reshape((1,) * index.array.ndim + (-1,))) * 1.0
        event = tuple(range(20_000, 20_000 + array.ndim - len(value.axes)))
        out = union([rest, index.axes])
        fields[name] = jnp.einsum(hot, [*index.axes, I], moved, [I, *rest, *event], [*out, *event])
    return dataclasses.replace(value, axes=out, fields=fields)


def dot(a: Value, b: Value) -> Value:
    """a · b of two independent vectors: a number."""
    if a.zero or b.zero:
        axes = union([a.axes, b.axes])
        return Value(axes, {"mean": jnp.zeros((1,) * (len(axes) + 1))}, flat=True, zero=True)
    mean = contract((a.axes, a.fields["mean"], (I,)), (b.axes, b.fields["mean"], (I,)))
    fields = {"mean": mean.array[..., None]}
    if a.flat or b.flat:
        return Value(mean.axes, fields, flat=True)
    if not (a.known and b.known):
        terms = _second_terms(a) + _second_terms(b)
        fields["second"] = contract(*terms).array[..., None, None]
    return Value(mean.axes, fields)


def _second_terms(a: Value) -> tuple[tuple[Axes, Array, tuple[int, ...]], ...]:
    """E[a_i a_j] as the factors of a contraction: two vectors where a is known, so that no matrix is made."""
    if a.known:
        mean = a.fields["mean"]
        return (a.axes, mean, (I,)), (a.axes, mean, (J,))
    return ((a.axes, a.fields["second"], (I, J)),)


def second(a: Value) -> Array:
    mean = a.fields["mean"]
    return mean[..., :, None] * mean[..., None, :] if a.known else a.fields["second"]


def sum_of(a: Value, b: Value) -> Value:
    """a + b of two independent vectors."""
    axes = union([a.axes, b.axes])
    if a.zero or b.zero:
        kept = b if a.zero else a
        fields = {name: spread(array, kept.axes, axes) for name, array in kept.fields.items()}
        return Value(axes, fields, kept.flat, kept.zero)
    left, right = spread(a.fields["mean"], a.axes, axes), spread(b.fields["mean"], b.axes, axes)
    fields = {"mean": left + right}
    if not (a.known and b.known):
        crossed = left[..., :, None] * right[..., None, :]
        fields["second"] = crossed + crossed.swapaxes(-1, -2)
        for part in (a, b):
            if not part.flat:
                fields["second"] = fields["second"] + spread(second(part), part.axes, axes)
    return Value(axes, fields)


def linear_map(matrix: Array, a: Value) -> Value:
    """A known number or matrix times a vector."""
    mean = a.fields["mean"]
    if matrix.ndim == 0:
        fields = {"mean": matrix * mean}
        if not (a.known or a.flat):
            fields["second"] = jnp.square(matrix) * a.fields["second"]
        return Value(a.axes, fields, a.flat, a.zero)
    fields = {"mean": jnp.einsum("ij,...j->...i", matrix, mean)}
    if not (a.known or a.flat):
        fields["second"] = jnp.einsum("ik,...kl,jl->...ij", matrix, a.fields["second"], matrix)
    return Value(a.axes, fields, a.flat, a.zero)


def product(a: Value, b: Value) -> Value:
    """The product of two independent positive numbers."""
    value = multiply(a.table("value"), b.table("value"))
    return Value(value.axes, {"value": value.array, "log": add(a.table("log"), b.table("log")).array})


def diagonal(a: Value, axis: int) -> Value:
    """The members of a plate of positive numbers as the diagonal of a matrix."""
    place = a.axes.index(axis)
    moved = {name: jnp.moveaxis(array, place, -1) for name, array in a.fields.items()}
    axes = tuple(x for x in a.axes if x != axis)
    return Value(axes, {"value": moved["value"], "log_det": jnp.sum(moved["log"], axis=-1)})


# ---- constants and statistics as values ---------------------------------------------------------------------


def known(kind: str, array: Any, axes: Axes) -> Value:
    """A known number, vector or matrix as a value of a kind."""
    x = jnp.asarray(array, dtype=jnp.float64)
    if kind == "real":
        return Value(axes, {"mean": x})
    if kind == "positive":
        return Value(axes, {"log": jnp.log(x), "value": x})
    if kind == "matrix":
        return Value(axes, {"value": x, "log_det": jnp.linalg.slogdet(x)[1]})
    if kind == "simplex":
        return Value(axes, {"log": jnp.log(jnp.maximum(x, _TINY))})  # 0 · log 0 must be 0
    if kind == "probability":
        low, high = jnp.maximum(x, _TINY), jnp.maximum(1.0 - x, _TINY)
        return Value(axes, {"log": jnp.log(low), "log_complement": jnp.log(high)})
    return Value(axes, {"index": x})


def of_statistics(kind: str, m: Any, axes: Axes) -> Value:
    """Expected (or drawn) statistics of a family as a value of a kind."""
    if kind == "real":
        if m.precision is None:
            return Value(axes, {"mean": m.linear}, flat=True, zero=isinstance(m, Nought))
        return Value(axes, {"mean": m.linear, "second": -2.0 * m.precision})
    if kind == "positive":
        return Value(axes, {"log": m.log, "value": m.value})
    if kind == "matrix":  # symmetrised, so that the derivative of xᵀΛμ, the message to Λ, is symmetric too
        return Value(axes, {"value": -2.0 * symmetrise(m.scatter), "log_det": 2.0 * m.dof})
    if kind == "gaussian":
        first = m.first if m.second.ndim > len(axes) else m.first[..., None]
        matrix = m.second if m.second.ndim > len(axes) else m.second[..., None, None]
        return Value(axes, {"first": first, "count": m.count, "second": matrix, "dof": m.dof})
    if kind == "simplex":
        return Value(axes, {"log": m.log})
    if kind == "probability":
        return Value(axes, {"log": m.log, "log_complement": m.log_complement})
    raise AssertionError(kind)
