"""Draws of factors (or hidden states) in one order and with one sign: neither has a meaning, so chains change them."""

from __future__ import annotations

from typing import Any

import numpy as np

_ONE_EACH = ("relevance", "state_noise")  # blocks with one number for each factor


def align_factors(
    draws: dict[str, Any], pivot: int, scale: np.ndarray, size: int, loadings: str = "loadings"
) -> dict[str, Any]:
    """The draws (leading axis) with the factors of each in the order, and with the signs, that match the pivot's best.

    Factors match when their loadings, the first `size` entries of each column's row, have a large inner product in
    units of the columns: an assignment problem.
    """
    from scipy.optimize import linear_sum_assignment

    found = dict(draws) | {name: np.array(draws[name]) for name in (*_ONE_EACH, loadings, "dynamics") if name in draws}
    columns = found[loadings][..., :size] / scale[:, None]
    overlaps = np.einsum("di,sdj->sij", columns[pivot], columns)
    for index, overlap in enumerate(overlaps):
        rows, order = linear_sum_assignment(np.abs(overlap), maximize=True)
        sign = np.where(overlap[rows, order] < 0.0, -1.0, 1.0)
        found[loadings][index, :, :size] = sign * found[loadings][index][:, order]
        if "dynamics" in found:
            moved = sign[:, None] * found["dynamics"][index][order]
            moved[:, :size] = sign * moved[:, order]
            found["dynamics"][index] = moved
        for name in _ONE_EACH:
            if name in found:
                found[name][index] = found[name][index, order]
    return found
