"""Minibatch steps of LDA on the CPU, many in a row with the topics laid out word by word all the while.

The same steps as `SVI` derives from the model, without a change of layout, a logarithm or a copy of the topics for
each. Once most pairs of word and topic have been forgotten (λ close to a small prior), a word keeps a list of the
others. What no statistics reach decays by itself: λ = scale · stored + drift, so that a step touches only lists.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS, exp_digamma
from .topics_documents import Found, Layout, Rows, add_word, lengths, sort_by_word, step_documents

_GRAIN = 512  # words of a piece of work
# exp ψ(λ) < 1e-10 below this: beside a word's likely topics that is nothing.
_FORGOTTEN = 0.045
_SPARSE = 0.25  # lists are made when they hold at most this share of all pairs
_RESCALE = 1e-100


class Online:
    """Concentrations (words × topics) on their way through minibatches."""

    def __init__(self, topics: np.ndarray, topic_prior: np.ndarray):
        """From concentrations (topics × words); the prior may be the same for all topics, (1 × words)."""
        self.stored = np.ascontiguousarray(topics.T)
        self.prior = np.ascontiguousarray(topic_prior.T)
        self.n_words, self.n_topics = self.stored.shape
        self.scale, self.drift = 1.0, np.zeros(self.n_words)
        self.totals = self.stored.sum(axis=0)
        self.spread = np.empty_like(self.stored)
        self.topics = np.tile(np.arange(self.n_topics, dtype=np.int32), (self.n_words, 1))
        self.widths = np.full(self.n_words, self.n_topics, dtype=np.int32)
        self.shift = np.zeros(self.n_words)
        self.sparse = False
        self._in_words(lambda *piece: _spread_all(*piece, self.stored, self.spread))

    def step(self, rows: Rows, rate: float, document_prior: np.ndarray, steps: int, tolerance: float) -> None:
        """One natural-gradient step."""
        column = 1.0 / _exp_digamma(self.totals)
        layout = Layout(self.spread, self.topics, self.widths, self.shift, column)
        gamma = document_prior + lengths(rows.starts, rows.ends, rows.counts)[:, None] / self.n_topics
        found = step_documents(layout, rows, document_prior, gamma, np.empty(0), steps, tolerance)
        by_word = sort_by_word(rows.starts, rows.ends, rows.words, self.n_words)
        gained = np.zeros((-(-self.n_words // _GRAIN), self.n_topics))
        if self.sparse:
            self._step_lists(by_word, found, rows.weights, rate, gained)
        else:
            self._step_all(by_word, found, rows.weights, rate, gained)
        prior = self.prior.sum(axis=0)
        self.totals = (1.0 - rate) * self.totals + rate * (prior + gained.sum(axis=0))

    def concentrations(self) -> np.ndarray:
        """(topics × words)."""
        return np.ascontiguousarray((self.scale * self.stored + self.drift[:, None]).T)

    def _step_all(self, by_word: tuple, found: Found, weights: np.ndarray, rate: float, gained: np.ndarray) -> None:
        seen = np.zeros(len(gained), dtype=np.int64)

        def work(start: int, stop: int) -> None:
            piece = slice(start // _GRAIN, start // _GRAIN + 1)
            rest = (weights, rate, self.prior, self.stored, self.spread, gained[piece], seen[piece])
            _step_all(start, stop, *by_word, *found, *rest)

        self._in_words(work)
        # With a prior of its own for each topic, what decays would not be the same for all of a word.
        if self.prior.shape[1] == 1 and seen.sum() <= _SPARSE * self.stored.size:
            self.sparse = True
            self._in_words(lambda *piece: _make_lists(*piece, self.stored, self.spread, self.topics, self.widths))

    def _step_lists(self, by_word: tuple, found: Found, weights: np.ndarray, rate: float, gained: np.ndarray) -> None:
        self.scale *= 1.0 - rate
        self.drift = (1.0 - rate) * self.drift + rate * self.prior[:, 0]
        lists = (self.spread, self.topics, self.widths)

        def work(start: int, stop: int) -> None:
            sums = gained[start // _GRAIN : start // _GRAIN + 1]
            rest = (weights, rate, self.scale, self.drift, self.stored, *lists, sums)
            _step_lists(start, stop, *by_word, *found, *rest)

        self._in_words(work)
        if self.scale < _RESCALE:
            self.stored = self.scale * self.stored + self.drift[:, None]
            self.scale, self.drift = 1.0, np.zeros(self.n_words)

    def _in_words(self, work: Callable[[int, int], object]) -> None:
        in_threads(work, self.n_words, _GRAIN)


@njit(**OPTIONS)
def _spread_all(start, stop, lam, spread):  # type: ignore[no-untyped-def]
    for v in range(start, stop):
        _spread_row(lam[v], spread[v])


@njit(**OPTIONS)
def _spread_row(lam, spread):  # type: ignore[no-untyped-def]
    """exp ψ(λ), divided by a power of e where it would be too small for a number."""
    top = lam.max()
    if top > 0.005:
        for k in range(len(lam)):
            spread[k] = exp_digamma(lam[k])
    else:
        for k in range(len(lam)):
            spread[k] = exp_digamma(lam[k] + 1.0) * np.exp(1.0 / top - 1.0 / lam[k])


@njit(**OPTIONS)
def _step_all(  # type: ignore[no-untyped-def]
    start, stop, entries, documents, ends, ratios, shares, actives, n_active, weights, rate, prior,
    lam, spread, gained, seen,
):  # fmt: skip
    """λ ← (1 − ρ) λ + ρ (η + statistics), and exp ψ(λ); counts the pairs of word and topic not forgotten."""
    n_topics = lam.shape[1]
    row = np.empty(n_topics)
    for v in range(start, stop):
        add_word(entries, documents, ends, v, ratios, shares, actives, n_active, weights, row)
        here, here_spread = lam[v], spread[v]
        if prior.shape[1] == 1:
            eta = prior[v, 0]
            for k in range(n_topics):
                row[k] *= here_spread[k]
                here[k] = (1.0 - rate) * here[k] + rate * (eta + row[k])
        else:
            for k in range(n_topics):
                row[k] *= here_spread[k]
                here[k] = (1.0 - rate) * here[k] + rate * (prior[v, k] + row[k])
        known = 0
        for k in range(n_topics):
            gained[0, k] += row[k]
            known += here[k] >= _FORGOTTEN
        seen[0] += known
        _spread_row(here, here_spread)


@njit(**OPTIONS)
def _make_lists(start, stop, lam, spread, topics, widths):  # type: ignore[no-untyped-def]
    for v in range(start, stop):
        _list_row(lam[v], spread[v], topics[v], widths[v : v + 1])


@njit(**OPTIONS)
def _list_row(lam, spread, topics, width):  # type: ignore[no-untyped-def]
    """The topics of a word that are not forgotten, or all of them if none is left."""
    place = 0
    for k in range(len(lam)):
        if lam[k] >= _FORGOTTEN:
            spread[place] = exp_digamma(lam[k])
            topics[place] = k
            place += 1
    if place == 0:
        place = len(lam)
        _spread_row(lam, spread)
        for k in range(place):
            topics[k] = k
    width[0] = place


@njit(**OPTIONS)
def _step_lists(  # type: ignore[no-untyped-def]
    start, stop, entries, documents, ends, ratios, shares, actives, n_active, weights, rate, scale, drift,
    stored, spread, topics, widths, gained,
):  # fmt: skip
    """The same step where words keep lists: λ = scale · stored + drift, the scale and drift after the step."""
    n_topics = stored.shape[1]
    row, lam = np.empty(n_topics), np.empty(n_topics)
    for v in range(start, stop):
        add_word(entries, documents, ends, v, ratios, shares, actives, n_active, weights, row)
        here, place = stored[v], 0
        for j in range(widths[v]):
            k = topics[v, j]
            gain = row[k] * spread[v, j]
            gained[0, k] += gain
            here[k] += rate / scale * gain
            lam[place] = scale * here[k] + drift[v]
            topics[v, place] = k
            place += lam[place] >= _FORGOTTEN
        if place > 0:
            for j in range(place):
                spread[v, j] = exp_digamma(lam[j])
            widths[v] = place
        else:
            for k in range(n_topics):
                lam[k] = scale * here[k] + drift[v]
            _list_row(lam, spread[v], topics[v], widths[v : v + 1])


@njit(**OPTIONS)
def _exp_digamma(x):  # type: ignore[no-untyped-def]
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = exp_digamma(x[i])
    return result
