"""Bennett's acceptance ratio between every pair of neighbours on a ladder: the default estimate.

For draws from both sides of a pair, c = log Z_{k+1}/Z_k solves Σ σ(forward − c) = Σ σ(c − backward): the estimate
of least variance that two sets of draws allow (Bennett, 1976). It needs neither an interpolation nor a finite
average at β = 0, so the glitch of thesis 4.2.1 does not arise.
"""

from __future__ import annotations

import numpy as np

from ..numerics.host import expit, logsumexp
from .tempered import Estimate, Tempered, linearised


def bar(tempered: Tempered) -> Estimate:
    """log p(x) with its standard error."""
    forward, backward = tempered.forward, tempered.backward
    steps = log_ratios(forward, backward)
    above, below = expit(forward - steps), expit(steps - backward)
    curvature = np.mean(above * (1.0 - above), axis=0) + np.mean(below * (1.0 - below), axis=0)
    # Pairs that never overlap have almost no curvature, and so get an infinite error.
    influence = (above - below) / np.maximum(curvature, 1e-300)
    return linearised(tempered.log_start + steps.sum(), influence.sum(axis=1))


def log_ratios(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """log Z_{k+1}/Z_k of every pair, by Newton inside a bracket that bisection keeps shrinking.

    Both sets may have any number of rows (draws); columns are pairs.
    """
    shift = np.log(len(backward) / len(forward))
    low = -logsumexp(-backward, axis=0) - np.abs(shift) - 60.0
    high = logsumexp(forward, axis=0) + np.abs(shift) + 60.0
    c = 0.5 * (np.median(forward, axis=0) + np.median(backward, axis=0))
    c = np.clip(c, low, high)
    for _ in range(100):
        above, below = expit(forward - c + shift), expit(c - backward - shift)
        gap = above.sum(axis=0) - below.sum(axis=0)
        low, high = np.where(gap > 0, c, low), np.where(gap > 0, high, c)
        slope = np.sum(above * (1.0 - above), axis=0) + np.sum(below * (1.0 - below), axis=0)
        newton = c + gap / np.maximum(slope, 1e-300)
        fresh = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
        if np.max(np.abs(fresh - c), initial=0.0) < 1e-10:
            return fresh
        c = fresh
    return c
