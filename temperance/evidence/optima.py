"""Which restarts ended at the same optimum."""

from __future__ import annotations

import numpy as np

CLOSE = 1e-3  # nats; bounds that differ by less are of one optimum
TIED = 1e-9  # of the bound: restarts that differ by rounding alone
LOOSE = 2e-5  # of the bound, for what is still to come when a run stops at its relative tolerance


def distinct(bounds: np.ndarray) -> list[int]:
    """The best restart of every optimum, the highest first: bounds of one optimum differ by rounding and tolerance.

    Of restarts whose bounds are equal but for rounding it is the first one: which of them rounds up is chance.
    """
    found: list[int] = []
    for index in np.argsort(-np.where(np.isfinite(bounds), bounds, -np.inf), kind="stable"):
        if not np.isfinite(bounds[index]):
            break
        if not found or bounds[found[-1]] - bounds[index] > CLOSE + LOOSE * abs(bounds[index]):
            tied = np.abs(bounds - bounds[index]) <= TIED * (1.0 + np.abs(bounds[index]))
            found.append(int(np.argmax(tied)))
    return found
