"""Several series of unequal length as compiled code sees them: padded to the longest, each one datum."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ..._module import Module
from ...data import as_matrix
from ...data.sequences import as_sequences
from ...errors import InvalidData


class Series(Module):
    """Values, the controls that go with them, and which steps there are (1, or NaN for padding)."""

    x: Float[Array, "n t d"]
    controls: Float[Array, "n t u"]
    real: Float[Array, "n t"]

    @property
    def lengths(self) -> np.ndarray:
        return (~np.isnan(np.asarray(self.real))).sum(axis=1)


def as_series(data: Any, missing: bool, n_controls: int, columns: int | None = None) -> Series:
    """Host arrays from a table, a list of tables, or with controls a pair (values, controls) of such."""
    controls = None
    if n_controls:
        if not isinstance(data, tuple) or len(data) != 2:
            raise InvalidData("with controls the data must be a pair (values, controls) of tables or of lists of them")
        data, given = data
        controls, steps = as_sequences(given, name="controls")
        if controls.shape[1] != n_controls:
            raise InvalidData(f"controls must have {n_controls} columns, got {controls.shape[1]}")
    rows, lengths = as_sequences(data, missing=missing, empty_columns=missing and columns is not None)
    if columns is not None and rows.shape[1] != columns:
        raise InvalidData(f"data have {rows.shape[1]} columns, but the model was fitted to {columns}")
    if controls is not None and not np.array_equal(steps, lengths):
        raise InvalidData(f"controls must have as many steps as the data, {lengths.tolist()}, got {steps.tolist()}")
    n, longest, ends = len(lengths), int(lengths.max()), np.cumsum(lengths)
    x, real = np.full((n, longest, rows.shape[1]), np.nan), np.full((n, longest), np.nan)
    u = np.zeros((n, longest, n_controls))
    for index, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        x[index, :length], real[index, :length] = rows[end - length : end], 1.0
        if controls is not None:
            u[index, :length] = controls[end - length : end]
    return Series(x, u, real)  # type: ignore[arg-type]


def as_future(controls: Any, n: int, n_controls: int) -> np.ndarray:
    """The controls of the next n steps."""
    if n_controls == 0:
        return np.zeros((n, 0))
    if controls is None:
        raise InvalidData(f"a forecast needs the controls of the next {n} steps: controls= ({n}, {n_controls})")
    u = as_matrix(controls, name="controls")
    if u.shape != (n, n_controls):
        raise InvalidData(f"controls of a forecast must have shape ({n}, {n_controls}), got {u.shape}")
    return u
