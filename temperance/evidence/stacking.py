"""Weights for an average of predictive densities that predicts held-out data best (Yao et al., 2018)."""

from __future__ import annotations

import numpy as np

from ..numerics.host import logsumexp

_STEPS, _TOLERANCE = 10_000, 1e-10


def stacking(pointwise: np.ndarray) -> np.ndarray:
    """The weights w that maximise Σ_n log Σ_k w_k exp{pointwise[n, k]}: this is concave, so EM finds the maximum."""
    n, k = pointwise.shape
    log_weights = np.full(k, -np.log(k))
    before = -np.inf
    for _ in range(_STEPS):
        joint = pointwise + log_weights
        total = logsumexp(joint, axis=1)
        log_weights = logsumexp(joint - total[:, None], axis=0) - np.log(n)
        value = float(total.sum())
        if value - before <= _TOLERANCE * n:
            break
        before = value
    return np.asarray(np.exp(log_weights))
