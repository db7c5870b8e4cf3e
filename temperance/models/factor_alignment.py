"""Draws of factors in one order and with one sign: neither has a meaning, so chains change them."""

from __future__ import annotations

from typing import Any

import numpy as np


def align_factors(draws: dict[str, Any], pivot: int, scale: np.ndarray) -> dict[str, Any]:
    """The draws (leading axis) with the factors of each in the order, and with the signs, that match the pivot's best.

    Factors match when their loadings, in units of their columns, have a large inner product: an assignment problem.
    """
    from scipy.optimize import linear_sum_assignment

    loadings = np.array(draws["loadings"])
    relevance = np.array(draws["relevance"]) if "relevance" in draws else None
    columns = loadings[..., :-1] / scale[:, None]
    overlaps = np.einsum("di,sdj->sij", columns[pivot], columns)
    for index, overlap in enumerate(overlaps):
        rows, order = linear_sum_assignment(np.abs(overlap), maximize=True)
        sign = np.where(overlap[rows, order] < 0.0, -1.0, 1.0)
        loadings[index, :, :-1] = sign * loadings[index][:, order]
        if relevance is not None:
            relevance[index] = relevance[index, order]
    found = {"loadings": loadings} | ({} if relevance is None else {"relevance": relevance})
    return dict(draws) | found
