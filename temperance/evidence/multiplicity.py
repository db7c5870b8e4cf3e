"""The log of the number of ways to number the parts of a solution: log K!, or less.

The posterior of a model with exchangeable parts has a copy of every mode for each way to number them. A method that
sees one copy (VB, message passing, Laplace) leaves out the other copies, so its log evidence is too low by the log of
the number of copies. This number is K! only if all K parts differ: parts that hold no data, or that are equal, can be
exchanged without giving another mode, so with groups of m₁, m₂, … such parts there are K!/(m₁! m₂! …) copies. Where the
sign of a part is free, each part that holds data doubles the number of copies.

The correction is right if the copies hardly overlap, and an upper limit if they do.
"""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from ..models import Data, Model, Posterior
from ..models._answers import Holding

_HELD = 0.5  # expected data (tokens) below which a part counts as empty
_SAME = 1e-6  # relative difference below which two parts are equal


def log_multiplicity(model: Model, q: Posterior, data: Data) -> float:
    """The log of the number of different modes that renumbering the parts of a solution gives; 0 where there is no
    such symmetry."""
    symmetry = model.symmetry
    if symmetry is None or symmetry.alike is None or not isinstance(model, Holding):
        return 0.0
    total = 0.0
    for parts, held in zip(symmetry.parts, model.held(q, data), strict=False):
        if parts.alike:
            total += log_arrangements(_group_sizes(held, parts.features(q.blocks)))
            total += int(np.sum(held >= _HELD)) * log(2.0) if parts.signs else 0.0
    return total


def log_arrangements(sizes: list[int]) -> float:
    """log (Σ m)! / Π m!"""
    return lgamma(sum(sizes) + 1) - sum(lgamma(m + 1) for m in sizes)


def _group_sizes(held: np.ndarray, features: np.ndarray | None) -> list[int]:
    """The sizes of the groups of equal parts: empty parts form one group, other parts a group if their posteriors are
    equal."""
    empty = held < _HELD
    sizes = [int(empty.sum())]
    left = list(np.flatnonzero(~empty))
    if features is None:
        return sizes + [1] * len(left)
    while left:
        first, *rest = left
        scale = _SAME * (1e-12 + np.abs(features[first]))
        same = [k for k in rest if (np.abs(features[k] - features[first]) <= scale).all()]
        sizes.append(1 + len(same))
        left = [k for k in rest if k not in same]
    return sizes
