"""The data of a regression: inputs X and targets y, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data import as_matrix
from ...errors import InvalidData

LARGEST = 1e100  # the squares of what enters must be finite


class Rows(NamedTuple):
    """What `Data.values` holds: standardised features (with the intercept's ones) and centred targets."""

    features: Any  # (n, p)
    target: Any  # (n,)


def as_inputs(data: Any, name: str = "X") -> np.ndarray:
    """A finite matrix with one row for each datum."""
    array = as_matrix(data, missing=True, name=name)
    if np.isnan(array).any():
        row, column = np.argwhere(np.isnan(array))[0]
        raise InvalidData(f"{name} has a missing value (row {row}, column {column}): drop or fill it")
    if (np.abs(array) > LARGEST).any():
        raise InvalidData(f"{name} must be at most 1e100 in size, got {np.abs(array).max():g}: rescale it")
    return array


def as_inputs_and_targets(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """A matrix X and a vector y of the same length, both finite, from a pair (X, y)."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        found = f"{len(data)} things" if isinstance(data, tuple | list) else f"one {type(data).__name__}"
        raise InvalidData(f"data must be a pair (X, y) of inputs and targets, got {found}")
    x, y = as_inputs(data[0]), as_inputs(data[1], "y")
    if y.shape[1] != 1:
        raise InvalidData(f"y must be one number for each row of X, got shape {y.shape}")
    if x.shape[0] != y.shape[0]:
        raise InvalidData(f"X and y must have the same number of rows, got {x.shape[0]} and {y.shape[0]}")
    return x, y[:, 0]


def check_features(rows: np.ndarray) -> np.ndarray:
    wrong = ~(np.abs(rows) <= LARGEST)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        found = rows[row, column]
        raise InvalidData(f"features must be finite and at most 1e100, but feature {column} of row {row} is {found}")
    return rows


def condition_number(rows: np.ndarray) -> float:
    """Of the matrix of features, to the eight digits that its Gram matrix can tell."""
    values = np.linalg.eigvalsh(rows.T @ rows)
    return float(np.sqrt(values[-1] / max(values[0], 1e-16 * values[-1], np.finfo(float).tiny)))
