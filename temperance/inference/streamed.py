"""A stream in the form for models: pieces of rows on the device, all of one shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from ..data.stream import Stream
from ..errors import InvalidData, UnsupportedMethod
from ..models import Data, Model
from ..models._answers import Predicting, require
from ..models._data import gathered, make_data

_SAMPLE = 10_000  # rows that determine scales, default priors and starts


@dataclasses.dataclass(frozen=True)
class Streamed:
    """The stream in place of `Data`; `wrap` adds to each piece what the method needs to know about it."""

    stream: Stream
    model: Model
    sample: Data  # some rows, weighted so that they represent all
    seed: int
    wrap: Callable[[Data], Data] = lambda piece: piece

    @property
    def size(self) -> int:
        return self.stream.size

    def pieces(self, skip: int = 0) -> Iterator[Data]:
        """Yield shuffled pieces without end, without the first `skip` ones."""
        return self.stream.shuffled(self.seed, lambda raw: self.wrap(self._arrays(raw)), skip)

    def piece_shapes(self) -> Data:
        """The shapes of a piece."""
        return eqx.filter_eval_shape(lambda: self.wrap(self._arrays(self.stream.take([(0, self.stream.piece_rows)]))))

    def in_order(self) -> Iterator[Data]:
        """All rows once; short pieces are padded with rows of weight zero."""
        return self.stream.in_order(self._arrays)

    def _arrays(self, raw: Any) -> Data:
        if not self.model.rows.independent:
            return self.model.rows.piece(raw, self.stream.slab_rows, self.stream.piece_rows)
        rows = require(self.model, Predicting).new_rows(raw)
        count, full = jax.tree.leaves(rows)[0].shape[0], self.stream.piece_rows
        weights = np.ones(full)
        if count < full:
            rows = jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], full - count, axis=0)]), rows)
            weights[count:] = 0.0
        return make_data(rows, weights, self.sample.block_size, spread=self.sample.is_spread)


def prepare_stream(
    model: Model, stream: Stream, method: Any, weights: Any, key: Key[Array, ""]
) -> tuple[Model, Streamed]:
    """The model completed by a sample of the rows, and the stream of all of them."""
    if not method.streams:
        raise UnsupportedMethod(f"{method.name} needs all data in memory; for a stream use tp.SVI()")
    if weights is not None:
        raise InvalidData("weights cannot be given for a stream")
    seed = int(jax.random.bits(key, dtype="uint32"))
    model, sample = model.prepare(stream.sample(np.random.default_rng(seed), _SAMPLE))
    scale = stream.size / sample.size
    sample = eqx.tree_at(lambda data: data.weights, sample, sample.weights * scale)
    return model, Streamed(stream, model, sample, seed)


def on_one_device(data: Data | Streamed) -> Data | Streamed:
    """The data on one device, for a method that goes from row to row."""
    if isinstance(data, Streamed):
        return dataclasses.replace(data, sample=gathered(data.sample))
    return gathered(data)
