"""A walk over documents of LDA on the CPU: Numba behind `topics.walk.local_step`, imported only when used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS
from ._host_either import INNER, exp, largest
from .topics_documents import Table, empty_table, step_documents
from .topics_entries import Ascent, Rows
from .topics_words import add_raised_word, add_word, by_word

_LANES = 16  # words transposed together: two cache lines
_ROWS = 8192  # documents whose responsibilities are held in memory together
# A topic less likely than a word's likeliest by this many nats is left out of the word's list.
_UNLIKELY = 40.0
_SPARSE = 0.25  # a list of topics is kept only if it is this much shorter than the full row


def walk_documents(
    log_topics: np.ndarray,
    powers: np.ndarray,
    rows_of: Callable[[slice], Rows],
    ascent: Ascent,
    gamma: np.ndarray,
    respond: Callable[[slice, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(γ, messages to the topics, Σ_v n_v log Σ_k …): the same as `topics.walk.device_local_step`, but in single
    precision where the documents' powers differ.

    `respond(rows, energies, γ)` returns the powers of these documents for the messages; their Σ n E log β are
    `energies`.
    """
    gamma, evidence = gamma.copy(), np.empty(len(gamma))
    messages = np.zeros(log_topics.shape)
    # If shares start equal, a word's likeliest topic takes hold in its document and unlikely topics never return. But
    # shares kept from an earlier walk may lack the likeliest topic altogether.
    equal = bool(np.ptp(gamma - ascent.prior, axis=1).max() < 1e-9)
    table = _lay_out_topics(log_topics, powers, equal)
    for first in range(0, len(gamma), _ROWS):
        part = slice(first, first + _ROWS)
        rows = rows_of(part)
        here = ascent._replace(prior=ascent.prior[part]) if ascent.prior.ndim == 2 else ascent
        found = step_documents(table, rows, here, gamma[part], True, respond is not None)
        evidence[part] = found.evidence
        fresh = rows.observation if respond is None else respond(part, found.observed, gamma[part])
        x = by_word(rows, table, found, rows.weights * fresh)
        in_threads(lambda *words, x=x: _collect(*words, *x, table, messages), len(table.values), 512)
    return gamma, messages, evidence


def _lay_out_topics(log_topics: np.ndarray, powers: np.ndarray, lists: bool) -> Table:
    own = bool((powers != powers[0]).any())
    table = empty_table(log_topics.shape[::-1], np.float32 if own else np.float64, own)
    power = table.values.dtype.type(powers[0])
    in_threads(lambda *words: _lay_out(*words, log_topics, power, table, lists), len(table.values), 1024)
    return table


@njit(**OPTIONS)
def _lay_out(start, stop, log_topics, power, table, lists):  # type: ignore[no-untyped-def]
    n_topics = log_topics.shape[0]
    lines = np.empty((_LANES, n_topics))
    for first in range(start, stop, _LANES):
        last = min(first + _LANES, stop)
        for k in range(n_topics):
            for v in range(first, last):
                lines[v - first, k] = log_topics[k, v]
        for v in range(first, last):
            line, row = lines[v - first], table.values[v]
            top = largest(line, n_topics)
            table.shift[v] = top
            for k in range(n_topics):
                row[k] = line[k] - top
            if not table.own:
                table.widths[v] = _raise_word(table.values[v], table.topics[v], power, lists)


@njit(**INNER)
def _raise_word(row, topics, power, lists):  # type: ignore[no-untyped-def]
    """Set exp(power · level) of a word's topics, or only of its likeliest ones if these are few; returns how many are
    set."""
    likely, width = 0, len(row)
    for k in range(width):
        likely += power * row[k] > -_UNLIKELY
    if lists and likely < _SPARSE * width:
        width = 0
        for k in range(len(row)):
            if power * row[k] > -_UNLIKELY:
                row[width], topics[width] = row[k], k
                width += 1
    for j in range(width):
        row[j] = exp(power * row[j])
    return width


@njit(**OPTIONS)
def _collect(start, stop, x, powers, table, messages):  # type: ignore[no-untyped-def]
    """messages[k, v] += Σ_d scale_d · responsibility, for the words from `start` to `stop`."""
    n_topics = table.values.shape[1]
    row, parts = np.empty(n_topics, table.values.dtype), np.empty(n_topics, table.values.dtype)
    sums = np.empty((_LANES, n_topics))
    for first in range(start, stop, _LANES):
        last = min(first + _LANES, stop)
        for v in range(first, last):
            to, value, topics = sums[v - first], table.values[v], table.topics[v]
            if powers is not None:
                add_raised_word(x, powers, v, value, row, parts)
                for k in range(n_topics):
                    to[k] = row[k]
            else:
                add_word(x, v, row)
                for k in range(n_topics):
                    to[k] = 0.0
                for j in range(table.widths[v]):
                    to[topics[j]] = row[topics[j]] * value[j]
        for k in range(n_topics):
            for v in range(first, last):
                messages[k, v] += sums[v - first, k]
