"""Collapsed updates of LDA (CVB0) for small corpora in NumPy: Numba would compile for longer than these fits run.

The equation is that of `topics_collapsed.py`. A pass refreshes one group of words after the other, all documents at
once, so its steps differ from those of the kernel, but the fixed points are the same; the start, and the fit of
documents given topics, reproduce the kernel's numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .topics_entries import GROUPS, STAGES, Ascent, Counts, Entries, Rows
from .topics_priors import document_prior, topic_prior

_ENTRIES, _NUMBERS = 2**14, 2**18  # most entries, and entries × topics: beyond them the kernels are faster by seconds
_WIDEST = 128  # most distinct words of a document in `fold_in`, which visits them one by one
_TINY = 1e-30  # keeps divisions finite


def is_small(entries: int, topics: int) -> bool:
    """Whether the plain engines finish before kernels would have been compiled."""
    return entries <= _ENTRIES and entries * topics <= _NUMBERS


class Block(NamedTuple):
    """The entries of a group of words, in all documents."""

    places: np.ndarray  # of these entries among all entries
    documents: np.ndarray
    words: np.ndarray
    weights: np.ndarray  # of the entries' documents, (entries, 1)
    tokens: np.ndarray  # counts times weights
    to_documents: Any  # sparse (documents, entries), sums of tokens
    to_words: Any  # sparse (words, entries), sums of weighted tokens


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


def blocks(x: Entries, n_words: int) -> list[Block]:
    """The blocks of all groups of words that occur."""
    from scipy import sparse  # slow to import, and not needed for other models

    owner = owners(x)
    found = []
    for group in range(GROUPS):
        places = np.flatnonzero(x.words % GROUPS == group)
        if len(places):
            documents, words, counts = owner[places], x.words[places], x.counts[places]
            weights, columns = x.weights[documents], np.arange(len(places))
            to_documents = sparse.csr_array((counts, (documents, columns)), shape=(len(x.weights), len(places)))
            to_words = sparse.csr_array((counts * weights, (words, columns)), shape=(n_words, len(places)))
            one = Block(places, documents, words, weights[:, None], counts * weights, to_documents, to_words)
            found.append(one)
    return found


def count(x: Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray) -> Counts:
    """Recompute all sums; η is (1 or topics, words)."""
    documents = np.zeros((len(x.weights), len(alpha)), dtype=phi.dtype) + alpha.astype(phi.dtype)
    words = np.zeros((eta.shape[1], len(alpha)), dtype=phi.dtype)
    for block in blocks(x, len(words)):
        documents += block.to_documents @ phi[block.places]
        words += block.to_words @ phi[block.places]
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
        sums.documents[:] += block.to_documents @ change
        sums.words[:] += block.to_words @ change
        sums.topics[:] += block.tokens @ change
        if scored:
            score += float(block.tokens @ np.log(np.maximum(norm, _TINY) / total))
    return score


def take_passes(
    learn: tuple[str, ...], x: Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray, passes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """φ, α and η after this many passes, and the score of the last pass."""
    parts, prior = blocks(x, eta.shape[1]), np.ascontiguousarray(eta.T, dtype=phi.dtype)
    pieces, sums, value = [phi[block.places] for block in parts], count(x, phi, alpha, eta), 0.0
    for remaining in reversed(range(passes)):
        value = collapsed_pass(parts, pieces, sums, prior, remaining == 0)
    fresh = np.empty_like(phi)
    for block, piece in zip(parts, pieces, strict=True):
        fresh[block.places] = piece
    if "topic_prior" in learn:
        none = np.zeros(sums.words.shape)
        for block, piece in zip(parts, pieces, strict=True):
            none += block.to_words @ np.log1p(-np.minimum(piece, 1.0 - 1e-12))
        eta = np.full_like(eta, topic_prior(sums.words, -np.expm1(none), float(eta[0, 0])))
    if "document_prior" in learn:
        none = np.zeros(sums.documents.shape)
        for block, piece in zip(parts, pieces, strict=True):
            none += block.to_documents @ np.log1p(-np.minimum(piece, 1.0 - 1e-12))
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
    entries = [np.concatenate([np.arange(*run) for run in runs]).tolist() for runs in x.bounds]
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
    d: int, entries: list[int], new: bool, x: Entries, phi: np.ndarray, sums: Counts, prior: np.ndarray,
    draws: np.ndarray,
) -> None:  # fmt: skip
    """Refresh document d, all tokens of an entry at once; a `new` document is added to the counts first."""
    here, weight, totals = sums.documents[d], x.weights[d], sums.topics
    before = here.copy()
    for i in entries if new else ():
        v, n = x.words[i], x.counts[i]
        levels = np.cumsum(here * (sums.words[v] + prior[v]) / totals)
        k = int(np.searchsorted(levels[:-1], draws[i] * levels[-1]))
        phi[i, k] = 1.0
        here[k] += n
        sums.words[v, k] += weight * n
    totals = sums.topics + weight * (here - before)
    for i in entries:
        v, n, row = x.words[i], x.counts[i], phi[i]
        mine = n * row
        own = weight * mine
        value = np.maximum(here - mine, 0.0) * (np.maximum(sums.words[v] - own, 0.0) + prior[v]) / (totals - own)
        phi[i] = value / max(float(value.sum()), _TINY)
        change = n * phi[i] - mine
        here += change
        sums.words[v] += weight * change
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
