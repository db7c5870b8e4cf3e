"""Hidden Markov chains by brute force: sums over every path of states. NumPy and SciPy only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp


class Sums(NamedTuple):
    """The log of the sum over paths, and what their shares say."""

    log_sum: float
    states: np.ndarray  # (t, k)
    transitions: np.ndarray  # (k, k)
    first: np.ndarray  # (k,)
    best: np.ndarray  # (t,)


def every_path(steps: int, states: int) -> np.ndarray:
    return np.indices((states,) * steps).reshape(steps, -1).T


def sum_paths(initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> Sums:
    """One sequence, from logarithms."""
    steps, size = likelihood.shape
    paths = every_path(steps, size)
    terms = initial[paths[:, 0]] + transition[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    terms = terms + likelihood[np.arange(steps), paths].sum(axis=1)
    total = logsumexp(terms)
    share = np.exp(terms - total)
    one_hot = np.eye(size)[paths]
    pairs = np.einsum("p,pti,ptj->ij", share, one_hot[:, :-1], one_hot[:, 1:])
    states = np.einsum("p,pti->ti", share, one_hot)
    return Sums(float(total), states, pairs, states[0], paths[np.argmax(terms)])


def log_evidence(
    sequences: list[np.ndarray], marginal: Callable[[np.ndarray], float], initial: Any, transitions: Any
) -> float:
    """log p(x) with everything integrated out: for each path of all sequences together, Dirichlet-multinomial terms of
    first states and of transitions, and a marginal likelihood for the steps of each state."""
    initial, transitions = np.asarray(initial, float), np.asarray(transitions, float)
    rows, size = np.concatenate(sequences), len(initial)
    n = len(rows)
    begins = np.cumsum([0, *map(len, sequences[:-1])])
    on = np.setdiff1d(np.arange(n), begins)
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    table = np.array([marginal(rows[chosen.astype(bool)]) for chosen in subsets])
    terms = []
    for path in every_path(n, size):
        first = np.bincount(path[begins], minlength=size)
        pairs = np.zeros((size, size))
        np.add.at(pairs, (path[on - 1], path[on]), 1.0)
        value = _counts(initial, first) + sum(map(_counts, transitions, pairs))
        terms.append(value + sum(table[(path == k) @ 2 ** np.arange(n)] for k in range(size)))
    return float(logsumexp(terms))


def _counts(prior: np.ndarray, counts: np.ndarray) -> float:
    after = prior + counts
    return float(gammaln(after).sum() - gammaln(after.sum()) - gammaln(prior).sum() + gammaln(prior.sum()))
