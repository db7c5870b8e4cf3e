"""Answers about new data, a piece at a time."""

from __future__ import annotations

import functools
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
    function = responsibilities_of if name == "responsibilities" else functools.partial(_asked, name)
    rows = require(model, Predicting).new_rows(x_new)
    if not model.rows.independent:
        return np.asarray(function(model, state, rows))
    n = jax.tree.leaves(rows)[0].shape[0]
    pieces = []
    for start in range(0, n, _ROWS):
        piece = jax.tree.map(lambda leaf, start=start: leaf[start : start + _ROWS], rows)
        size = jax.tree.leaves(piece)[0].shape[0]
        if n > _ROWS and size < _ROWS:
            again = np.minimum(np.arange(_ROWS), size - 1)  # one shape, one compilation
            piece = jax.tree.map(lambda leaf, again=again: np.asarray(leaf)[again], piece)
        pieces.append(np.asarray(function(model, state, piece))[:size])
    return np.concatenate(pieces)


def responsibilities_of(model: Any, q: Any, x: Any) -> Any:
    """The responsibilities of rows in the model's form, by one compiled program unless the rows are few."""
    found = model.responsibilities_of_few(q, x) if isinstance(q, Posterior) else None
    return _asked("responsibilities", model, q, x) if found is None else found


@eqx.filter_jit
def _asked(name: str, model: Any, q: Any, x: Any) -> Array:
    return getattr(model, name)(q, x) if isinstance(q, Posterior) else getattr(q, name)(model, x)
