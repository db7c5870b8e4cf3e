"""The part to which each row belongs: a table with one row for each row of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..data.tables import Table, read_table
from ..fit import Fit


def membership(fit: Fit, x_new: Any) -> dict[str, list[Any]]:
    """The number of each row, its id, its part, the probability of that part, and the probabilities of all parts that
    hold data, the largest first."""
    words, order = fit.model.words, fit.order
    names = [words.label(place) for place in range(len(order))]
    shares = np.asarray(fit.responsibilities(x_new))[:, order]
    shares = shares / shares.sum(axis=1, keepdims=True)
    best = shares.argmax(axis=1)
    ids = ids_of(fit, x_new)
    found: dict[str, list[Any]] = {"row": list(range(1, len(shares) + 1))}
    found |= {} if ids is None else {"id": ids}
    found |= {words.part: [names[k] for k in best], "probability": shares.max(axis=1).tolist()}
    return found | {f"probability of {name}": shares[:, place].tolist() for place, name in enumerate(names)}


def ids_of(fit: Fit, x_new: Any) -> list[Any] | None:
    """The names of the rows: the first column of ids, or the index of a frame if it is not merely the row numbers; else
    None."""
    named = fit.schema is not None and any(column.kind == "id" for column in fit.schema)
    if named and (isinstance(x_new, str | Path | dict) or hasattr(x_new, "columns")) and not isinstance(x_new, Table):
        x_new = read_table(x_new, like=fit.schema)
    if isinstance(x_new, Table):
        return x_new.ids.tolist() if any(column.kind == "id" for column in x_new.schema) else None
    index = getattr(x_new, "index", None)
    if index is None or callable(index) or list(index) == list(range(len(index))):
        return None
    return list(index)
