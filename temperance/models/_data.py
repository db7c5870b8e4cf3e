"""The data of a fit: arrays with one leading axis of data, weights, and the loop over blocks of them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._module import Module
from ..errors import UnsupportedMethod
from ..numerics.devices import cut, devices_for, keep_spread, put_rows, rejoin
from ..numerics.engines import default_engine
from ..numerics.place import empty

_PIECE = 2**20  # bytes
_EXACT = 64  # data with at most this many rows are not padded


class Cuts(NamedTuple):
    """The number of blocks into which rows are cut, and of devices over which each block is spread."""

    blocks: int
    devices: int


class Counted(Module):
    """Values that hold a number of rows as a static part."""

    @abc.abstractmethod
    def uncounted(self) -> Self:
        """These values without the number of rows."""


class Data(Module):
    """N data as a pytree of arrays with a leading axis, padded with weight zero to whole blocks."""

    values: Any
    weights: Float[Array, " n"]
    size: int = eqx.field(static=True)  # the number of data without the padding
    blocks: int = eqx.field(static=True, default=1)
    devices: int = eqx.field(static=True, default=1)  # over which the rows of each block are spread
    engine: str = eqx.field(static=True, default_factory=default_engine)  # "auto", or "plain": no kernels

    @property
    def cuts(self) -> Cuts:
        """The cuts for `over_blocks`; data of another machine are spread over the devices of this one."""
        return Cuts(self.blocks, min(self.devices, jax.local_device_count()) if self.devices > 1 else 1)

    @property
    def block_size(self) -> int:
        """The rows of a block, on one device."""
        return max(1, self.weights.shape[0] // (self.blocks * self.cuts.devices))

    @property
    def is_spread(self) -> bool:
        """Whether the rows are spread over several devices."""
        return self.cuts.devices > 1

    def uncounted(self) -> Self:
        """The data without the number of rows, for compiled code that needs only weights: data that were padded to one
        size then share one program."""
        values = self.values.uncounted() if isinstance(self.values, Counted) else self.values
        return dataclasses.replace(self, values=values, size=self.weights.shape[0])

    @property
    def total_weight(self) -> Float[Array, ""]:
        return jnp.sum(self.weights)


def make_data(
    values: Any,
    weights: Any = None,
    block_size: int | None = None,
    transform: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
    spread: bool = True,
    bucketed: bool = True,
) -> Data:
    """Put `values` (host arrays) on the device, transformed and padded to a whole number of blocks.

    Rows are transformed piece by piece, so that besides the caller's data there is only one copy in memory. Several
    devices share the rows of every block equally, unless `spread` is False. Rows are `bucketed`, so that data with
    nearly equal numbers of rows share compiled programs.
    """
    n = jax.tree.leaves(values)[0].shape[0]
    devices = devices_for(n) if spread else 1
    room = bucket(n) if bucketed else n
    blocks = 1 if block_size is None else max(1, -(-room // (block_size * devices)))
    size = blocks * devices * -(-room // (blocks * devices))

    def place(leaf: Any) -> Array:
        leaf = np.asarray(leaf)
        last = transform(leaf[-1:])
        rows = empty((size, *last.shape[1:]), last.dtype)
        piece = max(64, _PIECE // max(1, last.nbytes))
        for start in range(0, n, piece):
            rows[start : min(start + piece, n)] = transform(leaf[start : start + piece])
        # Padding repeats a row, because a repeated row is valid for every model.
        rows[n:] = last
        return put_rows(rows, devices)

    padded = np.zeros(size)
    padded[:n] = 1.0 if weights is None else weights
    return Data(jax.tree.map(place, values), put_rows(padded, devices), n, blocks, devices)


def bucket(rows: int) -> int:
    """The number of rows to which data are padded: one of few sizes, at most an eighth larger than `rows`."""
    if rows <= _EXACT:
        return rows
    step = 1 << (rows.bit_length() - 4)
    return -(-rows // step) * step


def gathered(data: Data) -> Data:
    """The data on one device, for work that goes from row to row."""
    if not data.is_spread:
        return data
    here = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), data)
    return dataclasses.replace(here, devices=1)


def over_blocks(
    function: Callable[[Any, Array], tuple[Any, Any]], data: Any, blocks: int = 1, devices: int = 1
) -> tuple[Any, Any]:
    """Apply `function(block, number) → (sums, rows)` to each block of rows; add the sums, join the rows.

    Peak memory is that of one block: nothing of size N × K is ever held.
    """
    if blocks == 1:
        sums, rows = function(keep_spread(data, devices), jnp.asarray(0))
        return sums, keep_spread(rows, devices)
    split = jax.tree.map(lambda leaf: cut(leaf, blocks, devices), data)

    def body(total: Any, part: tuple[Any, Array]) -> tuple[Any, Any]:
        sums, rows = function(*part)
        return jax.tree.map(jnp.add, total, sums), rows

    numbered = (split, jnp.arange(blocks))
    shapes = jax.eval_shape(function, *jax.tree.map(lambda leaf: leaf[0], numbered))[0]
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    total, rows = jax.lax.scan(body, zeros, numbered)
    return total, jax.tree.map(lambda leaf: rejoin(leaf, devices), rows)


# How minibatches are drawn from the data of a model, and settings that suit stochastic methods.


class Stochastic(NamedTuple):
    """Rows of a minibatch, passes over the data, (delay, decay) of the step sizes, passes over local blocks."""

    batch_size: int = 256
    passes: float = 20.0
    step_size: tuple[float, float] = (10.0, 0.7)
    local_steps: int = 10


class RowAccess(Module):
    """How the rows of a model's data may be cut. In this base, rows are independent given the parameters."""

    model: Any
    independent: ClassVar[bool] = True  # whether rows may be cut anywhere and drawn one by one
    stochastic: ClassVar[Stochastic] = Stochastic()  # minibatches and step sizes that suit the model
    uses_all_cores: ClassVar[bool] = False  # whether engines use all cores and must not be entered twice at a time
    without_latents: ClassVar[bool] = False  # whether sums over the data are sufficient: parts then need no refreshing

    def parts(self, data: Data) -> int:
        """The number of units (rows, sequences or partitions) from which minibatches are drawn."""
        return data.size

    def are_whole(self, data: Data) -> bool:
        """Whether these units are independent of each other."""
        return True

    def minibatch(
        self, data: Data, chosen: Int[Array, " b"], stands_for: Float[Array, ""], ahead: Int[Array, " b"]
    ) -> Data:
        """The chosen units, weighted so that they represent `stands_for` rows; the units `ahead` will be requested
        next."""
        raise UnsupportedMethod(f"{type(self.model).__name__} has no minibatches of its own")

    def first(self, data: Data, size: int) -> Data:
        """The first `size` rows, with their own weights."""
        return Data(jax.tree.map(lambda leaf: leaf[:size], data.values), data.weights[:size], size)

    def sample(self, data: Data, size: int, rng: np.random.Generator, blocks: int | None = None) -> Data:
        """At most `size` rows, weighted so that they represent all rows, for quick looks at large data."""
        size = min(size, data.size)
        rows = np.arange(size) if size == data.size else np.sort(rng.permutation(data.size)[:size])
        weights = np.asarray(data.weights)[rows]
        weights = weights * (float(data.total_weight) / weights.sum())
        values = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], data.values)
        found = make_data(values, weights, None if blocks == 1 else data.block_size, spread=data.is_spread)
        return dataclasses.replace(found, engine=data.engine)

    def piece(self, data: Any, run: int | None = None, size: int | None = None) -> Data:
        """New data as `Data`, padded to `size` rows. With `run`, at most that many consecutive rows belong together,
        as a stream delivers them."""
        raise UnsupportedMethod(f"{type(self.model).__name__} cannot be fitted to a stream")

    def at_hand(self, data: Data) -> tuple[Any, Data]:
        """The model and data held by this process (a sample of the rows when the data live on a cluster)."""
        return self.model, data


def count(data: Data) -> int:
    return round(float(data.total_weight))
