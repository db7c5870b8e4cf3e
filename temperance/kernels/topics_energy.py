"""The energy of the mean parameters of LDA, document by document, on the host; variational tempering sets the
temperature by it."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS, log
from .topics_entries import Rows
from .topics_products import TINY


def energies_of(rows: Rows, gamma: np.ndarray, topics: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Σ_v n_v log Σ_k E[θ_k] E[β_kv] of each document, from the concentrations of the topics (words × topics) and their
    sums `totals`."""
    energies = np.empty(len(gamma))

    in_threads(lambda *part: _energies(*part, rows, gamma, topics, totals, energies), len(gamma), 64)
    return energies


@njit(**OPTIONS)
def _energies(start, stop, rows, gammas, topics, totals, energies):  # type: ignore[no-untyped-def]
    n_topics, longest = topics.shape[1], 1
    for d in range(start, stop):
        longest = max(longest, rows.ends[d] - rows.starts[d])
    share, mean = np.empty(n_topics), np.empty(longest)
    for d in range(start, stop):
        here, count = rows.words[rows.starts[d] : rows.ends[d]], rows.counts[rows.starts[d] : rows.ends[d]]
        whole = 0.0
        for k in range(n_topics):
            whole += gammas[d, k]
        for k in range(n_topics):
            share[k] = gammas[d, k] / (whole * totals[k])
        four = len(here) - len(here) % 4
        for i in range(0, four, 4):
            a, b, c, e = topics[here[i]], topics[here[i + 1]], topics[here[i + 2]], topics[here[i + 3]]
            of_a, of_b, of_c, of_e = 0.0, 0.0, 0.0, 0.0
            for k in range(n_topics):
                of_a += a[k] * share[k]
                of_b += b[k] * share[k]
                of_c += c[k] * share[k]
                of_e += e[k] * share[k]
            mean[i], mean[i + 1], mean[i + 2], mean[i + 3] = of_a, of_b, of_c, of_e
        for i in range(four, len(here)):
            a, of_a = topics[here[i]], 0.0
            for k in range(n_topics):
                of_a += a[k] * share[k]
            mean[i] = of_a
        value = 0.0
        for i in range(len(here)):
            value += count[i] * log(max(mean[i], TINY))
        energies[d] = value
