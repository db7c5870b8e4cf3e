"""A walk over documents of LDA on the CPU: Numba behind `topics_local.local_step`, imported only when used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS, exp
from .topics_documents import Found, Layout, Rows, add_word, sort_by_word, step_documents
from .topics_hot_walk import walk_each

_LANES = 16  # words transposed together: two cache lines
_ROWS = 8192  # documents whose responsibilities are held at a time
# A topic this much (in nats) less likely than a word's likeliest is left out of the word's list.
_UNLIKELY = 40.0
_SPARSE = 0.25  # a list of topics is kept only if it is this much shorter than all


def host_local_step(
    log_topics: np.ndarray,
    powers: np.ndarray,
    rows_of: Callable[[slice], Rows],
    prior: np.ndarray,
    gamma: np.ndarray,
    steps: int,
    tolerance: float,
    respond: Callable[[slice, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(γ, messages to the topics, Σ_v n_v log Σ_k …): the same as `topics_local.device_local_step`.

    `respond` makes new powers of documents for the messages, from where these are, Σ n E log β and γ.
    """
    if (powers != powers[0]).any():
        return walk_each(log_topics, rows_of, prior, gamma, steps, tolerance, respond)
    gamma, evidence = gamma.copy(), np.empty(len(gamma))
    messages = np.zeros(log_topics.shape)
    # From equal shares a word's likeliest topic takes hold in its document, and the unlikely never return; but
    # shares that were kept from before may lack it altogether.
    equal = bool(np.ptp(gamma - prior, axis=1).max() < 1e-9)
    layout = _lay_out_topics(log_topics, float(powers[0]), equal)
    for first in range(0, len(gamma), _ROWS):
        part = slice(first, first + _ROWS)
        rows = rows_of(part)
        observed = np.empty(0 if respond is None else len(gamma[part]))
        found = step_documents(layout, rows, prior, gamma[part], evidence[part], steps, tolerance, observed)
        powers = rows.observation if respond is None else respond(part, observed, gamma[part])
        _collect_words(layout, rows, found, rows.weights * powers, messages)
    return gamma, messages, evidence


def _lay_out_topics(log_topics: np.ndarray, power: float, lists: bool) -> Layout:
    n_topics, n_words = log_topics.shape
    layout = Layout(
        np.empty((n_words, n_topics)),
        np.empty((n_words, n_topics), dtype=np.int32),
        np.empty(n_words, dtype=np.int32),
        np.empty(n_words),
        np.ones(n_topics),
    )

    def work(start: int, stop: int) -> None:
        _lay_out(log_topics, power, start, stop, *layout[:4], lists)

    in_threads(work, n_words, 1024)
    return layout


def _collect_words(layout: Layout, rows: Rows, found: Found, scale: np.ndarray, messages: np.ndarray) -> None:
    n_words = len(layout.spread)
    by_word = sort_by_word(rows.starts, rows.ends, rows.words, n_words)

    def work(start: int, stop: int) -> None:
        _collect(*by_word, start, stop, *found, scale, *layout[:3], messages)

    in_threads(work, n_words, 512)


@njit(**OPTIONS)
def _lay_out(  # type: ignore[no-untyped-def]
    log_topics, power, start, stop, spread, topics, widths, shift, lists,
):  # fmt: skip
    n_topics = log_topics.shape[0]
    for first in range(start, stop, _LANES):
        last = min(first + _LANES, stop)
        for k in range(n_topics):
            for v in range(first, last):
                spread[v, k] = log_topics[k, v]
        for v in range(first, last):
            row = spread[v]
            shift[v] = row.max()
            widths[v] = n_topics
            for k in range(n_topics):
                topics[v, k] = k
                row[k] -= shift[v]
            likely = 0
            for k in range(n_topics):
                likely += power * row[k] > -_UNLIKELY
            if lists and likely < _SPARSE * n_topics:
                place = 0
                for k in range(n_topics):
                    if power * row[k] > -_UNLIKELY:
                        row[place] = row[k]
                        topics[v, place] = k
                        place += 1
                widths[v] = likely
            for j in range(widths[v]):
                row[j] = exp(power * row[j])


@njit(**OPTIONS)
def _collect(  # type: ignore[no-untyped-def]
    entries, documents, ends, start, stop, ratios, shares, actives, n_active, scale,
    spread, topics, widths, messages,
):  # fmt: skip
    """messages[k, v] += Σ_d scale_d · responsibility, for the words from `start` to `stop`."""
    n_topics = spread.shape[1]
    row = np.empty(n_topics)
    sums = np.empty((_LANES, n_topics))
    for first in range(start, stop, _LANES):
        last = min(first + _LANES, stop)
        sums[:] = 0.0
        for v in range(first, last):
            add_word(entries, documents, ends, v, ratios, shares, actives, n_active, scale, row)
            for j in range(widths[v]):
                sums[v - first, topics[v, j]] = row[topics[v, j]] * spread[v, j]
        for k in range(n_topics):
            for v in range(first, last):
                messages[k, v] += sums[v - first, k]
