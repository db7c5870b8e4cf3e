"""A sample of rows, weighted to stand for all, for quick looks at large data."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ...models import Data
from ...models._data import make_data
from ...models.hidden_markov.steps import Steps, first_steps


def some_rows(data: Data, count: int, rng: np.random.Generator, blocks: int | None = None) -> Data:
    """At most `count` rows, with the same total weight; of sequences the first, because they must not be torn apart."""
    size = min(count, data.size)
    if isinstance(data.values, Steps):
        return first_steps(data, size)
    rows = np.arange(size) if size == data.size else np.sort(rng.permutation(data.size)[:size])
    weights = np.asarray(data.weights)[rows]
    weights = weights * (float(data.total_weight) / weights.sum())
    values = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], data.values)
    found = make_data(values, weights, None if blocks == 1 else data.block_size, spread=data.is_spread)
    return dataclasses.replace(found, engine=data.engine)
