"""Minibatch steps of LDA on the CPU, many in a row, with the topics laid out word by word throughout.

The steps are those that `SVI` derives from the model, but none needs a change of layout, a logarithm or a copy of the
topics. Cold steps are in double precision. Once most pairs of word and topic have been forgotten (λ close to a small
prior), a word keeps a list of its remaining topics. Pairs that no statistics reach decay by λ = scale · stored + drift,
so a step touches only the lists. Hot steps have documents and topics in single precision (`topics_documents.py` says
why), sum statistics into concentrations in double precision, and keep no lists, because nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS
from ._host_either import INNER, digamma, exp, exp_digamma, largest
from .topics_documents import Found, empty_table, lengths, step_documents
from .topics_energy import energies_of
from .topics_entries import Ascent, Rows
from .topics_words import ByWord, add_raised_word, add_word, by_word

_GRAIN = 512  # words per task
# exp ψ(λ) < 1e-10 below this, which is negligible beside a word's likely topics.
_FORGOTTEN = 0.045
_SPARSE = 0.25  # lists are made when they hold at most this share of all pairs
_RESCALE = 1e-100

# Documents after their ascent → the power of each in the statistics (or one power for all), and the power of the
# next step.
Respond = Callable[[Found], tuple[float | np.ndarray, float | None]]


class Online:
    """Concentrations (words × topics) between minibatches."""

    def __init__(self, topics: np.ndarray, topic_prior: np.ndarray, power: float | None = 1.0):
        """From concentrations (topics × words); the prior may be the same for all topics, (1 × words).

        `power` is that of the first step, 1/T; without it each document has its own.
        """
        self.power = power
        self.stored = np.ascontiguousarray(topics.T)
        self.prior = np.ascontiguousarray(topic_prior.T)
        self.scale, self.drift = 1.0, np.zeros(len(self.stored))
        self.totals = self.stored.sum(axis=0)
        self.table = empty_table(self.stored.shape, np.float64 if power == 1.0 else np.float32, power is None)
        self.sparse = False
        self._in_words(lambda *words: _lay_out(*words, self.stored, self.table, self._power))

    @property
    def cold(self) -> bool:
        return self.table.values.dtype == np.float64

    def step(self, rows: Rows, rate: float, ascent: Ascent, respond: Respond | None = None) -> None:
        """One natural-gradient step, at the power that the previous step (or the start) fixed for it.

        Unless `respond` says otherwise, the statistics and the next step have this power too.
        """
        found = self.documents(rows, ascent)
        power, following = (self.power, self.power) if respond is None else respond(found)
        assert power is not None
        x, powers = by_word(rows, self.table, found, power * rows.weights)
        self.power = following
        gained = np.zeros((-(-len(self.stored) // _GRAIN), len(self.totals)))
        if self.sparse:
            self._step_lists(x, rate, gained)
        else:
            self._step_all(x, powers, rate, gained)
        prior = self.prior.sum(axis=0)
        self.totals = (1.0 - rate) * self.totals + rate * (prior + gained.sum(axis=0))

    def documents(self, rows: Rows, ascent: Ascent) -> Found:
        """Fit documents given the current topics; with individual powers, Σ_v n_v E log β of each document is computed
        too."""
        table = self.table._replace(column=_columns(self.totals))
        gamma = ascent.prior + lengths(rows.starts, rows.ends, rows.counts)[:, None] / len(self.totals)
        return step_documents(table, rows, ascent, gamma, observed=table.own)

    def energy(self, rows: Rows, found: Found) -> float:
        """Σ_d weight_d Σ_v n_dv log Σ_k E[θ_dk] E[β_kv]."""
        return float(rows.weights @ energies_of(rows, found.gamma, self.stored, self.totals))

    def concentrations(self) -> np.ndarray:
        """The concentrations of the topics (topics × words)."""
        return np.ascontiguousarray((self.scale * self.stored + self.drift[:, None]).T)

    def _step_all(self, x: ByWord, powers: np.ndarray | None, rate: float, gained: np.ndarray) -> None:
        seen, following = np.zeros(len(gained), dtype=np.int64), self._power
        topics, sums = (self.prior, self.stored, self.table), (gained, seen)
        self._in_words(lambda *words: _step_all(*words, x, powers, rate, following, topics, sums))
        # Only for one common prior: if priors differed between topics, so would the drift of a word's topics.
        if self.cold and self.prior.shape[1] == 1 and seen.sum() <= _SPARSE * self.stored.size:
            self.sparse = True
            self._in_words(lambda *words: _make_lists(*words, self.stored, self.table))

    def _step_lists(self, x: ByWord, rate: float, gained: np.ndarray) -> None:
        self.scale *= 1.0 - rate
        self.drift = (1.0 - rate) * self.drift + rate * self.prior[:, 0]
        rates = (rate, self.scale)
        self._in_words(lambda *words: _step_lists(*words, x, rates, self.drift, self.stored, self.table, gained))
        if self.scale < _RESCALE:
            self.stored = self.scale * self.stored + self.drift[:, None]
            self.scale, self.drift = 1.0, np.zeros(len(self.stored))

    @property
    def _power(self) -> np.floating | None:
        """None for cold steps, for which kernels are compiled without powers; 0 if each document has its own power."""
        return None if self.cold else self.table.values.dtype.type(0.0 if self.power is None else self.power)

    def _in_words(self, work: Callable[[int, int], object]) -> None:
        in_threads(work, len(self.stored), _GRAIN)


@njit(**OPTIONS)
def _columns(totals):  # type: ignore[no-untyped-def]
    """exp{−ψ(Σ_v λ_kv)}."""
    result = np.empty_like(totals)
    for k in range(len(totals)):
        result[k] = 1.0 / exp_digamma(totals[k])
    return result


@njit(**OPTIONS)
def _lay_out(start, stop, lam, table, power):  # type: ignore[no-untyped-def]
    for v in range(start, stop):
        table.shift[v] = _lay_out_word(lam[v], table.values[v], power)


@njit(**INNER)
def _lay_out_word(lam, values, power):  # type: ignore[no-untyped-def]
    """Values of a word's topics, exp{power · (ψ(λ) − shift)}, or ψ(λ) − shift where documents have their own powers;
    returns the shift."""
    for k in range(len(lam)):
        values[k] = lam[k]
    top = largest(values, len(lam))
    if power is None:
        _spread_word(values, top)
        return values.dtype.type(0.0)
    top = digamma(top)
    for k in range(len(lam)):
        values[k] = digamma(values[k]) - top
    if power > 0.0:
        for k in range(len(lam)):
            values[k] = exp(power * values[k])
    return top


@njit(**INNER)
def _spread_word(values, top):  # type: ignore[no-untyped-def]
    """Replace each λ by exp ψ(λ), all times one power of e if they would underflow; cold topics need no `shift`."""
    if top > 0.005:
        for k in range(len(values)):
            values[k] = exp_digamma(values[k])
    else:
        one = values.dtype.type(1.0)
        for k in range(len(values)):
            values[k] = exp_digamma(values[k] + one) * exp(one / top - one / values[k])


@njit(**OPTIONS)
def _step_all(start, stop, x, powers, rate, following, topics, sums):  # type: ignore[no-untyped-def]
    """Update λ ← (1 − ρ) λ + ρ (η + statistics) and the table, at the power of the next step; add up the statistics,
    and count the pairs of word and topic that are not forgotten."""
    prior, lam, table = topics
    gained, seen = sums[0][start // _GRAIN], sums[1]
    row, parts = np.empty(lam.shape[1], table.values.dtype), np.empty(lam.shape[1], table.values.dtype)
    for v in range(start, stop):
        here, value, known = lam[v], table.values[v], 0
        if powers is not None:
            add_raised_word(x, powers, v, value, row, parts)
        else:
            add_word(x, v, row)
            for k in range(len(row)):
                row[k] *= value[k]
        if prior.shape[1] == 1:
            eta = prior[v, 0]
            for k in range(len(row)):
                here[k] = (1.0 - rate) * here[k] + rate * (eta + row[k])
        else:
            for k in range(len(row)):
                here[k] = (1.0 - rate) * here[k] + rate * (prior[v, k] + row[k])
        for k in range(len(row)):
            gained[k] += row[k]
            known += here[k] >= _FORGOTTEN
        seen[start // _GRAIN] += known
        table.shift[v] = _lay_out_word(here, value, following)


@njit(**OPTIONS)
def _make_lists(start, stop, lam, table):  # type: ignore[no-untyped-def]
    for v in range(start, stop):
        table.widths[v] = _list_word(lam[v], table.values[v], table.topics[v])


@njit(**INNER)
def _list_word(lam, values, topics):  # type: ignore[no-untyped-def]
    """List the topics that a word has not forgotten, or all topics if none is left; returns the length of the list."""
    width = 0
    for k in range(len(lam)):
        if lam[k] >= _FORGOTTEN:
            values[width], topics[width] = exp_digamma(lam[k]), k
            width += 1
    if width > 0:
        return width
    for k in range(len(lam)):
        topics[k] = k
    _lay_out_word(lam, values, None)
    return len(lam)


@njit(**OPTIONS)
def _step_lists(start, stop, x, rates, drift, stored, table, gained):  # type: ignore[no-untyped-def]
    """The step of `_step_all` where words keep lists: λ = scale · stored + drift, with the scale and drift after the
    step."""
    rate, scale = rates
    sums = gained[start // _GRAIN]
    row, lam = np.empty(stored.shape[1]), np.empty(stored.shape[1])
    for v in range(start, stop):
        add_word(x, v, row)
        here, value, topics, place = stored[v], table.values[v], table.topics[v], 0
        for j in range(table.widths[v]):
            k = topics[j]
            gain = row[k] * value[j]
            sums[k] += gain
            here[k] += rate / scale * gain
            lam[place] = scale * here[k] + drift[v]
            topics[place] = k
            place += lam[place] >= _FORGOTTEN
        if place > 0:
            for j in range(place):
                value[j] = exp_digamma(lam[j])
            table.widths[v] = place
        else:
            for k in range(len(lam)):
                lam[k] = scale * here[k] + drift[v]
            table.widths[v] = _list_word(lam, value, topics)
