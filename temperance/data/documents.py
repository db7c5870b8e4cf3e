"""Documents as compiled code sees them: padded arrays, or only the numbers of rows of a corpus on the host.

A callback copies its arguments, and padding wastes memory where lengths differ much. So where the local step runs
on the host, compiled code carries for each document one whole number that says which corpus it is in, and where.
"""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..errors import InvalidData
from . import Corpus, as_corpus

_PADDED = 64 << 20  # bytes up to which documents are padded even where the host does not need it
_SHIFT = 40  # bits of a document's number within its corpus

_corpora: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True, eq=False)
class Keep:
    """Keeps a corpus alive as long as arrays refer to it. All instances are equal, so that none causes a
    compilation."""

    corpus: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keep)

    def __hash__(self) -> int:
        return hash(Keep)


class Documents(eqx.Module):
    """Bags of words, with a leading axis of documents."""

    lengths: Float[Array, " n"]  # tokens of each document
    rows: Int[Array, " n"] | None  # where the documents are on the host
    words: Int[Array, "n width"] | None  # or the documents themselves, zero-padded at the end; or both
    counts: Float[Array, "n width"] | None  # counts of `words`
    width: int = eqx.field(static=True)
    keep: Keep = eqx.field(static=True, default=Keep(None))
    design: Float[Array, "n p"] | None = None  # coded covariates, if proportions depend on covariates

    def padded(self) -> tuple[Int[Array, "n width"], Float[Array, "n width"]]:
        """Words and counts, fetched from the host unless the arrays are here."""
        if self.words is not None and self.counts is not None:
            return self.words, self.counts.astype(jnp.float64)
        shape = (self.lengths.shape[0], self.width)
        shapes = (jax.ShapeDtypeStruct(shape, jnp.int32), jax.ShapeDtypeStruct(shape, jnp.float64))
        width = self.width
        return jax.pure_callback(lambda rows: _fetch(rows, width), shapes, self.rows, vmap_method="sequential")


def given_documents(words: Any, counts: Any) -> Documents:
    """Documents that are already padded."""
    lengths = jnp.sum(jnp.asarray(counts, dtype=jnp.float64), axis=1)
    return Documents(lengths, None, words, counts, words.shape[1])


def as_documents(corpus: Any, host: bool, width: int, padded: bool | None = None) -> Documents:
    """A corpus for compiled code, as host arrays; `padded` if the device needs the words themselves."""
    size = len(corpus)
    if padded is None:
        padded = not host or size * width * 8 <= _PADDED
    words, counts = pad(corpus, width) if padded else (None, None)
    rows = _register(corpus) + np.arange(size, dtype=np.int64) if host else None
    lengths: Any = corpus.lengths if counts is None else counts.sum(axis=1, dtype=np.float64)
    return Documents(lengths, rows, words, counts, width, Keep(corpus if host else None))  # type: ignore[arg-type]


def corpus_of(x: Documents, n: int, n_words: int) -> Corpus:
    """The corpus from which the first `n` documents of arrays were made, without padding."""
    if x.words is None or x.counts is None:
        corpus, rows = find_rows(np.asarray(x.rows)[:n])
        return corpus.take(rows)
    words, counts = np.asarray(x.words)[:n], np.asarray(x.counts)[:n]
    here = counts > 0
    rows = np.repeat(np.arange(n), here.sum(axis=1))
    from scipy import sparse

    return as_corpus(sparse.csr_array((counts[here], (rows, words[here])), shape=(n, n_words)), fractional=True)


def find_rows(rows: np.ndarray) -> tuple[Any, np.ndarray]:
    """The corpus of these rows, and their numbers in it."""
    number = int(rows[0]) >> _SHIFT
    corpus = _corpora.get(number)
    if corpus is None or (rows >> _SHIFT != number).any():
        raise InvalidData("the documents are no longer in memory (a fit that was loaded keeps no corpus)")
    return corpus, rows & ((1 << _SHIFT) - 1)


def _register(corpus: Any) -> int:
    for number, known in list(_corpora.items()):
        if known is corpus:
            return number << _SHIFT
    number = next(_numbers)
    _corpora[number] = corpus
    return number << _SHIFT


def pad(corpus: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents as rows of equal width."""
    corpus = corpus if isinstance(corpus, Corpus) else corpus.take(slice(None))
    words = np.zeros((len(corpus), max(1, width)), dtype=np.int32)
    counts = np.zeros(words.shape, dtype=corpus.counts.dtype)
    # The mask of each row is one run of true values, so it copies quickly.
    here = np.arange(words.shape[1])[None] < corpus.entries[:, None]
    words[here], counts[here] = corpus.words, corpus.counts
    return words, counts


def _fetch(rows: Array, width: int) -> tuple[np.ndarray, np.ndarray]:
    corpus, here = find_rows(np.asarray(rows))
    words, counts = pad(corpus.take(here), width)
    return words, counts.astype(np.float64)
