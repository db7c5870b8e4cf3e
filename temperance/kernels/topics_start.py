"""A start for collapsed updates of LDA: documents are added one after the other, each given those before it.

Each word of a new document draws a topic given the counts so far and is then refreshed once by its expectation. The
first documents met topics that had hardly formed, so they are revisited when a sixteenth of all documents has been
added, and again at a quarter. A start from random topics would cost many passes over the corpus just to forget them.

If many topics compete, the result of collapsed updates depends on their start. So a collapsed Gibbs sampler (Griffiths
and Steyvers, 2004) runs first: its draws leave poor optima in which expectations would stay. The last draws are
averaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ._host import OPTIONS
from .topics_collapsed import as_prior, count, over_pairs, refresh_entry
from .topics_entries import GROUPS, STAGES, Counts, Entries

_AVERAGED = 10  # sweeps
BLOCK = 8  # of topics: `padded_width` is a multiple of it


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
            # Count the words before they are refreshed, because a refresh takes them out of the counts.
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
    """A topic for a new word, where the cumulative probabilities reach the level (between 0 and 1)."""
    norm = fresh.dtype.type(0.0)
    for k in range(len(fresh)):
        fresh[k] = here[k] * (there[k] + eta[k % len(eta)]) / totals[k]
        norm += fresh[k]
    total, found = fresh[0], 0
    for k in range(1, len(fresh)):
        found += total < level * norm
        total += fresh[k]
    return found


def sample_topics(
    x: Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray, sweeps: int, generator: np.random.Generator
) -> np.ndarray:
    """Responsibilities as shares of the last draws, after this many sweeps from the given ones. Counts are whole
    numbers, whose sums single precision holds exactly."""
    if sweeps < 1:
        return phi
    tokens = x.counts.astype(np.int64)
    kind: Any = np.float32
    x = x._replace(counts=x.counts.astype(kind), weights=x.weights.astype(kind))
    first, prior = np.concatenate([[0], np.cumsum(tokens)]), as_prior(eta, phi.shape[1], kind)
    topics, shares = np.empty(first[-1], np.int32), np.zeros(phi.shape, kind)
    _assign(first, topics, phi, shares, generator.random(len(topics)))
    counts = count(x, shares, alpha, eta)
    for sweep in range(sweeps):
        averaged = sweep >= sweeps - _AVERAGED
        if averaged and sweep == max(0, sweeps - _AVERAGED):
            shares[:] = 0.0
        drawn = (first, topics, generator.random(len(topics), dtype=kind), len(alpha), averaged)

        def visit(pair: tuple[int, int], totals: np.ndarray, drawn: Any = drawn) -> float:
            return float(_sample(pair, x, drawn, counts, totals, prior, shares))

        over_pairs(counts, kind, visit)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), kind(1e-30))
    return shares.astype(phi.dtype)


@njit(**OPTIONS)
def _assign(first, topics, phi, shares, draws):  # type: ignore[no-untyped-def]
    """A topic for each token, drawn from φ."""
    for i in range(len(phi)):
        part = 1.0 / max(first[i + 1] - first[i], 1)
        for t in range(first[i], first[i + 1]):
            level, k = draws[t], 0
            while k < phi.shape[1] - 1 and level >= phi[i, k]:
                level -= phi[i, k]
                k += 1
            if phi[i, k] == 0.0:  # rounding
                k = int(np.argmax(phi[i]))
            topics[t] = k
            shares[i, k] += part


@njit(**OPTIONS)
def _sample(pair, x, drawn, sums, totals, prior, shares):  # type: ignore[no-untyped-def]
    """One pair of groups: a topic for each token in turn, given all others. Levels are added up by blocks, so that a
    draw takes few steps."""
    first, topics, draws, n_topics, averaged = drawn
    width, one = shares.shape[1], totals.dtype.type(1.0)
    level, inverse, parts = np.empty(width, totals.dtype), one / totals, np.empty(width // BLOCK, totals.dtype)
    for d in range(pair[0], len(x.weights), GROUPS):
        here, weight = sums.documents[d], x.weights[d]
        for i in range(x.bounds[d, pair[1], 0], x.bounds[d, pair[1], 1]):
            there, eta = sums.words[x.words[i]], prior[x.words[i]]
            for t in range(first[i], first[i + 1]):
                old, norm = int(topics[t]), totals.dtype.type(0.0)
                if len(eta) == 1:
                    same = eta[0]
                    for k in range(width):
                        level[k] = here[k] * (there[k] + same) * inverse[k]
                else:
                    for k in range(width):
                        level[k] = here[k] * (there[k] + eta[k]) * inverse[k]
                for b in range(len(parts)):
                    at = b * BLOCK
                    part = (level[at] + level[at + 1]) + (level[at + 2] + level[at + 3])
                    part += (level[at + 4] + level[at + 5]) + (level[at + 6] + level[at + 7])
                    parts[b] = part
                    norm += part
                # The token itself is left out of the counts of its topic; they are written only if it changes.
                own = (here[old] - one) * (there[old] - weight + eta[old % len(eta)]) / (totals[old] - weight)
                parts[old // BLOCK] += own - level[old]
                norm += own - level[old]
                level[old] = own
                left, b = draws[t] * norm, 0
                while b < len(parts) - 1 and left >= parts[b]:
                    left -= parts[b]
                    b += 1
                new = b * BLOCK
                while new < n_topics - 1 and new < (b + 1) * BLOCK - 1 and left >= level[new]:
                    left -= level[new]
                    new += 1
                new = new if new < n_topics else old  # rounding
                if averaged:
                    shares[i, new] += one
                if new == old:
                    continue
                topics[t] = new
                for side in range(2):
                    k, step = (new, one) if side else (old, -one)
                    here[k] += step
                    there[k] += weight * step
                    totals[k] += weight * step
                    inverse[k] = one / totals[k]
    return 0.0
