"""One or many sequences, of unequal length, as one array with the steps of all sequences one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidData
from .arrays import as_matrix


def as_sequences(
    data: Any, *, missing: bool = False, empty_columns: bool = False, name: str = "data"
) -> tuple[np.ndarray, np.ndarray]:
    """(steps, columns) of all sequences and the length of each.

    A table is one sequence, and so is a vector, with one column; a list of arrays or frames has one sequence in each;
    an array with three axes is (sequence, step, column).
    """
    allowed = {"missing": missing, "empty_columns": True}
    if isinstance(data, list | tuple) and data and all(_is_table(part) for part in data):
        parts = [as_matrix(part, **allowed, name=f"sequence {i} of {name}") for i, part in enumerate(data)]
        widths = [part.shape[1] for part in parts]
        if len(set(widths)) > 1:
            other = next(i for i, width in enumerate(widths) if width != widths[0])
            raise InvalidData(
                f"sequences of {name} must have the same columns, but sequence 0 has {widths[0]} and sequence {other} "
                f"has {widths[other]}"
            )
        rows, lengths = np.concatenate(parts), np.array([len(part) for part in parts])
    elif getattr(data, "ndim", None) == 3:
        array = np.asarray(data)
        count, length, width = array.shape
        if 0 in array.shape:
            raise InvalidData(f"{name} must have at least one sequence, step and column, got shape {array.shape}")
        rows, lengths = array.reshape(count * length, width), np.full(count, length)
    else:
        rows, lengths = data, np.empty(0, dtype=int)
    rows = as_matrix(rows, missing=missing, empty_columns=empty_columns, name=name)
    return rows, lengths if len(lengths) else np.array([len(rows)])


def _is_table(part: Any) -> bool:
    """Whether `part` is an array or a frame, and not a number or a list of numbers: a list of lists is one table."""
    return getattr(part, "ndim", 0) in (1, 2) or hasattr(part, "columns")
