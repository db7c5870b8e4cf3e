"""Which restarts ended at the same optimum."""

from __future__ import annotations

import numpy as np

CLOSE = 1e-3  # nats; bounds that differ by less belong to one optimum
TIED = 1e-9  # relative difference of bounds that differ by rounding alone
LOOSE = 2e-5  # relative gain that a run may still have before it when it stops at its tolerance


def distinct(bounds: np.ndarray) -> list[int]:
    """The best restart of every optimum, the highest first: bounds of one optimum differ by rounding and tolerance.

    If the bounds of several restarts are equal up to rounding, the first one is taken, because rounding is chance.
    """
    found: list[int] = []
    for index in np.argsort(-np.where(np.isfinite(bounds), bounds, -np.inf), kind="stable"):
        if not np.isfinite(bounds[index]):
            break
        if not found or bounds[found[-1]] - bounds[index] > CLOSE + LOOSE * abs(bounds[index]):
            tied = np.abs(bounds - bounds[index]) <= TIED * (1.0 + np.abs(bounds[index]))
            found.append(int(np.argmax(tied)))
    return found
