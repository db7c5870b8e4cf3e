"""Collapsed updates of LDA (CVB0) on the CPU: Numba kernels over compressed rows, imported only when used.

With θ and β integrated out, the responsibility of topic k for a token of word v in document d is, to zeroth order in
the uncertainty of the counts (Asuncion, Welling, Smyth and Teh, 2009, equation 18),

    φ_k ∝ (N_dk − φ_k + α_k) (N_vk − φ_k + η_vk) / (N_k − φ_k + Σ_v η_vk),

where the N are sums of φ over tokens and −φ_k takes out the token itself. No digamma is needed. All tokens of a word in
a document share one φ.

Documents and words are both divided into `GROUPS` groups. Concurrent threads work on pairs of groups that share neither
a document nor a word (Yan, Xu and Qi, 2009), so counts are updated token by token and the result does not depend on the
number of threads. Only the N_k lag slightly: the changes of a document are added after that document, and those that
other threads make after all pairs. Entries of a pair are adjacent in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS
from .topics_entries import GROUPS, Ascent, Counts, Entries, Rows
from .topics_priors import document_prior, topic_prior
from .topics_words import sort_by_word

_TINY = 1e-30  # keeps divisions finite


def padded_width(n_topics: int) -> int:
    """The number of topics padded to the SIMD width; added topics stay empty."""
    return 32 if n_topics <= 32 else -(-n_topics // 8) * 8


def as_prior(eta: np.ndarray, width: int, kind: Any) -> np.ndarray:
    """Lay out η, (1 or topics, words), as (words, 1), or as (words, width) if it differs between topics."""
    if len(eta) == 1:
        return np.ascontiguousarray(eta.T, dtype=kind)
    prior = np.zeros((eta.shape[1], width), dtype=kind)
    prior[:, : len(eta)] = eta.T
    return prior


def count(x: Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray) -> Counts:
    """Compute all sums of φ anew, without the rounding errors of many updates. η is (1 or topics, words)."""
    width = phi.shape[1]
    documents = np.zeros((len(x.weights), width), dtype=phi.dtype)
    documents[:, : len(alpha)] += alpha.astype(phi.dtype)
    words = np.zeros((eta.shape[1], width), dtype=phi.dtype)

    def groups(start: int, stop: int) -> None:
        for group in range(start, stop):
            _count(group, x, phi, documents, words)

    in_threads(groups, GROUPS, 1)
    return Counts(documents, words, totals_of(words, alpha, eta))


def totals_of(words: np.ndarray, alpha: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """N_k + Σ_v η_vk of each topic; 1 in the padding, which follows the topics (α has one entry per topic)."""
    totals = words.sum(axis=0, dtype=np.float64)
    totals[: len(alpha)] += np.broadcast_to(eta.sum(axis=1), len(alpha))
    totals[len(alpha) :] = 1.0
    return totals


def collapsed_pass(x: Entries, phi: np.ndarray, counts: Counts, prior: np.ndarray, scored: bool = False) -> float:
    """Refresh every φ and the counts in place; returns Σ log p(token | all other tokens) if it is asked for.

    `prior` is η as laid out by `as_prior`.
    """
    kind = phi.dtype
    return over_pairs(counts, kind, lambda pair, totals: _refresh(pair, x, phi, counts, totals, prior, scored))


def over_pairs(counts: Counts, kind: Any, visit: Callable[[tuple[int, int], np.ndarray], float]) -> float:
    """Visit all pairs of groups, each with a copy of the N_k that the visit updates; returns the sum of the results."""
    scores = np.zeros((GROUPS, GROUPS))
    for shift in range(GROUPS):
        gained, before = np.zeros((GROUPS, len(counts.topics))), counts.topics.astype(kind)

        def groups(start: int, stop: int, shift: int = shift, gained: Any = gained, before: Any = before) -> None:
            for group in range(start, stop):
                totals = before.copy()
                scores[shift, group] = visit((group, (group + shift) % GROUPS), totals)
                gained[group] = totals.astype(np.float64) - before

        in_threads(groups, GROUPS, 1)
        counts.topics[:] += gained.sum(axis=0)
    return float(scores.sum())


@njit(**OPTIONS)
def _count(group, x, phi, of_documents, of_words):  # type: ignore[no-untyped-def]
    """Count one group: its words over all documents, and its documents over all words."""
    width = phi.shape[1]
    for d in range(len(x.weights)):
        for i in range(x.bounds[d, group, 0], x.bounds[d, group, 1]):
            row, to, n = phi[i], of_words[x.words[i]], x.weights[d] * x.counts[i]
            for k in range(width):
                to[k] += n * row[k]
    for of_word in range(GROUPS):
        for d in range(group, len(x.weights), GROUPS):
            to = of_documents[d]
            for i in range(x.bounds[d, of_word, 0], x.bounds[d, of_word, 1]):
                row, n = phi[i], x.counts[i]
                for k in range(width):
                    to[k] += n * row[k]


@njit(**OPTIONS)
def _refresh(pair, x, phi, sums, totals, prior, scored):  # type: ignore[no-untyped-def]
    """Refresh one pair of groups, one of documents and one of words."""
    width, kind = phi.shape[1], phi.dtype.type
    fresh, before = np.empty(width, phi.dtype), np.empty(width, phi.dtype)
    score = 0.0
    for d in range(pair[0], len(x.weights), GROUPS):
        here, weight = sums.documents[d], x.weights[d]
        total = -1.0
        for k in range(width):
            total += here[k]
            before[k] = here[k]
        for i in range(x.bounds[d, pair[1], 0], x.bounds[d, pair[1], 1]):
            n, there, eta = x.counts[i], sums.words[x.words[i]], prior[x.words[i]]
            norm = refresh_entry(phi[i], here, there, totals, eta, (n, kind(1.0), weight), fresh)
            if scored:
                score += weight * n * math.log(norm / total)
        for k in range(width):
            totals[k] += weight * (here[k] - before[k])
    return score


@njit(**OPTIONS, inline="always")  # inlined, because a function call makes it half as slow again
def refresh_entry(row, here, there, totals, eta, tokens, fresh):  # type: ignore[no-untyped-def]
    """Update φ of the tokens of an entry, then the counts of its document and word; returns the sum that normalises φ.
    `tokens` holds the number of tokens, how many of them to leave out of the counts, and the document's weight. Each
    loop uses few arrays, because with many the compiler does not vectorise it."""
    n, out, weight = tokens
    width, kind = len(row), row.dtype.type
    norm, zero = kind(0.0), kind(0.0)
    if len(eta) == 1:
        same = eta[0]
        for k in range(width):
            mine = out * row[k]
            own = weight * mine
            value = max(here[k] - mine, zero) * (max(there[k] - own, zero) + same) / (totals[k] - own)
            fresh[k] = value
            norm += value
    else:
        for k in range(width):
            mine = out * row[k]
            own = weight * mine
            value = max(here[k] - mine, zero) * (max(there[k] - own, zero) + eta[k]) / (totals[k] - own)
            fresh[k] = value
            norm += value
    inverse = kind(1.0) / max(norm, kind(_TINY))
    for k in range(width):
        value = fresh[k] * inverse
        change = n * (value - row[k])
        row[k] = value
        here[k] += change
        fresh[k] = weight * change
    for k in range(width):
        there[k] += fresh[k]
    return norm


# ---- documents whose topics are given ----------------------------------------------------------------------------


class Folded(NamedTuple):
    """The topics of documents, with the topics' words held fixed."""

    counts: np.ndarray  # (documents, topics), with α
    phi: np.ndarray  # (entries of all documents, topics)
    first: np.ndarray  # where the entries of each document begin


def fold_in(rows: Rows, by_word: np.ndarray, ascent: Ascent) -> Folded:
    """The collapsed updates of each document with the probabilities of words (words × topics) held fixed."""
    first = np.concatenate([[0], np.cumsum(rows.ends - rows.starts)])
    shape = (len(rows.starts), len(ascent.prior))
    found = Folded(np.empty(shape), np.empty((first[-1], shape[1])), first)
    in_threads(lambda *part: _fold_in(*part, rows, by_word, ascent, found), len(rows.starts), 64)
    return found


@njit(**OPTIONS)
def _fold_in(start, stop, rows, by_word, ascent, found):  # type: ignore[no-untyped-def]
    width = len(ascent.prior)
    fresh = np.empty(width)
    for d in range(start, stop):
        here, first, size = found.counts[d], rows.starts[d], rows.ends[d] - rows.starts[d]
        for k in range(width):
            here[k] = ascent.prior[k]
        for i in range(size):
            row, there, n = found.phi[found.first[d] + i], by_word[rows.words[first + i]], rows.counts[first + i]
            norm = _TINY
            for k in range(width):
                norm += there[k]
            for k in range(width):
                row[k] = there[k] / norm
            for k in range(width):
                here[k] += n * row[k]
        for _ in range(ascent.steps):
            change = 0.0
            for i in range(size):
                row, there, n = found.phi[found.first[d] + i], by_word[rows.words[first + i]], rows.counts[first + i]
                norm = _TINY
                for k in range(width):
                    fresh[k] = max(here[k] - row[k], 0.0) * there[k]
                    norm += fresh[k]
                inverse = 1.0 / norm
                for k in range(width):
                    value = fresh[k] * inverse
                    fresh[k] = n * (value - row[k])
                    row[k] = value
                for k in range(width):
                    here[k] += fresh[k]
                    change += abs(fresh[k])
            if change <= ascent.tolerance * width:
                break


class OnlineCollapsed:
    """Counts of words in topics plus their prior, (words × topics), updated by minibatches (Foulds and others,
    2013)."""

    def __init__(self, topics: np.ndarray, topic_prior: np.ndarray):
        """Start at the concentrations `topics` (topics × words); the prior may be one for all topics, (1 × words)."""
        self.lam = np.ascontiguousarray(topics.T)
        self.prior = np.ascontiguousarray(topic_prior.T)

    def step(self, rows: Rows, rate: float, ascent: Ascent) -> None:
        """One natural-gradient step, as in SVI, with collapsed responsibilities."""
        found = fold_in(rows, self.lam / self.lam.sum(axis=0), ascent)
        entries, owners, ends = sort_by_word(rows.starts, rows.ends, rows.words, len(self.lam))
        place = entries + (found.first[:-1] - rows.starts)[owners]
        factor = rate * rows.weights[owners] * rows.counts[entries]
        self.lam *= 1.0 - rate
        self.lam += rate * self.prior
        in_threads(lambda *words: _add_words(*words, ends, place, factor, found.phi, self.lam), len(self.lam), 512)

    def concentrations(self) -> np.ndarray:
        """The concentrations of the topics (topics × words)."""
        return np.ascontiguousarray(self.lam.T)


@njit(**OPTIONS)
def _add_words(start, stop, ends, place, factor, phi, lam):  # type: ignore[no-untyped-def]
    """λ_v += Σ factor · φ over the entries of word v, which end at ends_v."""
    for v in range(start, stop):
        row = lam[v]
        for at in range(0 if v == 0 else ends[v - 1], ends[v]):
            here, scale = phi[place[at]], factor[at]
            for k in range(len(row)):
                row[k] += scale * here[k]


# ---- learned priors ----------------------------------------------------------------------------------------------


def learn_document_prior(x: Entries, phi: np.ndarray, counts: Counts, alpha: np.ndarray) -> np.ndarray:
    """A few steps towards the α under which the topics of documents are most probable."""
    some = np.empty((len(x.weights), len(alpha)))
    _some_of_document(x, phi, some)
    return document_prior(counts.documents[:, : len(alpha)], some, x.weights, alpha)


def learn_topic_prior(x: Entries, phi: np.ndarray, counts: Counts, eta: float, n_topics: int) -> float:
    """A few steps towards the η, one number for all topics and words, under which the topics are most probable."""
    none = np.zeros((len(counts.words), n_topics))
    _log_none_of_word(x, phi, none)
    return topic_prior(counts.words[:, :n_topics], -np.expm1(none), eta)


@njit(**OPTIONS)
def _log_not(p):  # type: ignore[no-untyped-def]
    """log(1 − p). Most responsibilities p are small, and then three terms of the series have an error below 3e-9."""
    if p < 0.01:
        return -p * (1.0 + p * (0.5 + p * (1.0 / 3.0)))
    return math.log1p(-min(p, 1.0 - 1e-12))


@njit(**OPTIONS)
def _some_of_document(x, phi, some):  # type: ignore[no-untyped-def]
    """The probability that a document has at least one token of a topic: an expected count of 0.1 mostly means none
    (Teh and others, 2006)."""
    for d in range(len(some)):
        none = some[d]
        for k in range(len(none)):
            none[k] = 0.0
        for group in range(GROUPS):
            for i in range(x.bounds[d, group, 0], x.bounds[d, group, 1]):
                for k in range(len(none)):
                    none[k] += x.counts[i] * _log_not(phi[i, k])
        for k in range(len(none)):
            none[k] = -math.expm1(none[k])


@njit(**OPTIONS)
def _log_none_of_word(x, phi, none):  # type: ignore[no-untyped-def]
    """The log probability that a word has no token of a topic."""
    for d in range(len(x.weights)):
        for group in range(GROUPS):
            for i in range(x.bounds[d, group, 0], x.bounds[d, group, 1]):
                row = none[x.words[i]]
                for k in range(len(row)):
                    row[k] += x.weights[d] * x.counts[i] * _log_not(phi[i, k])
