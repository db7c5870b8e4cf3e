"""A start for collapsed updates of LDA: documents are added one after the other, each given those before it.

Words of a new document are drawn a topic each, given the counts so far, and then refreshed once, no longer drawn. The
first documents met topics that were hardly there: when a sixteenth of all has been added, and when a quarter has, these
are gone over again. From topics at random, many passes over the corpus would only forget them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._host import OPTIONS
from .topics_collapsed import GROUPS, Counts, Entries, refresh_entry

_STAGES = ((16, 8), (4, 2), (1, 0))  # one part in so many, and how often it is gone over again


def add_documents(x: Entries, width: int, alpha: np.ndarray, prior: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Responsibilities (entries × width); `draws` are uniform, one for each entry, `prior` is from `as_prior`."""
    n, kind = len(x.weights), x.counts.dtype
    phi = np.zeros((len(x.words), width), dtype=kind)
    counts = Counts(np.zeros((n, width), dtype=kind), np.zeros((len(prior), width), dtype=kind), np.ones(width))
    counts.documents[:, : len(alpha)] = alpha
    counts.topics[: len(alpha)] = prior.sum(axis=0, dtype=np.float64)[: len(alpha)]
    added = 0
    for part, times in _STAGES:
        last = n // part
        _visit(added, last, True, *x, phi, *counts, prior, draws.astype(kind))
        for _ in range(times):
            _visit(0, last, False, *x, phi, *counts, prior, draws.astype(kind))
        added = last
    return phi


@njit(**OPTIONS)
def _visit(  # type: ignore[no-untyped-def]
    first, last, new, bounds, words, counts, weights, phi, of_documents, of_words, of_topics, prior, draws,
):  # fmt: skip
    """Documents `first` to `last`, added if they are new, and refreshed: all tokens of an entry at once."""
    width = phi.shape[1]
    fresh, before = np.empty(width, phi.dtype), np.empty(width, phi.dtype)
    totals = of_topics.astype(phi.dtype)
    for d in range(first, last):
        here, weight = of_documents[d], weights[d]
        before[:] = here
        if new:
            for group in range(GROUPS):
                for i in range(bounds[d, group, 0], bounds[d, group, 1]):
                    there = of_words[words[i]]
                    k = _draw(here, there, totals, prior[words[i]], draws[i], fresh)
                    phi[i, k] = 1.0
                    here[k] += counts[i]
                    there[k] += weight * counts[i]
            # Until its words are refreshed: what they take out must be in.
            for k in range(width):
                totals[k] = of_topics[k] + weight * (here[k] - before[k])
        for group in range(GROUPS):
            for i in range(bounds[d, group, 0], bounds[d, group, 1]):
                there, eta, n = of_words[words[i]], prior[words[i]], counts[i]
                refresh_entry(phi[i], here, there, totals, eta, n, n, weight, fresh)
        for k in range(width):
            of_topics[k] += weight * (here[k] - before[k])
            totals[k] = of_topics[k]


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
