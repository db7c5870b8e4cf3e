"""The starts of a mixture: k-means++, random or annealed responsibilities, a draw from the prior, given means or
shares.

Restarts of the default, "mixed", differ in kind: k-means++ finds separate clusters, but hardly ever the solutions that
leave a component empty or split a broad one, which starts from random responsibilities of uneven size, or from annealed
ones, find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import InvalidParameter
from ...families._parameters import show
from .._answers import Start
from .._blocks import Means
from .._data import Cuts, Data, over_blocks

if TYPE_CHECKING:
    from . import Mixture


_KINDS = ("mixed", "kmeans++", "random", "uneven", "annealed", "prior")
_MIXED = ("kmeans++", "uneven", "kmeans++", "annealed")  # in turn
_SHARES = 2**22  # numbers in a start's responsibilities; beyond it every start is k-means++, which needs none
COOLING = tuple(float(t) for t in np.geomspace(1.0, 0.02, 30))  # of annealed starts, in units of a column's variance


def as_start(init: Any, n_components: int) -> Start:
    if isinstance(init, Start):
        return init
    if isinstance(init, str):
        if init not in _KINDS:
            raise InvalidParameter(
                f"init must be one of {_accepted()}, an array of means or of responsibilities, got {init!r}"
            )
        return Start(init)
    try:
        values = np.asarray(init, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(f"init must be numbers or one of {_accepted()}, got {show(init)}") from None
    if values.ndim != 2:
        raise InvalidParameter(f"init must be means (k, d) or responsibilities (n, k), got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidParameter("init must be finite")
    rows_sum_to_one = np.allclose(values.sum(axis=1), 1.0) and (values >= 0).all()
    if values.shape[1] == n_components and rows_sum_to_one and values.shape[0] != n_components:
        return Start("responsibilities", jnp.asarray(values))
    if values.shape[0] != n_components:
        raise InvalidParameter(
            f"init has shape {values.shape}: means need {n_components} rows, responsibilities {n_components} columns"
        )
    return Start("means", jnp.asarray(values))


def kind_of_restart(start: Start, number: int, data: Data, size: int) -> str | None:
    """The kind of start of the restart with this number; None if all restarts begin alike."""
    if start.kind != "mixed" or data.weights.shape[0] * size > _SHARES:
        return None
    return _MIXED[number % len(_MIXED)]


def _accepted() -> str:
    return ", ".join(repr(kind) for kind in _KINDS)


def match_start(start: Start, x: np.ndarray) -> Start:
    """Refuse means or responsibilities that do not fit the data."""
    if start.values is None:
        return start
    n, d = x.shape
    if start.kind == "means" and start.values.shape[1] != d:
        raise InvalidParameter(f"init has means of {start.values.shape[1]} columns, but the data have {d}")
    if start.kind == "responsibilities" and start.values.shape[0] != n:
        raise InvalidParameter(f"init has {start.values.shape[0]} rows of responsibilities, but the data have {n}")
    return start


def start_labels(
    key: Key[Array, ""], start: Start, rows: Float[Array, "n c"], data: Data, size: int
) -> Int[Array, " n"] | Float[Array, "n k"]:
    """The component of each datum (n,), or its share in each component (n, k)."""
    n = data.weights.shape[0]
    if start.kind == "responsibilities":
        assert start.values is not None
        padding = n - start.values.shape[0]
        return jnp.concatenate([start.values, jnp.full((padding, size), 1.0 / size)])
    if start.kind in ("random", "uneven"):
        # A flat Dirichlet; jax.random.dirichlet would need many times the memory.
        drawn = jax.random.exponential(key, (n + (start.kind == "uneven"), size))
        shares = drawn if start.kind == "random" else drawn[1:] * drawn[:1] ** 3  # some components begin nearly empty
        return shares / jnp.sum(shares, axis=1, keepdims=True)
    unit = _inverse_deviation(rows, data)
    if start.kind == "means":
        assert start.values is not None
        return _nearest(rows, start.values, unit, data.cuts)
    if start.kind == "annealed":
        return _annealed(key, rows * unit, data, size)
    # No k-means after the seeds, because it would bring many restarts to one place.
    return _nearest(rows, kmeans_plus_plus(key, rows, data.weights, size, unit), unit, data.cuts)


def _annealed(key: Key[Array, ""], rows: Float[Array, "n c"], data: Data, size: int) -> Float[Array, "n k"]:
    """Shares by k-means with soft borders, cooled from where all centres coincide (Rose, 1998)."""
    weights = data.weights[:, None]
    rows = rows - jnp.sum(weights * rows, axis=0, keepdims=True) / data.total_weight

    def shares(centres: Float[Array, "k c"], temperature: Float[Array, ""]) -> Float[Array, "n k"]:
        scores = rows @ centres.T - 0.5 * jnp.sum(jnp.square(centres), axis=1)[None]
        return jax.nn.softmax(scores / temperature, axis=1)

    def cool(centres: Float[Array, "k c"], temperature: Float[Array, ""]) -> tuple[Float[Array, "k c"], None]:
        held = weights * shares(centres, temperature)
        return (held.T @ rows) / jnp.maximum(jnp.sum(held, axis=0), 1e-300)[:, None], None

    first = 0.1 * (jax.random.uniform(key, (size, rows.shape[1])) - 0.5)
    centres = jax.lax.scan(cool, first, jnp.asarray(COOLING))[0]
    return shares(centres, jnp.asarray(COOLING[-1]))


def label_messages(model: Mixture, m: Means, data: Data, labels: Any) -> Means:
    """The statistics that fixed responsibilities (or labels) give to each block."""

    def block(part: Any, _: Array) -> tuple[Means, tuple[()]]:
        x, weights, here = part
        share = here if here.ndim == 2 else jax.nn.one_hot(here, model.n_components, dtype=jnp.float64)

        def total(m: Means) -> Float[Array, ""]:
            return jnp.sum(weights[:, None] * share * model.log_joint_z(m, x))

        return jax.grad(total)(m), ()

    return over_blocks(block, (data.values, data.weights, labels), *data.cuts)[0]


def _inverse_deviation(rows: Float[Array, "n c"], data: Data) -> Float[Array, "1 c"]:
    """1 over the standard deviation of each column, so that units do not matter; 1 for a constant column."""

    def block(part: Any, _: Array) -> tuple[Float[Array, "2 c"], tuple[()]]:
        here, weights = part
        return jnp.stack([weights @ here, weights @ jnp.square(here)]), ()

    first, second = over_blocks(block, (rows, data.weights), *data.cuts)[0] / data.total_weight
    variance = second - jnp.square(first)
    return jax.lax.rsqrt(jnp.where(variance > 1e-12 * second, variance, 1.0))[None]


def _nearest(
    rows: Float[Array, "n c"], centres: Float[Array, "k c"], unit: Float[Array, "1 c"], cuts: Cuts
) -> Int[Array, " n"]:
    scaled = centres * unit

    def block(part: Float[Array, "b c"], _: Array) -> tuple[tuple[()], Int[Array, " b"]]:
        # |x − c|² without |x|², which is the same for every centre.
        scores = (part * unit) @ scaled.T - 0.5 * jnp.sum(jnp.square(scaled), axis=1)[None]
        return (), jnp.argmax(scores, axis=1)

    return over_blocks(block, rows, *cuts)[1]


def kmeans_plus_plus(
    key: Key[Array, ""],
    rows: Float[Array, "n c"],
    weights: Float[Array, " n"],
    size: int,
    unit: Float[Array, "1 c"] | float = 1.0,
) -> Float[Array, "k c"]:
    """Centres drawn one after the other, each with probability proportional to the squared distance so far."""

    def away(index: Array) -> Float[Array, " n"]:
        return jnp.sum(jnp.square((rows - rows[index][None]) * unit), axis=1)

    key, first = jax.random.split(key)
    index = jax.random.categorical(first, jnp.log(weights))
    centres = jnp.zeros((size, rows.shape[1])).at[0].set(rows[index])

    def body(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        centres, distance = carry
        # If every point is a centre already (duplicates), any point will do.
        weight = jnp.where(jnp.any(weights * distance > 0), weights * distance, weights)
        index = jax.random.categorical(jax.random.fold_in(key, k), jnp.log(weight))
        return centres.at[k].set(rows[index]), jnp.minimum(distance, away(index))

    return jax.lax.fori_loop(1, size, body, (centres, away(index)))[0]
