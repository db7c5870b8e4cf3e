"""Sums over all words of functions of topics, for documents of LDA with their own temperatures."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS, log


def weighted_sums(values: np.ndarray, table: np.ndarray, least: float, step: float) -> np.ndarray:
    """Σ_v x_kv f_j(x_kv) for each row k of values and each function f_j, tabulated (column j) at equal steps of log x.
    Each x is shared between its two neighbours on this grid, and the table is used once, at the end."""
    shares = np.zeros((len(values), len(table)))
    in_threads(lambda *part: _share_out(*part, values, math.log(least), 1.0 / step, shares), len(values), 8)
    return shares @ table


@njit(**OPTIONS)
def _share_out(start, stop, values, origin, scale, shares):  # type: ignore[no-untyped-def]
    last = shares.shape[1] - 2
    places = np.empty(values.shape[1])
    for row in range(start, stop):
        value, share = values[row], shares[row]
        for v in range(len(value)):
            places[v] = (log(value[v]) - origin) * scale
        for v in range(len(value)):
            low = min(max(int(places[v]), 0), last)
            part = min(max(places[v] - low, 0.0), 1.0) * value[v]
            share[low] += value[v] - part
            share[low + 1] += part
