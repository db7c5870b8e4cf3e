"""Answers about new data, a piece at a time."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from .models import Model, Posterior
from .models._answers import Predicting, require

_ROWS = 4096  # new data are treated in pieces of this many rows, so that memory stays bounded


def rowwise(name: str, model: Model, state: Any, x_new: Any) -> np.ndarray:
    """`log_predictive` or `responsibilities` of new data, a piece at a time."""
    function = {"log_predictive": _log_predictive, "responsibilities": responsibilities_of}[name]
    rows = require(model, Predicting).new_rows(x_new)
    if not model.rows.independent:
        return np.asarray(function(model, state, rows))
    n = jax.tree.leaves(rows)[0].shape[0]
    pieces = []
    for start in range(0, n, _ROWS):
        piece = jax.tree.map(lambda leaf, start=start: leaf[start : start + _ROWS], rows)
        size = jax.tree.leaves(piece)[0].shape[0]
        if n > _ROWS and size < _ROWS:
            # One shape, one compilation.
            piece = jax.tree.map(
                lambda leaf, size=size: np.concatenate([leaf, np.repeat(leaf[-1:], _ROWS - size, axis=0)]),
                piece,
            )
        pieces.append(np.asarray(function(model, state, piece))[:size])
    return np.concatenate(pieces)


@eqx.filter_jit
def _log_predictive(model: Any, q: Any, x: Any) -> Array:
    return model.log_predictive(q, x) if isinstance(q, Posterior) else q.log_predictive(model, x)


@eqx.filter_jit
def responsibilities_of(model: Any, q: Any, x: Any) -> Array:
    """The responsibilities of rows as the model has them, as one program."""
    return model.responsibilities(q, x) if isinstance(q, Posterior) else q.responsibilities(model, x)
