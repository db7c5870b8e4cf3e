"""A walk over documents of LDA that have temperatures of their own, on the CPU: what `topics_kernel.py` is for one
temperature for all, in single precision (why: `topics_hot_documents.py`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS
from .topics_documents import Found, Rows, sort_by_word
from .topics_hot import add_word_each
from .topics_hot_documents import Table, step_hot_documents

_ROWS = 8192  # documents whose responsibilities are held at a time


def walk_each(
    log_topics: np.ndarray,
    rows_of: Callable[[slice], Rows],
    prior: np.ndarray,
    gamma: np.ndarray,
    steps: int,
    tolerance: float,
    respond: Callable[[slice, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(γ, messages to the topics, Σ_v n_v log Σ_k …), as `topics_kernel.host_local_step`, which says what `respond`
    does."""
    gamma, evidence = gamma.copy(), np.empty(len(gamma))
    shift = log_topics.max(axis=0)
    levels = np.ascontiguousarray((log_topics - shift).T, dtype=np.float32)
    table = Table(levels, shift, np.zeros(len(log_topics), np.float32), True)
    messages = np.zeros(levels.shape)
    for first in range(0, len(gamma), _ROWS):
        part = slice(first, first + _ROWS)
        rows = rows_of(part)
        found, observed = step_hot_documents(table, rows, prior, gamma[part], steps, tolerance, evidence[part])
        powers = rows.observation if respond is None else respond(part, observed, gamma[part])
        _collect(levels, rows, found, rows.weights * powers, messages)
    return gamma, np.ascontiguousarray(messages.T), evidence


def _collect(levels: np.ndarray, rows: Rows, found: Found, scale: np.ndarray, messages: np.ndarray) -> None:
    by_word = sort_by_word(rows.starts, rows.ends, rows.words, len(levels))
    powers = rows.observation.astype(np.float32)

    def work(start: int, stop: int) -> None:
        _collect_words(start, stop, *by_word, *found, scale, powers, levels, messages)

    in_threads(work, len(levels), 512)


@njit(**OPTIONS)
def _collect_words(  # type: ignore[no-untyped-def]
    start, stop, entries, documents, ends, ratios, shares, actives, n_active, scale, powers, levels, messages,
):  # fmt: skip
    """messages[v] += Σ_d scale_d · responsibilities."""
    n_topics = levels.shape[1]
    row, parts = np.empty(n_topics, np.float32), np.empty(n_topics, np.float32)
    for v in range(start, stop):
        add_word_each(
            entries, documents, ends, v, ratios, shares, actives, n_active, scale, powers, levels[v], parts, row
        )
        for k in range(n_topics):
            messages[v, k] += row[k]
