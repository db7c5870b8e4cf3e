"""Brackets: two numbers that enclose the log evidence.

The integrand of thermodynamic integration never falls, so left and right Riemann sums of the true averages enclose the
answer: safe, but as wide as the ladder is coarse. Stepping stones upwards are too low on average and downwards too
high: tight, but a stochastic bound. The bracket takes the tighter bound on each side, moved outwards by `WIDTH`
standard errors. Ends that cross refute each other: `crossed` says so, and such a bracket is never shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .stepping_stone import reverse_stepping_stone, stepping_stone
from .tempered import Estimate, Tempered, combine, few, linearised

WIDTH = 3.0  # standard errors
MANY = 1_000_000  # independent pieces: effectively infinitely many


def riemann(tempered: Tempered) -> tuple[Estimate, Estimate]:
    """The left and the right Riemann sum, with standard errors."""
    averages = tempered.slopes.mean(axis=0)
    centred = tempered.slopes - averages
    width = np.diff(tempered.betas)

    def total(part: slice) -> Estimate:
        return linearised(tempered.log_start + float(averages[part] @ width), centred[:, part] @ width)

    return total(slice(None, -1)), total(slice(1, None))


def bracket(ladders: Sequence[Tempered], pieces: int = MANY) -> tuple[float, float]:
    """The bracket from one or more ladders of one model; `pieces` is the number of independent pieces to which the
    draws amount."""
    sums = [riemann(ladder) for ladder in ladders]
    below = [combine([left for left, _ in sums]), combine([stepping_stone(ladder) for ladder in ladders])]
    above = [combine([right for _, right in sums]), combine([reverse_stepping_stone(ladder) for ladder in ladders])]
    return outwards([few(one, pieces) for one in below], [few(one, pieces) for one in above])


def outwards(below: list[Estimate], above: list[Estimate]) -> tuple[float, float]:
    """The highest lower and the lowest upper bound, each moved outwards by its error."""
    low = max((bound.log_evidence - WIDTH * bound.standard_error for bound in below), default=-np.inf)
    high = min((bound.log_evidence + WIDTH * bound.standard_error for bound in above), default=np.inf)
    return low, high


def intersect(*brackets: tuple[float, float]) -> tuple[float, float]:
    """The intersection of several brackets, one of which may be a bound, such as (variational bound, ∞)."""
    return max(low for low, _ in brackets), min(high for _, high in brackets)


def crossed(bracket: tuple[float, float]) -> list[str]:
    """A list with a sentence if the lower end lies above the upper end; else an empty list."""
    low, high = bracket
    if low <= high:
        return []
    return [
        f"a lower bound on the log evidence, {low:.2f}, lies above an upper one, {high:.2f}, so one of them is off by "
        "more than its standard error says; run longer"
    ]
