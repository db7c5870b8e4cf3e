"""The local step of LDA on the CPU: Numba kernels behind `topics_local.local_step`, imported only when used.

Topics are laid out word by word, so that inner loops run along topics; ψ(Σγ) cancels in the responsibilities
and is left out; a topic whose expected count in a document falls below `_NEGLIGIBLE` of its length is left out
for the rest of that document. Threads write to rows of their own: the result does not depend on their number.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..numerics.host import FAST, exp, exp_digamma
from ..numerics.threads import in_threads

_NEGLIGIBLE = 1e-10
_TINY = 1e-300  # a word that no topic can explain: its ratio stays finite
_LANES = 16  # words transposed together: two cache lines
_ROWS = 8192  # documents whose responsibilities are held at a time
_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": FAST}


class Rows(NamedTuple):
    """Documents d with entries starts[d] : ends[d] of `words` and `counts`, and one row each of the rest."""

    starts: np.ndarray
    ends: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    observation: np.ndarray
    latent: np.ndarray


def padded_rows(words: np.ndarray, counts: np.ndarray, *each: np.ndarray) -> Rows:
    """Documents padded with counts of zero at their ends."""
    n, width = words.shape
    starts = np.arange(n, dtype=np.int64) * width
    return Rows(starts, starts + (counts > 0).sum(axis=1), words.ravel(), counts.ravel(), *each)


def host_local_step(
    log_topics: np.ndarray, rows: Rows, prior: np.ndarray, gamma: np.ndarray, steps: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(γ, messages to the topics, Σ_v n_v log Σ_k …): the same as `topics_local.device_local_step`."""
    n_topics, n_words = log_topics.shape
    layout = _lay_out_topics(log_topics, rows)
    gamma, evidence = gamma.copy(), np.empty(len(rows.starts))
    messages = np.zeros((n_topics, n_words))
    for first in range(0, len(evidence), _ROWS):
        part = slice(first, first + _ROWS)
        here = rows._replace(**{name: getattr(rows, name)[part] for name in _BY_DOCUMENT})
        _step(layout, here, prior, gamma[part], evidence[part], messages, steps, tolerance)
    return gamma, messages, evidence


_BY_DOCUMENT = ("starts", "ends", "weights", "observation", "latent")


class _Layout(NamedTuple):
    spread: np.ndarray  # (words, topics): exp{power (E log β − shift)}, or without exp when powers differ
    shift: np.ndarray  # (words,): the largest of a row, so that nothing underflows
    common: bool  # whether all documents have the same power


def _lay_out_topics(log_topics: np.ndarray, rows: Rows) -> _Layout:
    n_topics, n_words = log_topics.shape
    common = bool((rows.observation == rows.observation[:1]).all())
    layout = _Layout(np.empty((n_words, n_topics)), np.empty(n_words), common)
    used = np.zeros(n_words, dtype=np.bool_)
    _mark(rows.starts, rows.ends, rows.words, used)
    power = float(rows.observation[0]) if common else 1.0

    def work(start: int, stop: int) -> None:
        _lay_out(log_topics, used, power, common, start, stop, layout.spread, layout.shift)

    in_threads(work, n_words, 1024)
    return layout


def _step(
    layout: _Layout,
    rows: Rows,
    prior: np.ndarray,
    gamma: np.ndarray,
    evidence: np.ndarray,
    messages: np.ndarray,
    steps: int,
    tolerance: float,
) -> None:
    n, n_topics = gamma.shape
    n_words = len(layout.shift)
    ratios = np.empty(len(rows.words))
    shares = np.empty((n, n_topics))
    active = np.empty((n, n_topics), dtype=np.int32)
    n_active = np.empty(n, dtype=np.int32)
    scale = rows.weights * rows.observation

    def documents(start: int, stop: int) -> None:
        for_each = (
            rows.starts,
            rows.ends,
            rows.observation,
            rows.latent,
            gamma,
            evidence,
            shares,
            active,
            n_active,
        )
        these = tuple(array[start:stop] for array in for_each)
        _documents(*these, rows.words, rows.counts, ratios, *layout, prior, steps, tolerance)

    in_threads(documents, n, 32)
    entries, documents_of, ends = _by_word(rows.starts, rows.ends, rows.words, n_words)

    def words(start: int, stop: int) -> None:
        by_word = (entries, documents_of, ends, start, stop)
        _collect(*by_word, ratios, shares, active, n_active, scale, rows.observation, *layout, messages)

    in_threads(words, n_words, 512)


@njit(**_OPTIONS)
def _mark(starts, ends, words, used):  # type: ignore[no-untyped-def]
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            used[words[i]] = True


@njit(**_OPTIONS)
def _lay_out(log_topics, used, power, common, start, stop, spread, shift):  # type: ignore[no-untyped-def]
    n_topics = log_topics.shape[0]
    for first in range(start, stop, _LANES):
        last = min(first + _LANES, stop)
        for k in range(n_topics):
            for v in range(first, last):
                spread[v, k] = log_topics[k, v]
        for v in range(first, last):
            if not used[v]:
                continue
            largest = spread[v, 0]
            for k in range(n_topics):
                largest = max(largest, spread[v, k])
            shift[v] = largest
            if common:
                for k in range(n_topics):
                    spread[v, k] = exp(power * (spread[v, k] - largest))
            else:
                for k in range(n_topics):
                    spread[v, k] -= largest


@njit(**_OPTIONS)
def _documents(  # type: ignore[no-untyped-def]
    starts, ends, observation, latent, gammas, evidence, shares, actives, n_active,
    words, counts, ratios, spread, shift, common, prior, steps, tolerance,
):  # fmt: skip
    """Coordinate ascent in each document, then its responsibilities as ratio × share × spread."""
    n_topics = len(prior)
    longest = 1
    for d in range(len(starts)):
        longest = max(longest, ends[d] - starts[d])
    block = np.empty((longest, n_topics))
    total = np.empty(n_topics)
    for d in range(len(starts)):
        first, size = starts[d], ends[d] - starts[d]
        gamma, share, active = gammas[d], shares[d], actives[d]
        length = 0.0
        for i in range(size):
            length += counts[first + i]
            row = spread[words[first + i]]
            if common:
                for k in range(n_topics):
                    block[i, k] = row[k]
            else:
                for k in range(n_topics):
                    block[i, k] = exp(observation[d] * row[k])
        for k in range(n_topics):
            active[k] = k
        _set_shares(gamma, active, n_topics, latent[d], share)
        width = n_topics
        for _ in range(steps):
            total[:width] = 0.0
            for i in range(size):
                norm = 0.0
                for j in range(width):
                    norm += block[i, j] * share[j]
                ratio = counts[first + i] / max(norm, _TINY)
                for j in range(width):
                    total[j] += ratio * block[i, j]
            change = 0.0
            small = 0
            for j in range(width):
                mass = latent[d] * share[j] * total[j]
                k = active[j]
                change += abs(prior[k] + mass - gamma[k])
                gamma[k] = prior[k] + mass
                small += mass < _NEGLIGIBLE * length
            if 8 * small >= width:
                width = _compact(gamma, prior, length, active, width, block, size)
            _set_shares(gamma, active, width, latent[d], share)
            if change <= tolerance * n_topics:
                break
        value = 0.0
        for i in range(size):
            norm = 0.0
            for j in range(width):
                norm += block[i, j] * share[j]
            norm = max(norm, _TINY)
            ratios[first + i] = counts[first + i] / norm
            value += counts[first + i] * (math.log(norm) + observation[d] * shift[words[first + i]])
        evidence[d] = value - latent[d] * length * math.log(exp_digamma(gamma.sum()))
        n_active[d] = width


@njit(**_OPTIONS)
def _set_shares(gamma, active, width, power, share):  # type: ignore[no-untyped-def]
    """exp{power · ψ(γ)} of the active topics."""
    for j in range(width):
        share[j] = exp_digamma(gamma[active[j]])
    if power != 1.0:
        for j in range(width):
            share[j] = exp(power * math.log(share[j]))


@njit(**_OPTIONS)
def _compact(gamma, prior, length, active, width, block, size):  # type: ignore[no-untyped-def]
    """Leave out the topics with a negligible count, from the list and from the document's block."""
    kept = np.empty(width, dtype=np.int32)
    new = 0
    for j in range(width):
        k = active[j]
        if gamma[k] - prior[k] >= _NEGLIGIBLE * length:
            kept[new] = j
            active[new] = k
            new += 1
    for i in range(size):
        for j in range(new):
            block[i, j] = block[i, kept[j]]
    return new


@njit(**_OPTIONS)
def _by_word(starts, ends, words, n_words):  # type: ignore[no-untyped-def]
    """The entries of all documents sorted by word, with the document of each: a counting sort."""
    place = np.zeros(n_words + 1, dtype=np.int64)
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            place[words[i] + 1] += 1
    for v in range(n_words):
        place[v + 1] += place[v]
    entries = np.empty(place[n_words], dtype=np.int64)
    documents = np.empty(place[n_words], dtype=np.int32)
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            at = place[words[i]]
            place[words[i]] += 1
            entries[at] = i
            documents[at] = d
    return entries, documents, place


@njit(**_OPTIONS)
def _collect(  # type: ignore[no-untyped-def]
    entries, documents, ends, start, stop,
    ratios, shares, actives, n_active, scale, observation, spread, shift, common, messages,
):  # fmt: skip
    """messages[k, v] += Σ_d scale_d · responsibility, for the words from `start` to `stop`."""
    n_topics = spread.shape[1]
    sums = np.zeros((_LANES, n_topics))
    for first in range(start, stop, _LANES):
        last = min(first + _LANES, stop)
        sums[:] = 0.0
        for v in range(first, last):
            row = sums[v - first]
            for at in range(0 if v == 0 else ends[v - 1], ends[v]):
                d = documents[at]
                factor = scale[d] * ratios[entries[at]]
                share, active = shares[d], actives[d]
                if not common:
                    for j in range(n_active[d]):
                        row[active[j]] += factor * share[j] * exp(observation[d] * spread[v, active[j]])
                elif n_active[d] == n_topics:
                    for j in range(n_topics):
                        row[j] += factor * share[j]
                else:
                    for j in range(n_active[d]):
                        row[active[j]] += factor * share[j]
            if common:
                for k in range(n_topics):
                    row[k] *= spread[v, k]
        for k in range(n_topics):
            for v in range(first, last):
                messages[k, v] += sums[v - first, k]
