"""Collapsed updates of LDA (CVB0) for small corpora in NumPy: Numba would compile for longer than these fits run.

The equation is that of `topics_collapsed.py`. A pass refreshes one group of words after the other, all documents at
once, so its steps differ from those of the kernel, but the fixed points are the same; the start, and the fit of
documents given topics, reproduce the kernel's numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .topics_entries import GROUPS, STAGES, Ascent, Counts, Entries, Rows
from .topics_priors import document_prior, topic_prior

_ENTRIES, _NUMBERS = 2**14, 2**18  # most entries, and entries × topics: beyond them the kernels are faster by seconds
_WIDEST = 128  # most distinct words of a document in `fold_in`, which visits them one by one
_TINY = 1e-30  # keeps divisions finite


def is_small(entries: int, topics: int) -> bool:
    """Whether the plain engines finish before kernels would have been compiled."""
    return entries <= _ENTRIES and entries * topics <= _NUMBERS


class Sums(NamedTuple):
    """Sums of the rows of a table by their owners."""

    owners: np.ndarray  # without repetition
    places: np.ndarray  # of each row's owner among these
    factors: np.ndarray  # of the rows, (rows, 1)

    def add(self, totals: np.ndarray, rows: np.ndarray) -> None:
        """Add the rows times their factors to the totals of their owners, in place."""
        size = (len(self.owners), rows.shape[1])
        numbers = self.places[:, None] * size[1] + np.arange(size[1])
        found = np.bincount(numbers.ravel(), (self.factors * rows).ravel(), size[0] * size[1])
        totals[self.owners] += found.reshape(size).astype(totals.dtype)


def _sums(owners: np.ndarray, factors: np.ndarray) -> Sums:
    return Sums(*np.unique(owners, return_inverse=True), factors[:, None])


class Block(NamedTuple):
    """The entries of a group of words, in all documents."""

    places: np.ndarray  # of these entries among all entries
    documents: np.ndarray
    words: np.ndarray
    weights: np.ndarray  # of the entries' documents, (entries, 1)
    tokens: np.ndarray  # counts times weights
    to_documents: Sums  # of tokens
    to_words: Sums  # of weighted tokens


def owners(x: Entries) -> np.ndarray:
    """The document of each entry."""
    sizes = (x.bounds[:, :, 1] - x.bounds[:, :, 0]).ravel()
    places = np.repeat(x.bounds[:, :, 0].ravel(), sizes) + _within(sizes)
    found = np.empty(len(x.words), dtype=np.int64)
    found[places] = np.repeat(np.arange(len(x.weights)), sizes.reshape(len(x.weights), -1).sum(axis=1))
    return found


def _within(sizes: np.ndarray) -> np.ndarray:
    """0, 1, …, size − 1 for each of these runs, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def blocks(x: Entries) -> list[Block]:
    """The blocks of all groups of words that occur."""
    owner = owners(x)
    found = []
    for group in range(GROUPS):
        places = np.flatnonzero(x.words % GROUPS == group)
        if len(places):
            documents, words, counts = owner[places], x.words[places], x.counts[places]
            weights = x.weights[documents]
            tokens, sums = counts * weights, (_sums(documents, counts), _sums(words, counts * weights))
            found.append(Block(places, documents, words, weights[:, None], tokens, *sums))
    return found


def count(x: Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray, parts: list[Block] | None = None) -> Counts:
    """Recompute all sums; η is (1 or topics, words), and `parts` are the blocks of x, if they are at hand."""
    documents = np.zeros((len(x.weights), len(alpha)), dtype=phi.dtype) + alpha.astype(phi.dtype)
    words = np.zeros((eta.shape[1], len(alpha)), dtype=phi.dtype)
    for block in blocks(x) if parts is None else parts:
        block.to_documents.add(documents, phi[block.places])
        block.to_words.add(words, phi[block.places])
    return Counts(documents, words, words.sum(axis=0, dtype=np.float64) + eta.sum(axis=1))


def collapsed_pass(parts: list[Block], phi: list[np.ndarray], sums: Counts, prior: np.ndarray, scored: bool) -> float:
    """Refresh every φ and the counts in place; returns Σ log p(token | all other tokens) if it is asked for."""
    score = 0.0
    for i, block in enumerate(parts):
        row, own = phi[i], block.weights * phi[i]
        here = sums.documents[block.documents]
        total = here.sum(axis=1) - 1.0
        there = np.maximum(sums.words[block.words] - own, 0.0) + prior[block.words]
        value = np.maximum(here - row, 0.0) * there / (sums.topics.astype(phi[i].dtype) - own)
        norm = value.sum(axis=1)
        phi[i] = value / np.maximum(norm, _TINY)[:, None]
        change = phi[i] - row
        block.to_documents.add(sums.documents, change)
        block.to_words.add(sums.words, change)
        sums.topics[:] += block.tokens @ change
        if scored:
            score += float(block.tokens @ np.log(np.maximum(norm, _TINY) / total))
    return score


def take_passes(
    learn: tuple[str, ...], x: Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray, passes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """φ, α and η after this many passes, and the score of the last pass."""
    parts, prior, value = blocks(x), np.ascontiguousarray(eta.T, dtype=phi.dtype), 0.0
    pieces, sums = [phi[block.places] for block in parts], count(x, phi, alpha, eta, parts)
    for remaining in reversed(range(passes)):
        value = collapsed_pass(parts, pieces, sums, prior, remaining == 0)
    fresh = np.empty_like(phi)
    for block, piece in zip(parts, pieces, strict=True):
        fresh[block.places] = piece
    if "topic_prior" in learn:
        none = np.zeros(sums.words.shape)
        for block, piece in zip(parts, pieces, strict=True):
            block.to_words.add(none, np.log1p(-np.minimum(piece, 1.0 - 1e-12)))
        eta = np.full_like(eta, topic_prior(sums.words, -np.expm1(none), float(eta[0, 0])))
    if "document_prior" in learn:
        none = np.zeros(sums.documents.shape)
        for block, piece in zip(parts, pieces, strict=True):
            block.to_documents.add(none, np.log1p(-np.minimum(piece, 1.0 - 1e-12)))
        alpha = document_prior(sums.documents, -np.expm1(none), x.weights, alpha)
    return fresh, alpha, eta, value


# ---- the start ---------------------------------------------------------------------------------------------------


def add_documents(x: Entries, alpha: np.ndarray, eta: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Responsibilities (entries × topics): `topics_start.add_documents`."""
    n, kind = len(x.weights), x.counts.dtype
    prior = np.broadcast_to(np.ascontiguousarray(eta.T, dtype=kind), (eta.shape[1], len(alpha)))
    phi = np.zeros((len(x.words), len(alpha)), dtype=kind)
    documents = np.tile(alpha.astype(kind), (n, 1))
    counts = Counts(documents, np.zeros(prior.shape, dtype=kind), prior.sum(axis=0, dtype=np.float64))
    entries = [np.concatenate([np.arange(*run) for run in runs]) for runs in x.bounds]
    added = 0
    for part, times in STAGES:
        last = n // part
        for d in range(added, last):
            _visit(d, entries[d], True, x, phi, counts, prior, draws)
        for _ in range(times):
            for d in range(last):
                _visit(d, entries[d], False, x, phi, counts, prior, draws)
        added = last
    return phi


def _visit(
    d: int, entries: np.ndarray, new: bool, x: Entries, phi: np.ndarray, sums: Counts, prior: np.ndarray,
    draws: np.ndarray,
) -> None:  # fmt: skip
    """Refresh document d, all tokens of an entry at once; a `new` document is added to the counts first."""
    here, weight, totals = sums.documents[d], x.weights[d], sums.topics
    before, words, counts, own = here.copy(), x.words[entries], x.counts[entries, None], prior[x.words[entries]]
    # The words of a document differ, so that only `here` and the document's own φ change from entry to entry.
    if new:
        added = np.zeros((len(entries), len(here)), dtype=phi.dtype)
        for row, there, n, draw in zip(added, sums.words[words] + own, counts[:, 0], draws[entries], strict=True):
            levels = np.cumsum(here * there / totals)
            k = int(np.searchsorted(levels[:-1], draw * levels[-1]))
            row[k] = 1.0
            here[k] += n
        phi[entries] = added
        sums.words[words] += weight * counts * added
    totals = sums.topics + weight * (here - before)
    mine = counts * phi[entries]
    there = np.maximum(sums.words[words] - weight * mine, 0.0) + own
    fresh, rest = np.empty_like(mine), totals - weight * mine
    for i, (row, factor, divisor, n) in enumerate(zip(mine, there, rest, counts[:, 0], strict=True)):
        value = np.maximum(here - row, 0.0) * factor / divisor
        fresh[i] = value / max(float(value.sum()), _TINY)
        here += n * fresh[i] - row
    phi[entries] = fresh
    sums.words[words] += weight * (counts * fresh - mine)
    sums.topics[:] += weight * (here - before)


# ---- documents whose topics are given ----------------------------------------------------------------------------


def folds_in(rows: Rows, topics: int) -> bool:
    """Whether `fold_in` of this module finishes before the kernel would have been compiled."""
    sizes = rows.ends - rows.starts
    return is_small(int(sizes.sum()), topics) and int(sizes.max(initial=0)) <= _WIDEST


def fold_in(rows: Rows, by_word: np.ndarray, ascent: Ascent) -> np.ndarray:
    """The counts of `topics_collapsed.fold_in`, α included, (documents × topics); the j-th words of all documents are
    visited together."""
    sizes = rows.ends - rows.starts
    if not sizes.any():
        return np.tile(ascent.prior, (len(sizes), 1))
    width = int(sizes.max(initial=1))
    inside = np.arange(width) < sizes[:, None]
    places = np.where(inside, rows.starts[:, None] + np.arange(width), 0)
    counts = np.where(inside, rows.counts[places], 0.0)[..., None]
    there = by_word[rows.words[places]]
    phi = there / (there.sum(axis=2, keepdims=True) + _TINY)
    found = ascent.prior + (counts * phi).sum(axis=1)
    going = np.arange(len(sizes))
    for _ in range(ascent.steps):
        change = np.zeros(len(going))
        here = found[going]
        for j in range(int(sizes[going].max(initial=0))):
            row = phi[going, j]
            value = np.maximum(here - row, 0.0) * there[going, j]
            value /= value.sum(axis=1, keepdims=True) + _TINY
            moved = counts[going, j] * (value - row)
            phi[going, j] = value
            here += moved
            change += np.abs(moved).sum(axis=1)
        found[going] = here
        going = going[change > ascent.tolerance * by_word.shape[1]]
        if not len(going):
            break
    return found
