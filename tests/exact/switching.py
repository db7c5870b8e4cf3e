"""Switching linear dynamics by brute force: every path of regimes, each a dense Gaussian. NumPy and SciPy only."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal

WEIGHTS = np.array([[[0.9, 0.2], [0.0, 0.7]], [[-0.5, 0.0], [0.3, 0.4]]])
PRECISIONS = np.array([np.eye(2) / 0.3, np.eye(2) / 1.5])
LOOK = np.array([[1.0, 0.5]])
SERIES = np.array([1.2, 1.1, 1.3, 1.0, 0.9, 1.1])[:, None]
MOVES = np.array([[1.0, 4.0], [4.0, 1.0]])


def gaussian(x: np.ndarray, path: tuple[int, ...]) -> float:
    """log p(x | path): the states by their joint covariance."""
    t = len(x)
    covariance = np.zeros((2 * t, 2 * t))
    covariance[:2, :2] = np.diag([1.0, 2.0])
    for s in range(1, t):
        law, noise = WEIGHTS[path[s - 1]], np.linalg.inv(PRECISIONS[path[s - 1]])
        before, here = slice(0, 2 * s), slice(2 * s, 2 * s + 2)
        covariance[here, before] = law @ covariance[2 * s - 2 : 2 * s, before]
        covariance[before, here] = covariance[here, before].T
        covariance[here, here] = law @ covariance[2 * s - 2 : 2 * s, 2 * s - 2 : 2 * s] @ law.T + noise
    look = np.kron(np.eye(t), LOOK)
    seen = ~np.isnan(x[:, 0])
    total = (look @ covariance @ look.T + 0.4 * np.eye(t))[np.ix_(seen, seen)]
    return float(multivariate_normal(np.zeros(seen.sum()), total).logpdf(x[seen, 0]))


def counts(prior: np.ndarray, seen: np.ndarray) -> float:
    return float(gammaln(prior.sum()) - gammaln((prior + seen).sum()) + (gammaln(prior + seen) - gammaln(prior)).sum())


class Sums(NamedTuple):
    log_evidence: float
    shares: np.ndarray  # the probability of each regime at every move
    transitions: np.ndarray  # E[A | x]


def every_path(x: np.ndarray) -> Sums:
    """With π and A integrated out."""
    every, logs, rows = list(itertools.product(range(2), repeat=len(x) - 1)), [], []
    for path in every:
        pairs = np.zeros((2, 2))
        np.add.at(pairs, (path[:-1], path[1:]), 1.0)
        chain = counts(np.ones(2), np.eye(2)[path[0]]) + sum(map(counts, MOVES, pairs))
        logs.append(chain + gaussian(x, path))
        rows.append((MOVES + pairs) / (MOVES + pairs).sum(axis=1, keepdims=True))
    total = logsumexp(logs)
    weight = np.exp(np.array(logs) - total)
    shares = np.einsum("p,ptk->tk", weight, np.eye(2)[np.array(every)])
    return Sums(float(total), shares, np.einsum("p,pij->ij", weight, np.array(rows)))
