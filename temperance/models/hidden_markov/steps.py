"""Sequences as compiled code sees them: the steps of all of them, and where each begins."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8

from ..._arguments import NOT_NEGATIVE
from ...errors import InvalidParameter
from ...families import DirichletVector
from ...families._parameters import parameters, require_finite_positive
from ...numerics.chains import CUT, FIRST, ON
from .._data import Counted, Data

_APART = 2**13  # steps of a minibatch up to which they are treated in one block


class Steps(Counted):
    """Steps (t, d) of all sequences one behind the other; steps of padding are sequences of their own.

    Other than in most models these rows depend on each other: they may be cut only where a sequence begins.
    """

    x: Float[Array, "t d"]
    starts: Int8[Array, " t"]  # `ON`, `FIRST` or `CUT`, see `numerics.chains`
    offsets: Int[Array, " s"]  # the first step of each sequence
    lengths: Int[Array, " s"]
    longest: int = eqx.field(static=True)
    blocks: int = eqx.field(static=True, default=1)  # into which steps may be cut where they do not depend on others

    @property
    def sequences(self) -> int:
        return self.offsets.shape[0]

    def uncounted(self) -> Self:
        """Without the length of the longest sequence, which only minibatches need."""
        return dataclasses.replace(self, longest=self.starts.shape[0])


def as_steps(x: np.ndarray, lengths: np.ndarray, size: int | None = None, blocks: int = 1) -> Steps:
    """Host arrays; the last row repeated up to `size`."""
    offsets = np.cumsum(lengths) - lengths
    size = len(x) if size is None else size
    starts = np.full(size, ON, dtype=np.int8)
    starts[offsets] = FIRST
    starts[len(x) :] = FIRST
    if size > len(x):
        x = np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)])
    return Steps(x, starts, offsets, lengths, int(lengths.max()), blocks)  # type: ignore[arg-type]


def one_sequence(x: Float[Array, "t d"]) -> Steps:
    """Steps that follow each other."""
    n = x.shape[0]
    starts = jnp.full(n, ON, dtype=jnp.int8).at[0].set(FIRST)
    return Steps(x, starts, jnp.zeros(1, dtype=jnp.int64), jnp.full(1, n, dtype=jnp.int64), n)


def first_steps(data: Data, size: int) -> Data:
    """The first so many steps, weighted to stand for all."""
    steps = data.values
    weights = data.weights[:size]
    weights = weights * (data.total_weight / jnp.sum(weights))
    begin = np.asarray(steps.offsets)
    chosen = begin < size
    lengths = np.minimum(np.asarray(steps.lengths)[chosen], size - begin[chosen])
    offsets = jnp.asarray(begin[chosen])
    values = Steps(steps.x[:size], steps.starts[:size], offsets, jnp.asarray(lengths), int(lengths.max()))
    return Data(values, weights, size)


def some_sequences(data: Data, chosen: Int[Array, " b"], scale: Float[Array, ""]) -> Data:
    """Whole sequences, filled up to the longest with steps of weight zero."""
    steps = data.values
    place = jnp.arange(steps.longest)[None]
    rows = steps.offsets[chosen][:, None] + place
    seen = place < steps.lengths[chosen][:, None]
    return _gather(data, rows, seen, seen, scale, first=FIRST)


def some_windows(data: Data, chosen: Int[Array, " b"], window: int, burn_in: int, scale: Float[Array, ""]) -> Data:
    """Windows numbered along all steps, each with `burn_in` steps on both sides that only say where it comes from."""
    place = jnp.arange(window + 2 * burn_in)[None]
    rows = (chosen * window - burn_in)[:, None] + place
    seen = (rows >= 0) & (rows < data.size)
    inside = seen & (place >= burn_in) & (place < burn_in + window)
    return _gather(data, rows, seen, inside, scale, first=CUT)


def _gather(data: Data, rows: Array, seen: Array, counted: Array, scale: Float[Array, ""], first: int) -> Data:
    steps = data.values
    index = jnp.clip(rows, 0, data.size - 1).reshape(-1)
    begins = jnp.zeros(rows.shape, dtype=bool).at[:, 0].set(True)
    starts = steps.starts[index].reshape(rows.shape)
    starts = jnp.where(begins & (starts == ON), first, starts)
    starts = jnp.where(seen, starts, FIRST).astype(jnp.int8).reshape(-1)
    weights = jnp.where(counted, scale * data.weights[index].reshape(rows.shape), 0.0).reshape(-1)
    blocks = 1 if index.shape[0] <= _APART else rows.shape[0]
    nothing = jnp.zeros(0, dtype=jnp.int64)
    values = Steps(jnp.take(steps.x, index, axis=0), starts, nothing, nothing, rows.shape[1], blocks)
    return Data(values, weights, index.shape[0], 1)


def label_messages(data: Data, labels: Any, size: int) -> dict[str, DirichletVector]:
    """The statistics of fixed labels (or shares) of the steps: first states, and pairs of neighbours."""
    share = labels if labels.ndim == 2 else jax.nn.one_hot(labels, size, dtype=jnp.float64)
    starts, weights = data.values.starts, data.weights
    initial = jnp.where(starts == FIRST, weights, 0.0) @ share
    pairs = (jnp.where(starts == ON, weights, 0.0)[1:, None] * share[:-1]).T @ share[1:]
    return {"initial": DirichletVector(initial), "transitions": DirichletVector(pairs)}


# Concentrations of the Dirichlet priors of a hidden Markov model, as a user gives them.


def as_concentration(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    delta = parameters(**{name: (value, 0)})[0]
    require_finite_positive(**{name: delta})
    if delta.shape not in ((), shape):
        raise InvalidParameter(f"{name} must be one number or an array of shape {shape}, got shape {delta.shape}")
    return np.broadcast_to(delta, shape)


def as_transitions(concentration: Any, sticky: Any, size: int) -> np.ndarray:
    delta = as_concentration("concentration", concentration, (size, size))
    NOT_NEGATIVE("sticky", sticky)
    return delta + float(sticky) * np.eye(size)
