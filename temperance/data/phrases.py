"""Phrases: pairs of neighbouring words that occur together far more often than chance would have them.

The measure is the normalised pointwise mutual information (Bouma, 2009), log[p(a,b) / p(a)p(b)] / −log p(a,b):
0 for independent words, 1 for words that only occur together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEAST_NPMI = 0.5


def find_phrases(pieces: Sequence[Any], n_words: int, least: int) -> list[tuple[int, int]]:
    """The pairs of words that occur at least `least` times side by side, with an NPMI of at least a half."""
    alone = np.zeros(n_words, dtype=np.int64)
    for _, tokens in pieces:
        alone += np.bincount(tokens[tokens >= 0], minlength=n_words)
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    for lengths, tokens in pieces:
        common = np.where((tokens >= 0) & (alone[np.maximum(tokens, 0)] >= least), tokens, -1)
        pairs = _pairs(lengths, common, n_words)
        met, again = np.unique(pairs[pairs >= 0], return_counts=True)
        keys, places = np.unique(np.concatenate([keys, met]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, again]), minlength=len(keys)).astype(np.int64)
    keys, counts = keys[counts >= least], counts[counts >= least]
    total = float(sum(len(tokens) for _, tokens in pieces))
    share = counts / total
    chance = (alone[keys // n_words] / total) * (alone[keys % n_words] / total)
    chosen = keys[np.log(share / chance) >= LEAST_NPMI * -np.log(share)]
    return [(int(key // n_words), int(key % n_words)) for key in chosen]


def merge_phrases(
    lengths: np.ndarray, tokens: np.ndarray, phrases: Mapping[tuple[int, int], int], n_words: int
) -> tuple[np.ndarray, np.ndarray]:
    """The documents with each phrase as one token; of overlapping pairs the first becomes a phrase."""
    if not phrases or not len(tokens):
        return lengths, tokens
    keys = np.array([a * n_words + b for a, b in phrases], dtype=np.int64)
    order = np.argsort(keys)
    keys, numbers = keys[order], np.array(list(phrases.values()), dtype=np.int32)[order]
    pairs = _pairs(lengths, tokens, n_words)
    where = np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)
    found = np.flatnonzero(keys[where] == pairs)
    # In a run of overlapping pairs, the first, the third, …
    begins = np.maximum.accumulate(np.where(np.diff(found, prepend=-2) > 1, np.arange(len(found)), 0))
    first = found[(np.arange(len(found)) - begins) % 2 == 0]
    merged = tokens.copy()
    merged[first] = numbers[where[first]]
    document = np.searchsorted(np.cumsum(lengths), first, side="right")
    return lengths - np.bincount(document, minlength=len(lengths)), np.delete(merged, first + 1)


def _pairs(lengths: np.ndarray, tokens: np.ndarray, n_words: int) -> np.ndarray:
    """For each token a number of the pair that it forms with the next token of its document; -1 if either is left
    out."""
    pairs = np.full(len(tokens), -1, dtype=np.int64)
    both = (tokens[:-1] >= 0) & (tokens[1:] >= 0)
    ends = np.cumsum(lengths)
    both[ends[(ends > 0) & (ends < len(tokens))] - 1] = False
    pairs[:-1] = np.where(both, tokens[:-1].astype(np.int64) * n_words + tokens[1:], -1)
    return pairs
