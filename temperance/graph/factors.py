"""E log p(variable | parents) for each kind of variable, as one function of the expectations of its arguments.

Each is affine in the statistics of the variable and of each parent, so that its gradients are messages, its value at
a draw is the log density, and its gradient at the variable is the natural parameter of its conditional.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from ..numerics.special import LOG_2PI, log_gamma
from .tables import I, J, Table, add, arrange, contract, multiply, scale
from .values import Value, second

Parents = dict[str, Value]


def normal(own: Value, parents: Parents, d: int) -> Table:
    mean = parents["mean"]
    if "dof" in mean.fields:
        matrix = (mean.axes, mean.fields["second"], (I, J))
        terms = [Table(mean.axes, mean.fields["count"] + mean.fields["dof"] - 0.5 * d * LOG_2PI)]
        if not own.zero:
            terms.append(contract((own.axes, own.fields["mean"], (I,)), (mean.axes, mean.fields["first"], (I,))))
        if not own.flat:
            terms.append(contract((own.axes, second(own), (I, J)), matrix))
        return add(*terms)
    precision = parents["precision"]
    log_det = precision.table("log_det") if "log_det" in precision.fields else scale(precision.table("log"), float(d))
    # Numbers multiply the small tables (of parameters), not the large table, which has a member for each datum.
    halved = dataclasses.replace(precision, fields=precision.fields | {"value": -0.5 * precision.fields["value"]})
    return add(
        Table(log_det.axes, 0.5 * (log_det.array - d * LOG_2PI)),
        _weighted_square(halved, own),
        _weighted_product(precision, own, mean),
        _weighted_square(halved, mean),
    )


def _weighted_product(precision: Value, a: Value, b: Value) -> Table:
    """E[aᵀ Λ b] of independent a and b."""
    if a.zero or b.zero:
        return Table((), jnp.zeros(()))
    left, right = (a.axes, a.fields["mean"]), (b.axes, b.fields["mean"])
    value = (precision.axes, precision.fields["value"])
    if "log_det" not in precision.fields:
        return contract((*value, ()), (*left, (I,)), (*right, (I,)))
    if _is_diagonal(precision):
        return contract((*value, (I,)), (*left, (I,)), (*right, (I,)))
    return contract((*value, (I, J)), (*left, (I,)), (*right, (J,)))


def _weighted_square(precision: Value, a: Value) -> Table:
    """E[aᵀ Λ a]."""
    if a.flat:
        return Table((), jnp.zeros(()))
    if a.known:
        return _weighted_product(precision, a, a)
    if "log_det" in precision.fields and not _is_diagonal(precision):
        value = (precision.axes, precision.fields["value"], (I, J))
        return contract(value, (a.axes, a.fields["second"], (I, J)))
    squares = jnp.diagonal(a.fields["second"], axis1=-2, axis2=-1)
    event = (I,) if "log_det" in precision.fields else ()
    return contract((precision.axes, precision.fields["value"], event), (a.axes, squares, (I,)))


def _is_diagonal(precision: Value) -> bool:
    return precision.fields["value"].ndim - len(precision.axes) == 1


def gamma(own: Value, parents: Parents) -> Table:
    shape, rate = parents["shape"], parents["rate"]
    a = shape.table("value")
    return add(
        multiply(Table(a.axes, a.array - 1.0), own.table("log")),
        scale(multiply(rate.table("value"), own.table("value")), -1.0),
        multiply(a, rate.table("log")),
        Table(a.axes, -log_gamma(a.array)),
    )


def poisson(own: Value, parents: Parents) -> Table:
    rate, x = parents["rate"], own.table("index")
    return add(
        multiply(x, rate.table("log")),
        scale(rate.table("value"), -1.0),
        Table(x.axes, -log_gamma(x.array + 1.0)),
    )


def multinomial(own: Value, parents: Parents) -> Table:
    """log p of the counts given their sum."""
    p, x = parents["probabilities"], own.fields["index"]
    base = log_gamma(jnp.sum(x, axis=-1) + 1.0) - jnp.sum(log_gamma(x + 1.0), axis=-1)
    return add(contract((own.axes, x, (I,)), (p.axes, p.fields["log"], (I,))), Table(own.axes, base))


def states(parents: Parents, axis: int) -> Table:
    """log p of each value of a discrete variable, along its axis."""
    if "probability" in parents:
        p = parents["probability"]
        log = jnp.stack([p.fields["log_complement"], p.fields["log"]], axis=-1)
    else:
        p = parents["probabilities"]
        log = p.fields["log"]
    return arrange(log, (*p.axes, axis))


def seen(own: Value, parents: Parents) -> Table:
    """log p of the known value of a discrete variable."""
    x = own.table("index")
    if "probability" in parents:
        p = parents["probability"]
        other = Table(x.axes, 1.0 - x.array)
        return add(multiply(x, p.table("log")), multiply(other, p.table("log_complement")))
    p = parents["probabilities"]
    log, index = p.fields["log"], x.array.astype(int)
    if not set(p.axes) & set(x.axes):
        return arrange(jnp.take(jnp.moveaxis(log, -1, 0), index, axis=0), (*x.axes, *p.axes))
    hot = (index[..., None] == jnp.arange(log.shape[-1]).reshape((1,) * index.ndim + (-1,))) * 1.0
    return contract((x.axes, hot, (I,)), (p.axes, log, (I,)))
