"""Checks of the structure of sparse matrices and corpora, on which compiled code relies.

Compiled loops use column numbers as places in memory: one that is out of range would crash the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidData

MOST_WORDS = 2**31 - 1  # word numbers are 32-bit
LARGEST = 1e140  # sums of squares must stay finite


def check_sparse(matrix: Any, name: str = "the sparse matrix") -> None:
    """Refuse a SciPy matrix in CSR, CSC, BSR or COO form whose indices do not fit its shape; others pass."""
    if len(matrix.shape) != 2:
        raise InvalidData(f"{name} must have rows and columns, got shape {matrix.shape}")
    rows, columns = matrix.shape
    form = getattr(matrix, "format", "")
    if form == "coo":
        for place, most, axis in ((matrix.row, rows, "row"), (matrix.col, columns, "column")):
            _same_length(name, place, matrix.data)
            check_places(place, most, f"{name} has entries in {axis}", f"its {most} {axis}s")
    elif form in ("csr", "csc", "bsr"):
        high, wide = matrix.blocksize if form == "bsr" else (1, 1)
        lines, most = (columns, rows) if form == "csc" else (rows // high, columns // wide)
        check_starts(matrix.indptr, lines, len(matrix.indices), name)
        _same_length(name, matrix.indices, matrix.data)
        axis = "row" if form == "csc" else "column"
        used = matrix.indices[: int(matrix.indptr[-1])]
        check_places(used, most, f"{name} has entries in {axis}", f"its {most} {axis}s")


def check_places(places: np.ndarray, size: int, has: str, accepted: str) -> None:
    """Refuse numbers outside 0 to size − 1; this takes one pass for the smallest and one for the largest."""
    if places.dtype.kind not in "iu":
        raise InvalidData(f"{has} numbered by {places.dtype}, and numbers must be whole")
    if places.size and (int(places.min()) < 0 or int(places.max()) >= size):
        wrong = places[(places < 0) | (places >= size)][0]
        raise InvalidData(f"{has} {wrong}, and {accepted} are numbered from 0 to {size - 1}")


def check_starts(starts: np.ndarray, lines: int, entries: int, name: str) -> None:
    """Refuse the places where rows start unless they rise from 0 to at most the number of entries."""
    if starts.shape != (lines + 1,) or starts.dtype.kind not in "iu":
        raise InvalidData(f"{name} must say where each of its {lines} rows starts, got shape {starts.shape}")
    if starts[0] != 0 or int(starts[-1]) > entries or (np.diff(starts) < 0).any():
        raise InvalidData(f"{name} is damaged: its row starts do not go up from 0 to its {entries} entries")


def check_corpus(starts: np.ndarray, words: np.ndarray, counts: np.ndarray, n_words: int) -> None:
    """Refuse a corpus in compressed rows whose parts do not belong together."""
    check_vocabulary_size(n_words)
    check_starts(starts, len(starts) - 1, len(words), "the corpus")
    _same_length("the corpus", words, counts)
    check_places(words, n_words, "the corpus has the word number", f"its {n_words} words")


def check_vocabulary_size(n_words: Any, name: str = "the corpus") -> None:
    """Refuse more words than 32-bit numbers can name."""
    if not 1 <= n_words <= MOST_WORDS:
        raise InvalidData(f"{name} has {n_words} words, and a vocabulary has 1 to {MOST_WORDS}")


def _same_length(name: str, places: np.ndarray, data: np.ndarray) -> None:
    if np.ndim(places) != 1 or len(places) != len(data):
        raise InvalidData(f"{name} is damaged: it has {len(data)} values and {np.size(places)} indices")
