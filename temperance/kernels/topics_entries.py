"""Documents as input of the host's engines: entries of words and counts, in rows or dealt into groups. Uses NumPy
only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data import Corpus

GROUPS = 8
# The stages of a start: add one in this many documents, then revisit all so far this often.
STAGES = ((16, 8), (4, 2), (1, 0))


class Rows(NamedTuple):
    """Documents d with entries starts[d] : ends[d] of `words` and `counts`, and one row each of the rest."""

    starts: np.ndarray
    ends: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    observation: np.ndarray  # powers
    latent: np.ndarray


def padded_rows(words: np.ndarray, counts: np.ndarray, *each: np.ndarray) -> Rows:
    """Documents padded with counts of zero at their ends."""
    n, width = words.shape
    starts = np.arange(n, dtype=np.int64) * width
    return Rows(starts, starts + (counts > 0).sum(axis=1), *own(words.ravel(), counts.ravel(), *each))


def rows_of_corpus(corpus: Any, rows: np.ndarray, *each: np.ndarray) -> Rows:
    """Documents in memory, or read from disk."""
    if not isinstance(corpus, Corpus):
        corpus, rows = corpus.take(rows), np.arange(len(rows))
    return Rows(corpus.starts[rows], corpus.starts[rows + 1], corpus.words, corpus.counts, *own(*each))


def own(*arrays: np.ndarray) -> list[np.ndarray]:
    """Writable copies, because Numba would compile the kernels a second time for read-only arrays."""
    return [array if array.flags.writeable else array.copy() for array in arrays]


class Ascent(NamedTuple):
    """At most `steps` updates of each document's γ, until their mean change is below `tolerance`."""

    prior: np.ndarray  # α, (topics,), or (documents, topics) if it differs
    steps: int
    tolerance: float


class Entries(NamedTuple):
    """Documents whose entries of word group g are bounds[d, g, 0] : bounds[d, g, 1]."""

    bounds: np.ndarray  # (documents, GROUPS, 2)
    words: np.ndarray
    counts: np.ndarray
    weights: np.ndarray  # of documents


class Counts(NamedTuple):
    """Sums of φ over tokens, with the priors added to those of documents and topics."""

    documents: np.ndarray  # (documents, topics), with α
    words: np.ndarray  # (words, topics), without η
    topics: np.ndarray  # (topics,), with Σ η


def deal(starts: np.ndarray, ends: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of the entries by group of documents, group of words and document, and the bounds of each run."""
    sizes = ends - starts
    first = np.concatenate([[0], np.cumsum(sizes)])
    document = np.repeat(np.arange(len(starts)), sizes)
    entries = np.arange(first[-1]) + np.repeat(starts - first[:-1], sizes)
    rank = _rank(document, words[entries] % GROUPS, len(starts))
    each = np.bincount(rank, minlength=len(starts) * GROUPS)
    last = np.cumsum(each)
    documents = np.arange(len(starts))
    place = _rank(documents[:, None], np.arange(GROUPS)[None], len(starts))
    return entries[np.argsort(rank, kind="stable")], np.stack([(last - each)[place], last[place]], axis=2)


def _rank(document: np.ndarray, group: np.ndarray, n: int) -> np.ndarray:
    """The place of a document's run of entries of one group of words, in the order of `deal`."""
    before = np.concatenate([[0], np.cumsum(-((np.arange(GROUPS) - n) // GROUPS))])[:-1]  # documents of groups before
    mine = -((document % GROUPS - n) // GROUPS)  # documents of its own group
    return GROUPS * before[document % GROUPS] + group * mine + document // GROUPS
