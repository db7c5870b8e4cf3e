"""Tables of numbers: NumPy and JAX arrays, pandas and polars frames, nested lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidData


def as_matrix(data: Any, *, missing: bool = False, name: str = "data") -> np.ndarray:
    """A finite float64 matrix (n, d); one dimension is read as one column; NaN only where `missing` is allowed."""
    array = _numbers(data, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InvalidData(f"{name} must be a matrix of rows and columns, got an array of shape {array.shape}")
    if array.shape[0] < 1 or array.shape[1] < 1:
        raise InvalidData(f"{name} must have at least one row and one column, got shape {array.shape}")
    if np.isinf(array).any():
        row, column = np.argwhere(np.isinf(array))[0]
        raise InvalidData(f"{name} must be finite, but row {row}, column {column} is infinite")
    holes = np.isnan(array)
    if holes.any():
        row, column = np.argwhere(holes)[0]
        if not missing:
            raise InvalidData(
                f"{name} has {int(holes.sum())} missing values (the first in row {row}, column {column}); "
                'drop or fill them, or ask for missing="marginalise"'
            )
        if holes.all(axis=0).any():
            raise InvalidData(f"column {int(np.argmax(holes.all(axis=0)))} of {name} has no value at all")
    return array


def as_weights(weights: Any, n: int) -> np.ndarray | None:
    """Non-negative weights, one for each row; None stays None."""
    if weights is None:
        return None
    array = _numbers(weights, "weights")
    if array.shape != (n,):
        raise InvalidData(f"weights must be one number for each of the {n} rows, got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InvalidData(f"weights must be finite and not negative, the smallest is {array.min()}")
    if array.sum() == 0:
        raise InvalidData("weights must not all be zero")
    return array


def _numbers(data: Any, name: str) -> np.ndarray:
    if isinstance(data, str | bytes):
        raise InvalidData(f"{name} must be an array or a frame, got the text {data!r}")
    if hasattr(data, "select_dtypes") or hasattr(data, "schema"):
        data = _frame(data, name)
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise InvalidData(f"{name} is a sparse matrix; this model needs a dense one (data.toarray())")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InvalidData(f"{name} cannot be read as an array: rows have different lengths") from error
    if array.dtype.kind in "OUS":
        try:
            array = array.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise InvalidData(f"{name} must be numeric, but holds text or objects ({error})") from error
    if array.dtype.kind == "c" or array.dtype.kind not in "fiub":
        raise InvalidData(f"{name} must be real numbers, got {array.dtype}")
    return np.asarray(array, dtype=np.float64)


def _frame(frame: Any, name: str) -> Any:
    """The numbers of a pandas or polars frame; a column that is not numeric is named."""
    columns = list(getattr(frame, "columns", []))
    for column in columns:
        dtype = str(frame[column].dtype).lower()
        if not any(kind in dtype for kind in ("int", "float", "bool", "decimal")):
            raise InvalidData(f"column {column!r} of {name} is not numeric ({frame[column].dtype}): leave it out")
    return frame.to_numpy() if columns else frame
