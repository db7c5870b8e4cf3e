"""Corpora: documents as counts of words, in compressed rows on the host.

A document is a bag of words; `starts[d] : starts[d + 1]` are its entries in `words` and `counts`. The arrays
may be memory-mapped (see `corpus_store.py`): `take` reads no more than the rows asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidData, InvalidParameter
from .gate import check_corpus, check_sparse, check_vocabulary_size
from .tokenise import Tokeniser

_TOGETHER = 2**16  # documents whose tokens are counted together


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """`len(corpus)` documents over `n_words` words; empty documents are kept."""

    starts: np.ndarray  # (documents + 1,) int64
    words: np.ndarray  # (entries,) int32, each word at most once per document
    counts: np.ndarray  # (entries,) float32 for whole counts, float64 for fractional ones; all positive
    n_words: int  # the size of the vocabulary
    vocabulary: tuple[str, ...] | None = None  # the words as strings, if they are known
    unknown: int = 0  # tokens left out because they are not in the vocabulary
    tokeniser: Tokeniser | None = None  # how the texts were read, so that new texts are read alike
    report: tuple[str, ...] = ()  # what was read and what was left out, a sentence each
    covariates: Any = None  # columns with a value for each document, or a matrix with a row for each

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> float:
        return float(np.sum(self.counts, dtype=np.float64))

    @property
    def entries(self) -> np.ndarray:
        """The number of different words of each document."""
        return np.diff(self.starts)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each document."""
        found = np.empty(len(self))
        for first in range(0, len(self), _TOGETHER):  # sums over all entries at once would double the memory
            starts = np.asarray(self.starts[first : first + _TOGETHER + 1])
            total = np.zeros(starts[-1] - starts[0] + 1)
            np.cumsum(self.counts[starts[0] : starts[-1]], dtype=np.float64, out=total[1:])
            found[first : first + _TOGETHER] = np.diff(total[starts - starts[0]])
        return found

    @property
    def n_empty(self) -> int:
        return int(np.sum(self.entries == 0))

    def take(self, rows: Any) -> Corpus:
        """The documents with the numbers `rows`, in this order, in memory."""
        if isinstance(rows, slice) and rows.step in (None, 1):  # neighbours need no list of their entries
            first, last, _ = rows.indices(len(self))
            starts = np.array(self.starts[first : max(first, last) + 1], dtype=np.int64)
            here = slice(starts[0], starts[-1])
            words, counts = np.array(self.words[here]), np.array(self.counts[here])
            beside = _rows_of(self.covariates, rows)
            return dataclasses.replace(self, starts=starts - starts[0], words=words, counts=counts, covariates=beside)
        rows = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        sizes = np.asarray(self.starts[rows + 1] - self.starts[rows])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(np.asarray(self.starts[rows]) - starts[:-1], sizes) + np.arange(starts[-1])
        words, counts = self.words[entries], self.counts[entries]
        beside = _rows_of(self.covariates, rows)
        return dataclasses.replace(self, starts=starts, words=words, counts=counts, covariates=beside)

    def take_ranges(self, ranges: Sequence[tuple[int, int]]) -> Corpus:
        """The documents of all `ranges` (start, stop), copied in runs and not one by one."""
        bounds = [(int(self.starts[first]), int(self.starts[last])) for first, last in ranges]
        sizes = [np.diff(self.starts[first : last + 1]) for first, last in ranges]
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        words, counts = (
            np.concatenate([part[first:last] for first, last in bounds]) for part in (self.words, self.counts)
        )
        beside = self.covariates
        if beside is not None:
            beside = _rows_of(beside, np.concatenate([np.arange(first, last) for first, last in ranges]))
        return dataclasses.replace(self, starts=starts, words=words, counts=counts, covariates=beside)

    def with_covariates(self, columns: Any) -> Corpus:
        """The corpus with covariates: the `columns` of a table (a frame, or a dictionary of lists)."""
        from .tables import Table

        table = columns.words() if isinstance(columns, Table) else columns
        if not hasattr(table, "__getitem__") or not (isinstance(table, Mapping) or hasattr(table, "columns")):
            raise InvalidData(f"covariates must be a frame or a dictionary of columns, got {type(columns).__name__}")
        names = list(table.keys() if isinstance(table, Mapping) else table.columns)
        found = {str(name): _objects(table[name]) for name in names}
        for name, values in found.items():
            if len(values) != len(self):
                raise InvalidData(f"the column {name!r} has {len(values):,} values for {len(self):,} documents")
        return dataclasses.replace(self, covariates=found)

    def to_sparse(self) -> Any:
        """A SciPy CSR matrix, documents × words."""
        from scipy import sparse

        return sparse.csr_matrix((self.counts, self.words, self.starts), shape=(len(self), self.n_words))

    def keep_words(self, keep: Any) -> Corpus:
        """The corpus with only the words that `keep` names (numbers, or one truth value per word); all documents
        stay."""
        keep = np.asarray(keep)
        chosen = np.flatnonzero(keep) if keep.dtype == bool else keep
        number = np.full(self.n_words, -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen))
        renumbered = number[self.words]
        here = renumbered >= 0
        kept = np.concatenate([[0], np.cumsum(here)])
        vocabulary = None if self.vocabulary is None else tuple(self.vocabulary[index] for index in chosen)
        fewer = {"words": renumbered[here], "counts": self.counts[here], "n_words": len(chosen), "unknown": 0}
        return dataclasses.replace(self, starts=kept[self.starts], vocabulary=vocabulary, **fewer)

    def prune(self, min_documents: int = 1, max_share: float = 1.0, most_common: int | None = None) -> Corpus:
        """The corpus without the words that are in fewer than `min_documents` or in more than a share `max_share` of
        the documents, and then with only the `most_common` words; documents that become empty stay."""
        in_documents = np.bincount(self.words, minlength=self.n_words)
        keep = (in_documents >= min_documents) & (in_documents <= max_share * len(self))
        if most_common is not None:
            total = np.where(keep, np.bincount(self.words, self.counts, minlength=self.n_words), -1.0)
            ranks = np.argsort(-total, kind="stable")[:most_common]
            keep &= np.isin(np.arange(self.n_words), ranks)
        if not keep.any():
            raise InvalidParameter(f"no word is left with min_documents={min_documents}, max_share={max_share}")
        return self.keep_words(keep)

    def split(self, share: float = 0.1, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Documents for training and, a random `share` of them, for testing; `seed` chooses them."""
        if not 0.0 < share < 1.0:
            raise InvalidParameter(f"share must be between 0 and 1, got {share!r}")
        order = np.random.default_rng(seed).permutation(len(self))
        cut = min(max(round(share * len(self)), 1), len(self) - 1)
        return self.take(np.sort(order[cut:])), self.take(np.sort(order[:cut]))

    def halves(self, seed: int = 0, by: str = "tokens") -> tuple[Corpus, Corpus]:
        """Each document in two: half of its tokens (or types, `by="types"`), rounded up, and the rest; `seed`
        chooses."""
        if by not in ("tokens", "types"):
            raise InvalidParameter(f'by must be "tokens" or "types", got {by!r}')
        if by == "tokens" and (self.counts != np.round(self.counts)).any():
            raise InvalidData('fractional counts have no tokens to share out; use by="types"')
        generator = np.random.default_rng(seed)
        document = np.repeat(np.arange(len(self)), self.entries)
        entry = np.arange(len(self.words))
        if by == "tokens":
            repeats = self.counts.astype(np.int64)
            document, entry = np.repeat(document, repeats), np.repeat(entry, repeats)
        order = np.lexsort((generator.random(len(entry)), document))
        sizes = np.bincount(document, minlength=len(self))
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        rank = np.arange(len(entry)) - np.repeat(first, sizes)
        seen = np.zeros(len(entry), dtype=bool)
        seen[order] = rank < np.repeat((sizes + 1) // 2, sizes)
        if by == "types":
            return self._with_counts(np.where(seen, self.counts, 0.0)), self._with_counts(
                np.where(seen, 0.0, self.counts)
            )
        observed = np.bincount(entry[seen], minlength=len(self.words))
        return self._with_counts(observed), self._with_counts(self.counts - observed)

    def _with_counts(self, counts: np.ndarray) -> Corpus:
        """This corpus with other `counts` for its entries; entries with a count of zero are dropped."""
        here = counts > 0
        kept = np.concatenate([[0], np.cumsum(here)])
        counts = counts[here].astype(self.counts.dtype)
        return dataclasses.replace(self, starts=kept[self.starts], words=self.words[here], counts=counts, unknown=0)


def _objects(column: Any) -> np.ndarray:
    cells = list(column.tolist() if hasattr(column, "tolist") else column)
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return values


def _rows_of(covariates: Any, rows: Any) -> Any:
    if isinstance(covariates, dict):
        return {name: values[rows] for name, values in covariates.items()}
    return None if covariates is None else covariates[rows]


def as_corpus(
    data: Any,
    vocabulary: Sequence[str] | None = None,
    n_words: int | None = None,
    fractional: bool = False,
    tokeniser: Tokeniser | None = None,
) -> Corpus:
    """A corpus from a SciPy sparse matrix or an array of counts (documents × words), a path (`read_corpus`),
    lists of tokens (text, or word numbers from 0), lists of (word number, count) pairs, or texts (`read_texts`).

    The columns of a frame of counts name its words. With a `vocabulary`, tokens that are not in it are left out and
    counted in `unknown`; without one, text tokens make their own, in alphabetical order. Fractional counts are
    refused unless asked for. With a vocabulary `tokeniser` says how texts are read.
    """
    from .corpus_store import ShardedCorpus

    words = None if vocabulary is None else _as_vocabulary(vocabulary)
    if n_words is not None:
        check_vocabulary_size(n_words, "n_words: the corpus")
    if isinstance(data, Corpus | ShardedCorpus):
        corpus = data
    elif (texts := _as_texts(data)) is not None:
        corpus = _from_texts(texts, words, tokeniser)
    elif isinstance(data, str | Path):
        from .corpus_files import read_corpus

        corpus = read_corpus(data, vocabulary=words)
    elif hasattr(data, "tocsr"):
        corpus = _from_sparse(data, fractional)
    elif isinstance(data, list | tuple):
        corpus = _from_lists(data, words, n_words)
    else:
        from .arrays import as_matrix

        corpus = _from_dense(as_matrix(data), fractional)
        words = _headings(data) if words is None else words
    if isinstance(corpus, Corpus):  # shards on disk are checked as they are read
        check_corpus(corpus.starts, corpus.words, corpus.counts, corpus.n_words)
    corpus = _match_words(corpus, words, n_words)
    if len(corpus) < 1:
        raise InvalidData("a corpus must have at least one document, got none")
    if not fractional and isinstance(corpus, Corpus) and (broken := corpus.counts != np.trunc(corpus.counts)).any():
        value = corpus.counts[broken][0]
        raise InvalidData(f"counts must be whole numbers, found {value:g}; fractional=True accepts fractions")
    return corpus


def make_corpus(
    documents: np.ndarray, words: np.ndarray, counts: np.ndarray, shape: tuple[int, int], **fields: Any
) -> Corpus:
    """A corpus from (document, word, count) entries in any order; repeated entries are added up, zeros are dropped."""
    from scipy import sparse

    # SciPy would accept fractional counts, so counts must have been checked before.
    matrix = sparse.csr_matrix((counts, (documents, words)), shape=shape)
    return _from_csr(matrix, **fields)


def join_corpora(parts: Sequence[Corpus], n_words: int | None = None, vocabulary: Any = None) -> Corpus:
    """The documents of all corpora in one corpus, one corpus after the other."""
    offsets = np.cumsum([0, *(len(part.words) for part in parts)])
    starts = [part.starts[1:] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    return Corpus(
        starts=np.concatenate([np.zeros(1, np.int64), *starts]),
        words=np.concatenate([np.empty(0, np.int32), *(part.words for part in parts)]),
        counts=np.concatenate([np.empty(0, np.float32), *(part.counts for part in parts)]),
        n_words=n_words or max((part.n_words for part in parts), default=1),
        vocabulary=vocabulary,
    )


def check_counts(counts: np.ndarray, fractional: bool = False) -> np.ndarray:
    """Refuse counts that are negative, not finite or (unless asked for) fractional."""
    if counts.dtype.kind not in "iufb":
        raise InvalidData(f"counts must be numbers, got {counts.dtype}")
    if counts.dtype.kind == "f" and not np.isfinite(counts).all():
        raise InvalidData(f"counts must be finite, found {counts[~np.isfinite(counts)][0]}")
    if (counts < 0).any():
        raise InvalidData(f"counts must not be negative, found {counts[counts < 0][0]:g}")
    from ..families._pair import LARGEST_COUNT  # imports JAX

    if counts.size and counts.max() > LARGEST_COUNT:
        raise InvalidData(f"counts must be at most 2⁵³, beyond which floats skip numbers, found {counts.max():g}")
    if not fractional and counts.dtype.kind == "f" and (counts != np.round(counts)).any():
        value = counts[counts != np.round(counts)][0]
        raise InvalidData(f"counts must be whole numbers, found {value:g}; fractional=True accepts fractions")
    return counts


def _headings(frame: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, which are words, or None unless all columns have names."""
    names = tuple(getattr(frame, "columns", ()))
    named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return names if names and named else None


def _from_sparse(data: Any, fractional: bool) -> Corpus:
    if len(data.shape) != 2 or data.shape[1] < 1:
        raise InvalidData(f"a corpus must be a matrix of documents × words, got shape {data.shape}")
    check_sparse(data)
    check_vocabulary_size(data.shape[1])
    matrix = data.tocsr()
    check_counts(matrix.data, fractional)
    return _from_csr(matrix)


def _from_dense(array: np.ndarray, fractional: bool) -> Corpus:
    """A corpus from an array of counts, made without SciPy, whose import takes longer than a small fit."""
    check_vocabulary_size(array.shape[1])
    rows, words = np.nonzero(array)
    counts = check_counts(array[rows, words], fractional)
    starts = np.searchsorted(rows, np.arange(len(array) + 1))
    return _compact(starts, words, counts, array.shape[1])


def _from_csr(matrix: Any, **fields: Any) -> Corpus:
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return _compact(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1], **fields)


def _compact(starts: np.ndarray, words: np.ndarray, counts: np.ndarray, n_words: int, **fields: Any) -> Corpus:
    """A corpus whose counts have four bytes each if four hold them exactly."""
    whole = counts.dtype.kind != "f" or not (counts % 1).any()
    exact = whole and (len(counts) == 0 or counts.max() < 2**24)
    return Corpus(
        starts=starts.astype(np.int64),
        words=words.astype(np.int32),
        counts=counts.astype(np.float32 if exact else np.float64),
        n_words=n_words,
        **fields,
    )


def _from_lists(data: Sequence[Any], vocabulary: tuple[str, ...] | None, n_words: int | None) -> Corpus:
    documents = [_tokens(document, number) for number, document in enumerate(data)]
    kinds = {str if isinstance(token, str) else type(token) for document in documents for token in document}
    if kinds <= {str}:
        return _from_text(documents, vocabulary)
    if kinds == {tuple}:
        entries = [(d, *_pair(pair, d)) for d, document in enumerate(documents) for pair in document]
        rows, words, counts = (np.array(column) for column in zip(*entries, strict=True))
    elif all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        rows = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
        words = np.array([min(token, 2**62) for document in documents for token in document], dtype=np.int64)
        counts = np.ones(len(words))
    else:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidData(f"tokens must be all text, all word numbers or all (number, count) pairs, got {names}")
    if words.dtype.kind not in "iu":
        raise InvalidData(f"word numbers must be whole numbers, got {words.dtype}")
    if (words < 0).any():
        raise InvalidData(f"word numbers start from 0, found {words.min()}")
    size = n_words or (len(vocabulary) if vocabulary else int(words.max()) + 1)
    check_vocabulary_size(size)
    if words.max() >= size:
        raise InvalidData(f"word number {words.max()} is outside the vocabulary of {size} words")
    return make_corpus(rows, words, check_counts(counts, fractional=True), (len(documents), size))


def _as_texts(data: Any) -> Any:
    """The data, if they are texts to be read, or a matrix of counts with its words; else None."""
    from .text_sources import TABLES, has_text, looks_like_texts
    from .tokenise import is_missing

    if isinstance(data, str | Path):
        path = Path(data)
        texts = path.is_dir() or path.name.lower().removesuffix(".gz").endswith((*TABLES, ".txt"))
        return path if texts and path.exists() and looks_like_texts(path) else None
    if isinstance(data, list | tuple):
        vectorised = isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "tocsr")
        first = next((document for document in data if not is_missing(document)), None)
        return data if vectorised or isinstance(first, str) else None
    if isinstance(data, Iterator) or has_text(data):
        return data
    column = getattr(data, "ndim", 1) == 1 and hasattr(data, "dtype") and not hasattr(data, "columns")
    if column and len(data) and str(data.dtype).lower().startswith(("o", "str", "<u", "categ", "large_str", "utf")):
        return data
    return None


def _from_texts(data: Any, vocabulary: tuple[str, ...] | None, tokeniser: Tokeniser | None) -> Corpus:
    from .text_sources import open_texts
    from .texts import count_texts, read_texts

    if vocabulary is None or (isinstance(data, tuple) and hasattr(data[0], "tocsr")):
        return read_texts(data)
    return count_texts(open_texts(data).texts, vocabulary, tokeniser)


def _tokens(document: Any, number: int) -> list[Any]:
    if isinstance(document, str) or not isinstance(document, Iterable):
        raise InvalidData(f"document {number} must be a list of tokens (or all documents texts), got {document!r}")
    return document.tolist() if isinstance(document, np.ndarray) else list(document)


def _pair(pair: tuple[Any, ...], document: int) -> tuple[Any, Any]:
    if len(pair) != 2:
        raise InvalidData(f"document {document} must hold (word number, count) pairs, found {pair!r}")
    return pair[0], pair[1]


def _from_text(documents: list[list[str]], vocabulary: tuple[str, ...] | None) -> Corpus:
    if vocabulary is None:
        vocabulary = tuple(sorted({str(token) for document in documents for token in document}))
        if not vocabulary:
            raise InvalidData("no document has a token, so there is no vocabulary")
    number = {word: index for index, word in enumerate(vocabulary)}
    words = np.array([number.get(token, -1) for document in documents for token in document], dtype=np.int64)
    rows = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    known = words >= 0
    shape = (len(documents), len(vocabulary))
    unknown = int(np.sum(~known))
    counts = np.ones(int(known.sum()))
    return make_corpus(rows[known], words[known], counts, shape, vocabulary=vocabulary, unknown=unknown)


def _as_vocabulary(vocabulary: Sequence[str]) -> tuple[str, ...]:
    words = tuple(vocabulary)
    if isinstance(vocabulary, str) or not all(isinstance(word, str) for word in words):
        raise InvalidData("vocabulary must be a sequence of words, one text each")
    if len(set(words)) != len(words):
        seen: set[str] = set()
        twice = next(word for word in words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
        raise InvalidData(f"vocabulary must not repeat a word, found {twice!r} twice")
    return words


def _match_words(corpus: Any, vocabulary: tuple[str, ...] | None, n_words: int | None) -> Any:
    """The corpus over the vocabulary asked for."""
    size = n_words if vocabulary is None else len(vocabulary)
    if vocabulary is not None and n_words is not None and len(vocabulary) != n_words:
        raise InvalidData(f"vocabulary has {len(vocabulary)} words, but n_words is {n_words}")
    if size is not None and corpus.n_words > size:
        raise InvalidData(f"the corpus has {corpus.n_words} words, but the vocabulary has {size}")
    known = corpus.vocabulary
    if vocabulary is not None and known is not None and known != vocabulary:
        raise InvalidData("the corpus has a vocabulary of its own that differs from the one given")
    return dataclasses.replace(corpus, n_words=size or corpus.n_words, vocabulary=vocabulary or known)
