"""Minibatch steps of LDA on the CPU at a temperature above 1, many in a row: what `topics_online.py` is for cold ones.

Documents and topics of a step are in single precision (why: `topics_hot_documents.py`), the concentrations that the
steps add up to are not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS
from ._host_single import digamma, exp
from .topics_documents import Found, Rows, add_word, lengths, sort_by_word
from .topics_energy import energies_of
from .topics_hot_documents import Table, largest, step_hot_documents

_GRAIN = 512  # words of a piece of work


class Hot:
    """Concentrations (words × topics) on their way through hot minibatches."""

    def __init__(self, topics: np.ndarray, topic_prior: np.ndarray, power: float | None):
        """From concentrations (topics × words); the prior may be the same for all topics, (1 × words).

        `power` is that of the first step, 1/T; without it each document has one.
        """
        self.power = power
        self.stored = np.ascontiguousarray(topics.T)
        self.prior = np.ascontiguousarray(topic_prior.T)
        self.totals = self.stored.sum(axis=0)
        self.values = np.empty(self.stored.shape, np.float32)
        self.shift = np.empty(len(self.stored))
        in_threads(
            lambda *piece: _lay_out(*piece, self.stored, self.values, self.shift, _single(power)),
            len(self.stored), _GRAIN,
        )  # fmt: skip

    def step(
        self,
        rows: Rows,
        rate: float,
        document_prior: np.ndarray,
        steps: int,
        tolerance: float,
        following: float | Callable[[float], tuple[float, float]],
    ) -> None:
        """One natural-gradient step, at the power the step before (or the start) was told would be `following`; or
        this is found from the energy of the documents, with the power that their statistics have."""
        power = self.power
        assert power is not None
        found, gamma, _ = self._documents(rows, document_prior, steps, tolerance)
        if callable(following):
            energies = energies_of(rows, gamma, self.stored, self.totals)
            power, following = following(float(rows.weights @ energies))
        self.power = following
        self._move(rows, found, power * rows.weights, rate)

    def step_each(
        self,
        rows: Rows,
        rate: float,
        document_prior: np.ndarray,
        steps: int,
        tolerance: float,
        respond: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> None:
        """A step in which each document has its own power; `respond` finds those that their statistics have, from
        Σ n E log β and the counts of topics."""
        found, gamma, observed = self._documents(rows, document_prior, steps, tolerance)
        fresh = respond(observed, (gamma - document_prior) / rows.latent[:, None])
        self._move(rows, found, fresh * rows.weights, rate)

    def concentrations(self) -> np.ndarray:
        """(topics × words)."""
        return np.ascontiguousarray(self.stored.T)

    def _documents(
        self, rows: Rows, prior: np.ndarray, steps: int, tolerance: float
    ) -> tuple[Found, np.ndarray, np.ndarray]:
        table = Table(self.values, self.shift, _digamma(self.totals), self.power is None)
        gamma = prior + lengths(rows.starts, rows.ends, rows.counts)[:, None] / len(prior)
        found, observed = step_hot_documents(table, rows, prior, gamma, steps, tolerance)
        return found, gamma, observed

    def _move(self, rows: Rows, found: Found, weights: np.ndarray, rate: float) -> None:
        """λ ← (1 − ρ) λ + ρ (η + statistics)."""
        n_words, n_topics = self.stored.shape
        by_word = sort_by_word(rows.starts, rows.ends, rows.words, n_words)
        gained = np.zeros((-(-n_words // _GRAIN), n_topics))
        # Of one power for all, the documents' statistics have it in the table already.
        powers = np.empty(0, np.float32) if self.power is not None else rows.observation.astype(np.float32)

        def work(start: int, stop: int) -> None:
            sums = gained[start // _GRAIN]
            rest = (weights, powers, rate, self.prior, self.stored, self.values, self.shift, _single(self.power), sums)
            _move_words(start, stop, *by_word, *found, *rest)

        in_threads(work, n_words, _GRAIN)
        self.totals = (1.0 - rate) * self.totals + rate * (self.prior.sum(axis=0) + gained.sum(axis=0))


def _single(power: float | None) -> np.float32:
    """0 stands for powers of their own."""
    return np.float32(0.0 if power is None else power)


@njit(**OPTIONS)
def _digamma(x):  # type: ignore[no-untyped-def]
    result = x.astype(np.float32)
    for i in range(len(x)):
        result[i] = digamma(result[i])
    return result


@njit(**OPTIONS)
def _lay_out(start, stop, lam, values, shift, power):  # type: ignore[no-untyped-def]
    for v in range(start, stop):
        shift[v] = _lay_out_word(lam[v], values[v], power)


@njit(**OPTIONS)
def _lay_out_word(lam, values, power):  # type: ignore[no-untyped-def]
    """ψ(λ) relative to the largest, which is returned; with a power for all, to that power."""
    for k in range(len(lam)):
        values[k] = lam[k]
    top = digamma(largest(values, len(lam)))
    if power > 0.0:
        for k in range(len(lam)):
            values[k] = exp(power * (digamma(values[k]) - top))
    else:
        for k in range(len(lam)):
            values[k] = digamma(values[k]) - top
    return top


@njit(**OPTIONS)
def _move_words(  # type: ignore[no-untyped-def]
    start, stop, entries, documents, ends, ratios, shares, actives, n_active, weights, powers, rate, prior,
    lam, values, shift, following, gained,
):  # fmt: skip
    n_topics = lam.shape[1]
    row, parts = np.empty(n_topics, np.float32), np.empty(n_topics, np.float32)
    for v in range(start, stop):
        here, level = lam[v], values[v]
        if len(powers) == 0:
            add_word(entries, documents, ends, v, ratios, shares, actives, n_active, weights, row)
            for k in range(n_topics):
                row[k] *= level[k]
        else:
            add_word_each(
                entries, documents, ends, v, ratios, shares, actives, n_active, weights, powers, level, parts, row
            )
        for k in range(n_topics):
            eta = prior[v, 0] if prior.shape[1] == 1 else prior[v, k]
            here[k] = (1.0 - rate) * here[k] + rate * (eta + row[k])
            gained[k] += row[k]
        shift[v] = _lay_out_word(here, level, following)


@njit(**OPTIONS)
def add_word_each(  # type: ignore[no-untyped-def]
    entries, documents, ends, v, ratios, shares, actives, n_active, scale, powers, level, parts, row,
):  # fmt: skip
    """`add_word` where each document has its own power, with the factor of the word's level."""
    row[:] = 0.0
    for at in range(0 if v == 0 else ends[v - 1], ends[v]):
        d = documents[at]
        factor = np.float32(scale[d] * ratios[entries[at]])
        _add_power(level, shares[d], actives[d], n_active[d], factor, powers[d], parts, row)


@njit(**OPTIONS)
def _add_power(level, share, active, width, factor, power, parts, row):  # type: ignore[no-untyped-def]
    """row_k += factor · share_j · exp(power · level_k) of the active topics k; `parts` is to work in."""
    if width == len(row):
        for k in range(width):
            row[k] += factor * share[k] * exp(power * level[k])
        return
    for j in range(width):
        parts[j] = level[active[j]]
    for j in range(width):
        parts[j] = factor * share[j] * exp(power * parts[j])
    for j in range(width):
        row[active[j]] += parts[j]
