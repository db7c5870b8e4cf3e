"""A start for collapsed updates of LDA: documents are added one after the other, each given the documents before it.

Each word of a new document draws a topic given the counts so far and is then refreshed once by its expectation. Topics
had hardly formed when the first documents were added, so these are revisited when a sixteenth of all documents has been
added, and again at a quarter. A start from random topics would need many passes over the corpus to forget them.

Where many topics compete, the result of collapsed updates depends on their start. So a collapsed Gibbs sampler
(Griffiths and Steyvers, 2004) runs first: draws leave poor local optima in which expectations would stay. The last
draws are averaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ._host import OPTIONS
from .topics_collapsed import as_prior, collapsed_pass, count, over_pairs, padded_width, refresh_entry, totals_of
from .topics_entries import GROUPS, STAGES, Counts, Entries, Rows, deal

_AVERAGED = 10  # the last sweeps, whose draws are averaged
_SWEEPS, _PASSES = 60, 20  # of a start, by drawing topics or by refreshing expectations
_TOKENS = 8  # mean tokens of an entry up to which topics are drawn
BLOCK = 8  # topics in a block; `padded_width` is a multiple of it


def first_topics(rows: Rows, alpha: np.ndarray, eta: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """η plus the expected tokens of each word, (topics, words), where a sampler leaves them; η is (1 or topics, words).
    Fractional counts, and long runs of one word, are not sampled but refreshed."""
    place, bounds = deal(rows.starts, rows.ends, rows.words)
    kind: Any = np.float32
    x = Entries(bounds, rows.words[place], rows.counts[place].astype(kind), rows.weights.astype(kind))
    width, generator = padded_width(len(alpha)), np.random.default_rng(seed)
    prior = as_prior(eta, width, kind)
    phi = add_documents(x, width, alpha, prior, generator.random(len(x.words)))
    sampled = not (x.counts % 1).any() and x.counts.sum() <= _TOKENS * len(x.counts)
    phi = sample_topics(x, phi, alpha, eta, _SWEEPS if sampled else 0, generator)
    sums = count(x, phi, alpha, eta)
    for _ in range(0 if sampled else _PASSES):
        collapsed_pass(x, phi, sums, prior)
    return sums.words[:, : len(alpha)].T.astype(np.float64) + eta


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
    """Refresh documents[0] to documents[1], all tokens of an entry at once; `new` documents are added to the counts
    first."""
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
            # Counted until its words are refreshed, because each refresh takes its tokens out of the counts.
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
    """A topic for one more word, by inversion: `level`, between 0 and 1, is compared with cumulative probabilities."""
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
    """Sample topics, starting with a draw from the responsibilities φ, for `sweeps` sweeps, and overwrite φ with the
    averages of the last draws. All numbers are in single precision, which holds sums of whole numbers exactly."""
    if sweeps < 1:
        return phi
    tokens = x.counts.astype(np.int64)
    kind: Any = np.float32
    x = x._replace(counts=x.counts.astype(kind), weights=x.weights.astype(kind))
    first, prior = np.concatenate([[0], np.cumsum(tokens)]), as_prior(eta, phi.shape[1], kind)
    topics = np.empty(first[-1], np.int32)
    _assign(first, topics, phi, generator.random(len(topics)))
    counts = _count_draws(x, first, topics, phi.shape[1], alpha, eta)
    last: list[np.ndarray] = []
    for sweep in range(sweeps):
        drawn = (first, topics, generator.random(len(topics), dtype=kind), len(alpha))

        def visit(pair: tuple[int, int], totals: np.ndarray, drawn: Any = drawn) -> float:
            return float(_sample(pair, x, drawn, counts, totals, prior))

        over_pairs(counts, kind, visit)
        if sweep >= sweeps - _AVERAGED:
            last.append(topics.copy())
    _average(first, np.stack(last), phi)
    return phi


def _count_draws(
    x: Entries, first: np.ndarray, topics: np.ndarray, width: int, alpha: np.ndarray, eta: np.ndarray
) -> Counts:
    """The sums of `topics_collapsed.count`, for tokens that each have a single topic."""
    documents, words = np.zeros((len(x.weights), width), np.float32), np.zeros((eta.shape[1], width), np.float32)
    documents[:, : len(alpha)] = alpha
    _count(x, first, topics, documents, words)
    return Counts(documents, words, totals_of(words, alpha, eta))


@njit(**OPTIONS)
def _count(x, first, topics, documents, words):  # type: ignore[no-untyped-def]
    for d in range(len(documents)):
        for group in range(GROUPS):
            for i in range(x.bounds[d, group, 0], x.bounds[d, group, 1]):
                for t in range(first[i], first[i + 1]):
                    documents[d, topics[t]] += words.dtype.type(1.0)
                    words[x.words[i], topics[t]] += x.weights[d]


@njit(**OPTIONS)
def _assign(first, topics, phi, draws):  # type: ignore[no-untyped-def]
    """A topic for each token, drawn from φ."""
    for i in range(len(phi)):
        for t in range(first[i], first[i + 1]):
            level, k = draws[t], 0
            while k < phi.shape[1] - 1 and level >= phi[i, k]:
                level -= phi[i, k]
                k += 1
            if phi[i, k] == 0.0:  # reached only by rounding
                k = int(np.argmax(phi[i]))
            topics[t] = k


@njit(**OPTIONS)
def _average(first, drawn, phi):  # type: ignore[no-untyped-def]
    """Set φ of an entry to the share of each topic among the draws (sweeps × tokens) of its tokens."""
    for i in range(len(phi)):
        row, size = phi[i], (first[i + 1] - first[i]) * len(drawn)
        one = row.dtype.type(1.0)
        for k in range(len(row)):
            row[k] = 0.0
        for sweep in range(len(drawn)):
            for t in range(first[i], first[i + 1]):
                row[drawn[sweep, t]] += one
        for k in range(len(row)):
            row[k] *= one / max(size, 1)


@njit(**OPTIONS)
def _sample(pair, x, drawn, sums, totals, prior):  # type: ignore[no-untyped-def]
    """Draw a topic for each token of a pair of groups in turn, given all other tokens. Most tokens keep their topic, so
    that is tested first: only where a token moves are the other topics searched, in blocks, and the counts written."""
    first, topics, draws, n_topics = drawn
    one, zero = totals.dtype.type(1.0), totals.dtype.type(0.0)
    level, inverse = np.empty(len(totals), totals.dtype), one / totals
    for d in range(pair[0], len(x.weights), GROUPS):
        here, weight = sums.documents[d], x.weights[d]
        for i in range(x.bounds[d, pair[1], 0], x.bounds[d, pair[1], 1]):
            there, eta = sums.words[x.words[i]], prior[x.words[i]]
            moved, norm = True, zero
            for t in range(first[i], first[i + 1]):
                old = int(topics[t])
                if moved:
                    norm = _levels(here, there, eta, inverse, level)
                # The token itself is left out of the counts of its topic.
                own = (here[old] - one) * (there[old] - weight + eta[old % len(eta)]) / (totals[old] - weight)
                left = draws[t] * (norm - level[old] + own) - own
                moved = left >= zero
                if not moved:
                    continue
                level[old] = zero
                new = _find(level, left, n_topics)
                topics[t] = new
                for side in range(2):
                    k, step = (new, one) if side else (old, -one)
                    here[k] += step
                    there[k] += weight * step
                    totals[k] += weight * step
                    inverse[k] = one / totals[k]
    return 0.0


@njit(**OPTIONS, inline="always")
def _levels(here, there, eta, inverse, level):  # type: ignore[no-untyped-def]
    """Set `level` to the unnormalised probability of each topic; returns their sum."""
    norm = level.dtype.type(0.0)
    if len(eta) == 1:
        same = eta[0]
        for k in range(len(level)):
            level[k] = here[k] * (there[k] + same) * inverse[k]
            norm += level[k]
    else:
        for k in range(len(level)):
            level[k] = here[k] * (there[k] + eta[k]) * inverse[k]
            norm += level[k]
    return norm


@njit(**OPTIONS, inline="always")
def _find(level, left, n_topics):  # type: ignore[no-untyped-def]
    """The first topic at which the cumulative sum of the levels exceeds `left`."""
    k = 0
    while k < n_topics - BLOCK:
        part = (level[k] + level[k + 1]) + (level[k + 2] + level[k + 3])
        part += (level[k + 4] + level[k + 5]) + (level[k + 6] + level[k + 7])
        if left < part:
            break
        left -= part
        k += BLOCK
    while k < n_topics - 1 and left >= level[k]:
        left -= level[k]
        k += 1
    return k
