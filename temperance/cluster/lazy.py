"""Predictions for Dask data: a lazy array with a block for each partition, computed where the partition is."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..models import Model
from .partitions import _is_array, as_partitions
from .worker import predict


def blockwise(name: str, model: Model, state: Any, data: Any) -> Any:
    """A Dask array of `log_predictive` (n,) or of `responsibilities` (n, k); n may be unknown."""
    import dask.array as da
    from dask.delayed import delayed

    width = None if name == "log_predictive" else _width(model, state)
    host = jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, (model, state))
    sent = delayed(host, name=None, pure=False, traverse=False)
    first = data[0] if isinstance(data, tuple) else data
    known = first.chunks[0] if _is_array(first) else None
    blocks = []
    for number, part in enumerate(as_partitions(data, 1)):
        lazy = delayed(predict, pure=False)(part.source, name, sent[0], sent[1], width)
        rows = np.nan if known is None else known[number]
        blocks.append(da.from_delayed(lazy, (rows,) if width is None else (rows, width), dtype=np.float64))
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _width(model: Model, state: Any) -> int:
    """The number of components."""
    if model.words.size is None:
        raise TypeError(f"{type(model).__name__} has no number of components")
    return model.words.size
