"""Tables of numbers: NumPy and JAX arrays, pandas and polars frames, nested lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidData, TemperanceError
from .gate import LARGEST
from .tables import Table

_PIECE = 2**16  # rows


def is_lazy(data: Any, deep: int = 3) -> bool:
    """Whether `data` is a Dask collection, or lists of some (tested without importing Dask)."""
    if isinstance(data, list | tuple):
        return deep > 0 and len(data) > 0 and all(is_lazy(part, deep - 1) for part in data)
    return hasattr(data, "__dask_graph__") or type(data).__module__.split(".")[0] == "distributed"


def as_matrix(data: Any, *, missing: bool = False, empty_columns: bool = False, name: str = "data") -> np.ndarray:
    """A finite float64 matrix (n, d); one dimension is read as one column; NaN only where `missing` is allowed.

    A column without any value is refused, unless `empty_columns` allows it, as for new data.
    """
    array = as_numbers(data, name)
    label = _labels(data)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InvalidData(f"{name} must be a matrix of rows and columns, got an array of shape {array.shape}")
    if array.shape[0] < 1 or array.shape[1] < 1:
        raise InvalidData(f"{name} must have at least one row and one column, got shape {array.shape}")
    if within(array, LARGEST):
        return array
    if np.isinf(array).any():
        row, column = np.argwhere(np.isinf(array))[0]
        raise InvalidData(f"{name} must be finite, but row {row}, column {label(column)} is infinite")
    if ((array > LARGEST) | (array < -LARGEST)).any():
        row, column = np.argwhere(np.abs(array) > LARGEST)[0]
        found = f"{array[row, column]:g} in row {row}, column {label(column)}"
        raise InvalidData(f"{name} has {found}; rescale what exceeds {LARGEST:g}")
    holes = np.isnan(array)
    if holes.any():
        row, column = np.argwhere(holes)[0]
        if not missing:
            raise InvalidData(
                f"{name} has {int(holes.sum())} missing values (the first in row {row}, column {label(column)}); "
                'drop or fill them, or ask for missing="marginalise"'
            )
        if holes.all(axis=0).any() and not empty_columns:
            raise InvalidData(f"column {label(np.argmax(holes.all(axis=0)))} of {name} has no value at all")
    return array


def within(array: np.ndarray, limit: float) -> bool:
    """Whether no number is missing or larger than `limit` in absolute value, in two passes and without a copy."""
    return bool(-limit <= array.min() and array.max() <= limit)


def checked(check: Callable[[np.ndarray], np.ndarray], x: np.ndarray, data: Any) -> np.ndarray:
    """`check(x)` for the rows x of `data`; its errors are raised again with the names of the columns."""
    try:
        return check(x)
    except InvalidData as error:
        label = _labels(data)
        told = re.sub(r"\bcolumn (\d+)\b", lambda found: f"column {label(int(found[1]))}", str(error))
        raise InvalidData(told) from None


def _labels(data: Any) -> Callable[[Any], Any]:
    """A function from the number of a column to its name in the frame, or to the number itself where there is no
    name."""
    named = isinstance(data, Table) or (hasattr(data, "columns") and hasattr(data, "dtypes"))
    names = list(data.columns) if named else []
    return lambda column: repr(names[int(column)]) if int(column) < len(names) else int(column)


def column_moments(x: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the seen values of each column, in two passes without a copy of the data.

    A row of weight two counts as two rows, and a row of weight zero does not count.
    """
    if weights is not None:
        x, weights = x[weights > 0], weights[weights > 0] / weights.max()
    starts = range(0, len(x), _PIECE)

    def total(function: Any) -> Any:
        """Σ over rows of function(rows), missing values left out."""
        parts = (function(x[start : start + _PIECE]) for start in starts)
        if weights is None:
            return sum(np.nansum(part, axis=0) for part in parts)
        return sum(weights[at : at + _PIECE] @ np.nan_to_num(part) for at, part in zip(starts, parts, strict=True))

    seen = total(lambda piece: (~np.isnan(piece)).astype(np.float64))
    # Relative to the first seen value, because sums of numbers far from zero lose digits.
    origin = x[np.argmax(~np.isnan(x), axis=0), np.arange(x.shape[1])]
    # A column whose only values have weight zero has mean 0 and deviation 0.
    seen = np.where(seen > 0, seen, 1.0)
    origin = np.nan_to_num(origin)
    mean = origin + total(lambda piece: piece - origin) / seen
    return mean, np.sqrt(total(lambda piece: np.square(piece - mean)) / seen)


def as_weights(weights: Any, n: int, rows: str = "rows") -> np.ndarray | None:
    """Non-negative weights, one for each of `rows`; None stays None."""
    if weights is None:
        return None
    array = as_numbers(weights, "weights")
    if array.shape != (n,):
        raise InvalidData(f"weights must be one number for each of the {n} {rows}, got shape {array.shape}")
    wrong = ~np.isfinite(array) | (array < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidData(f"weights must be finite and not negative, got {array[row]:g} for row {row}")
    if array.max() > LARGEST:
        raise InvalidData(f"weights hold {array.max():g}; rescale what exceeds {LARGEST:g}")
    if array.sum() < np.finfo(np.float64).tiny:  # compiled code rounds smaller numbers to zero
        raise InvalidData("weights must not all be zero")
    return array


def distinct_rows(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Merge equal rows into one with the sum of their weights, and drop rows of weight zero; the rows are then sorted.

    A row of weight two and a row that occurs twice then give equal arrays. Data without weights or repetitions are
    left as they are.
    """
    order = np.lexsort(x.T[::-1])
    rows = x[order]
    again = ((rows[1:] == rows[:-1]) | (np.isnan(rows[1:]) & np.isnan(rows[:-1]))).all(axis=1)
    if weights is None and not again.any():
        return x, None
    first = np.flatnonzero(np.concatenate([[True], ~again]))
    total = np.add.reduceat(np.ones(len(x)) if weights is None else weights[order], first)
    return rows[first][total > 0], total[total > 0]


def as_numbers(data: Any, name: str) -> np.ndarray:
    """Real numbers of any shape as float64: NaN where they are masked, None or NA."""
    if data is None or isinstance(data, str | bytes | dict):
        shown = "a dictionary" if isinstance(data, dict) else repr(data)
        raise InvalidData(f"{name} must be an array or a frame, got {shown}")
    if isinstance(data, Table):
        return data.matrix()
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        return _frame(data, name)
    return _floats(as_array(data, name), name)


def as_array(data: Any, name: str = "data") -> np.ndarray:
    """An array of any type from an array or nested lists, with NaN where masked; sparse and ragged data are refused."""
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise InvalidData(f"{name} is a sparse matrix; this model needs a dense one (data.toarray())")
    if np.ma.isMaskedArray(data):
        # A masked entry still holds a number, which must not be used.
        return np.ma.filled(np.ma.masked_array(_floats(data.data, name), data.mask), np.nan)
    try:
        return np.asarray(data)
    except ValueError as error:
        raise InvalidData(f"{name} cannot be read as an array: rows have different lengths") from error
    except (TemperanceError, MemoryError):
        raise
    except Exception as error:  # of the object's own `__array__`
        raise InvalidData(f"{name} cannot be read as an array: {' '.join(str(error).split())[:200]}") from error


def _floats(array: np.ndarray, name: str) -> np.ndarray:
    """Real numbers as float64; None and pandas' NA become NaN."""
    if array.dtype.kind == "O":
        try:
            array = np.asarray([_number(value) for value in array.flat], dtype=np.float64).reshape(array.shape)
        except (ValueError, TypeError) as error:
            raise InvalidData(f"{name} must be numeric, but {error}") from error
    if array.dtype.kind not in "fiub":
        kind = "text" if array.dtype.kind in "US" else array.dtype
        raise InvalidData(f"{name} must be real numbers, got {kind}")
    return np.asarray(array, dtype=np.float64, order="C")  # the last bits of sums depend on the memory order


def _number(value: Any) -> float:
    if value is None or type(value).__name__ == "NAType":
        return float("nan")
    if isinstance(value, str | bytes):  # float() would read these
        raise TypeError(f"holds the text {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise TypeError("holds a whole number that no float can hold") from None
    except (TypeError, ValueError):
        raise TypeError(f"holds {value!r}") from None


def _frame(frame: Any, name: str) -> np.ndarray:
    """The numbers of a pandas or polars frame; a column that is not numeric is named."""
    columns = list(frame.columns)
    if not columns:
        raise InvalidData(f"{name} must have at least one row and one column, got a frame without columns")
    arrays = []
    for position, column in enumerate(columns):
        series = frame.iloc[:, position] if hasattr(frame, "iloc") else frame[column]
        try:
            arrays.append(_floats(np.asarray(series), f"column {column!r} of {name}"))
        except InvalidData as error:
            raise InvalidData(f"{error}; leave it out, or turn it into numbers") from error
    return np.stack(arrays, axis=1)
