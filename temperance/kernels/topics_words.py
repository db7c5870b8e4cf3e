"""Responsibilities of documents added up word by word: the statistics from which LDA's topics are updated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ._host import OPTIONS
from ._host_either import INNER, exp
from .topics_documents import Found, Table
from .topics_entries import Rows


class ByWord(NamedTuple):
    """The entries of all documents sorted by word, with the factors of their responsibilities."""

    entries: np.ndarray
    documents: np.ndarray  # of each entry
    ends: np.ndarray  # (words,)
    found: Found
    scale: np.ndarray  # (documents,), the factor of each document's responsibilities


def by_word(rows: Rows, table: Table, found: Found, scale: np.ndarray) -> tuple[ByWord, np.ndarray | None]:
    """The entries by word, and the power of each document (None if the table's values already contain a common power,
    for which kernels are compiled without powers)."""
    entries, documents, ends = sort_by_word(rows.starts, rows.ends, rows.words, len(table.values))
    powers = rows.observation.astype(table.values.dtype) if table.own else None
    return ByWord(entries, documents, ends, found, scale), powers


@njit(**OPTIONS)
def sort_by_word(starts, ends, words, n_words):  # type: ignore[no-untyped-def]
    """The entries of all documents sorted by word, the document of each, and where each word ends."""
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


@njit(**INNER)
def add_word(x, v, row):  # type: ignore[no-untyped-def]
    """row_k = Σ_d scale_d ratio share_k over the documents that have word v, before the factor of its values."""
    for k in range(len(row)):
        row[k] = 0.0
    for at in range(0 if v == 0 else x.ends[v - 1], x.ends[v]):
        d = x.documents[at]
        factor = row.dtype.type(x.scale[d] * x.found.ratios[x.entries[at]])
        share, active, width = x.found.shares[d], x.found.active[d], x.found.n_active[d]
        if width == len(row):  # all topics are listed, in order
            for k in range(width):
                row[k] += factor * share[k]
        else:
            for j in range(width):
                row[active[j]] += factor * share[j]


@njit(**INNER)
def add_raised_word(x, powers, v, level, row, parts):  # type: ignore[no-untyped-def]
    """`add_word` for documents with individual powers, which includes the factor exp(power · level_k); `parts` is
    scratch."""
    for k in range(len(row)):
        row[k] = 0.0
    for at in range(0 if v == 0 else x.ends[v - 1], x.ends[v]):
        d = x.documents[at]
        factor, power = row.dtype.type(x.scale[d] * x.found.ratios[x.entries[at]]), powers[d]
        share, active, width = x.found.shares[d], x.found.active[d], x.found.n_active[d]
        if width == len(row):
            for k in range(width):
                row[k] += factor * share[k] * exp(power * level[k])
        else:
            for j in range(width):
                parts[j] = level[active[j]]
            for j in range(width):
                parts[j] = factor * share[j] * exp(power * parts[j])
            for j in range(width):
                row[active[j]] += parts[j]
