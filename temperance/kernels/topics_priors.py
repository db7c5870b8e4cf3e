"""Concentrations of LDA learned from expected counts: fixed-point steps (Minka, 2000), as CVB0 takes them.

`some` is the probability that there is any token of a topic at all: an expected count of 0.1 is mostly none (Teh and
others, 2006).
"""

from __future__ import annotations

import numpy as np
import scipy  # which imports its parts when they are used

_FIXED_POINT = 3  # steps each time
_TINY = 1e-30  # keeps divisions finite


def document_prior(counts: np.ndarray, some: np.ndarray, weights: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Towards the α under which the topics of documents are likeliest; `counts` (documents, topics) include α."""
    digamma = scipy.special.digamma
    expected = np.maximum(counts.astype(np.float64) - alpha, 0.0)
    lengths, weights = expected.sum(axis=1), weights.astype(np.float64)
    given = expected / np.maximum(some, _TINY)  # how many there are, if there are any
    for _ in range(_FIXED_POINT):
        grown = weights @ (some * (digamma(alpha + given) - digamma(alpha)))
        total = alpha.sum()
        alpha = alpha * np.clip(grown / max(weights @ (digamma(lengths + total) - digamma(total)), _TINY), 0.1, 10.0)
        alpha = np.maximum(alpha, 1e-5)
    return alpha


def topic_prior(counts: np.ndarray, some: np.ndarray, eta: float) -> float:
    """The same for one η of all topics and words; `counts` (words, topics) do not include it."""
    digamma = scipy.special.digamma
    expected = np.maximum(counts.astype(np.float64), 0.0)
    totals, given = expected.sum(axis=0), expected / np.maximum(some, _TINY)
    for _ in range(_FIXED_POINT):
        grown = np.sum(some * (digamma(eta + given) - digamma(eta)))
        size = len(expected) * eta
        eta *= np.clip(grown / max(len(expected) * np.sum(digamma(totals + size) - digamma(size)), _TINY), 0.1, 10.0)
        eta = max(eta, 1e-5)
    return float(eta)
