"""Documents as input of the host's engines: entries (word, count), in rows or dealt into groups. Uses NumPy only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data import Corpus

GROUPS = 8
# The stages of a start: add one in this many documents, then revisit all so far this often.
STAGES = ((16, 8), (4, 2), (1, 0))


class Rows(NamedTuple):
    """Documents: d has the entries starts[d] : ends[d] of `words` and `counts`, and row d of the other arrays."""

    starts: np.ndarray
    ends: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    observation: np.ndarray  # powers
    latent: np.ndarray


def padded_rows(words: np.ndarray, counts: np.ndarray, *each: np.ndarray) -> Rows:
    """The rows of documents that are padded at the end with counts of zero."""
    n, width = words.shape
    starts = np.arange(n, dtype=np.int64) * width
    return Rows(starts, starts + (counts > 0).sum(axis=1), *own(words.ravel(), counts.ravel(), *each))


def rows_of_corpus(corpus: Any, rows: np.ndarray, *each: np.ndarray) -> Rows:
    """The rows `rows` of a corpus, which is in memory or on disk."""
    if not isinstance(corpus, Corpus):
        corpus, rows = corpus.take(rows), np.arange(len(rows))
    return Rows(corpus.starts[rows], corpus.starts[rows + 1], corpus.words, corpus.counts, *own(*each))


def own(*arrays: np.ndarray) -> list[np.ndarray]:
    """Writable copies, because Numba would compile the kernels a second time for read-only arrays."""
    return [array if array.flags.writeable else array.copy() for array in arrays]


class Ascent(NamedTuple):
    """At most `steps` updates of each document's γ, until their mean change is below `tolerance`."""

    prior: np.ndarray  # α, (topics,), or (documents, topics) if it differs between documents
    steps: int
    tolerance: float


class Entries(NamedTuple):
    """Documents: d has the entries bounds[d, g, 0] : bounds[d, g, 1] in word group g."""

    bounds: np.ndarray  # (documents, GROUPS, 2)
    words: np.ndarray
    counts: np.ndarray
    weights: np.ndarray  # of documents


class Counts(NamedTuple):
    """Sums of φ over tokens; those of documents and of topics contain the priors."""

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
    before = np.concatenate([[0], np.cumsum(-((np.arange(GROUPS) - n) // GROUPS))])[:-1]  # documents of earlier groups
    mine = -((document % GROUPS - n) // GROUPS)  # documents of the document's own group
    return GROUPS * before[document % GROUPS] + group * mine + document // GROUPS
