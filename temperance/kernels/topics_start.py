"""A start for collapsed updates of LDA: documents are added one after the other, each given those before it.

Each word of a new document draws a topic given the counts so far and is then refreshed once by its expectation. The
first documents met topics that had hardly formed, so they are revisited when a sixteenth of all documents has been
added, and again at a quarter. From random topics, many passes over the corpus would only be spent forgetting them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._host import OPTIONS
from .topics_collapsed import refresh_entry
from .topics_entries import GROUPS, STAGES, Counts, Entries


def add_documents(x: Entries, width: int, alpha: np.ndarray, prior: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Responsibilities (entries × width); `draws` are uniform, one for each entry, `prior` is from `as_prior`."""
    n, kind = len(x.weights), x.counts.dtype
    phi = np.zeros((len(x.words), width), dtype=kind)
    counts = Counts(np.zeros((n, width), dtype=kind), np.zeros((len(prior), width), dtype=kind), np.ones(width))
    counts.documents[:, : len(alpha)] = alpha
    counts.topics[: len(alpha)] = prior.sum(axis=0, dtype=np.float64)[: len(alpha)]
    added, draws = 0, draws.astype(kind)
    for part, times in STAGES:
        last = n // part
        _visit((added, last), True, x, phi, counts, prior, draws)
        for _ in range(times):
            _visit((0, last), False, x, phi, counts, prior, draws)
        added = last
    return phi


@njit(**OPTIONS)
def _visit(documents, new, x, phi, sums, prior, draws):  # type: ignore[no-untyped-def]
    """Documents from the first to the last, added if they are new, and refreshed: all tokens of an entry at once."""
    width = phi.shape[1]
    fresh, before = np.empty(width, phi.dtype), np.empty(width, phi.dtype)
    totals = sums.topics.astype(phi.dtype)
    for d in range(documents[0], documents[1]):
        here, weight = sums.documents[d], x.weights[d]
        for k in range(width):
            before[k] = here[k]
        if new:
            for group in range(GROUPS):
                for i in range(x.bounds[d, group, 0], x.bounds[d, group, 1]):
                    there = sums.words[x.words[i]]
                    k = _draw(here, there, totals, prior[x.words[i]], draws[i], fresh)
                    phi[i, k] = 1.0
                    here[k] += x.counts[i]
                    there[k] += weight * x.counts[i]
            # Until its words are refreshed: what they take out must be in.
            for k in range(width):
                totals[k] = sums.topics[k] + weight * (here[k] - before[k])
        for group in range(GROUPS):
            for i in range(x.bounds[d, group, 0], x.bounds[d, group, 1]):
                there, eta, n = sums.words[x.words[i]], prior[x.words[i]], x.counts[i]
                refresh_entry(phi[i], here, there, totals, eta, (n, n, weight), fresh)
        for k in range(width):
            sums.topics[k] += weight * (here[k] - before[k])
            totals[k] = sums.topics[k]


@njit(**OPTIONS)
def _draw(here, there, totals, eta, level, fresh):  # type: ignore[no-untyped-def]
    """A topic for a further word, at the level (between 0 and 1) of their cumulative probabilities."""
    norm = fresh.dtype.type(0.0)
    for k in range(len(fresh)):
        fresh[k] = here[k] * (there[k] + eta[k % len(eta)]) / totals[k]
        norm += fresh[k]
    total, found = fresh[0], 0
    for k in range(1, len(fresh)):
        found += total < level * norm
        total += fresh[k]
    return found
