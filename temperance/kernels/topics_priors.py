"""Concentrations of LDA learned from expected counts: fixed-point steps (Minka, 2000), as CVB0 takes them.

`some` is the probability that there is at least one token of a topic: an expected count of 0.1 mostly means none (Teh
and others, 2006).
"""

from __future__ import annotations

import numpy as np
import scipy  # imports its submodules only when they are used

_FIXED_POINT = 3  # fixed-point steps per call
_TINY = 1e-30  # keeps divisions finite


def document_prior(counts: np.ndarray, some: np.ndarray, weights: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """α after a few steps towards its maximum likelihood; `counts` (documents, topics) include α."""
    digamma = scipy.special.digamma
    expected = np.maximum(counts.astype(np.float64) - alpha, 0.0)
    lengths, weights = expected.sum(axis=1), weights.astype(np.float64)
    given = expected / np.maximum(some, _TINY)  # the expected number of tokens, if there are any
    for _ in range(_FIXED_POINT):
        grown = weights @ (some * (digamma(alpha + given) - digamma(alpha)))
        total = alpha.sum()
        alpha = alpha * np.clip(grown / max(weights @ (digamma(lengths + total) - digamma(total)), _TINY), 0.1, 10.0)
        alpha = np.maximum(alpha, 1e-5)
    return alpha


def topic_prior(counts: np.ndarray, some: np.ndarray, eta: float) -> float:
    """η, one number for all topics and words, after a few steps towards its maximum likelihood; `counts` (words,
    topics) do not include η."""
    digamma = scipy.special.digamma
    expected = np.maximum(counts.astype(np.float64), 0.0)
    totals, given = expected.sum(axis=0), expected / np.maximum(some, _TINY)
    for _ in range(_FIXED_POINT):
        grown = np.sum(some * (digamma(eta + given) - digamma(eta)))
        size = len(expected) * eta
        eta *= np.clip(grown / max(len(expected) * np.sum(digamma(totals + size) - digamma(size)), _TINY), 0.1, 10.0)
        eta = max(eta, 1e-5)
    return float(eta)
