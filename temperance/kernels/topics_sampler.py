"""Collapsed Gibbs sampling of structural topics on the host: the topic of each token given all others, and log-linear
priors.

Proportions and topics are integrated out, as by Griffiths and Steyvers (2004): a token's topic has probability ∝ (n_dk
+ α_dk) (n_vk + η_vk) / (n_k + Σ η), and the counts of a document given α_d are Dirichlet-multinomial.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from ._host import OPTIONS, digamma
from .topics_entries import own

_FEW = 12  # largest count for which logarithms are summed


class Tokens(NamedTuple):
    """Documents (d has the tokens starts[d] : starts[d + 1]), the topic of each token, and counts of topics."""

    starts: np.ndarray
    words: np.ndarray
    topics: np.ndarray
    documents: np.ndarray  # (documents, topics): counts
    by_word: np.ndarray  # (words, topics)
    totals: np.ndarray  # (topics,)


def start_tokens(starts: np.ndarray, words: np.ndarray, theta: np.ndarray, by_word: np.ndarray, seed: int) -> Tokens:
    """Topics drawn given proportions (documents × topics) and topics (words × topics)."""
    n, k = theta.shape
    tokens = Tokens(
        starts, words, np.zeros(len(words), np.int32), np.zeros((n, k)), np.zeros(by_word.shape), np.zeros(k)
    )
    draws = np.random.default_rng(seed).random(len(words))
    _assign(tokens, *own(np.ascontiguousarray(theta), np.ascontiguousarray(by_word)), draws)
    return tokens


@njit(**OPTIONS)
def _assign(x, theta, by_word, draws):  # type: ignore[no-untyped-def]
    levels = np.empty(theta.shape[1])
    for d in range(len(theta)):
        for i in range(x.starts[d], x.starts[d + 1]):
            v, total = x.words[i], 0.0
            for k in range(len(levels)):
                total += theta[d, k] * by_word[v, k]
                levels[k] = total
            k = min(np.searchsorted(levels, draws[i] * total), len(levels) - 1)
            x.topics[i] = k
            x.documents[d, k] += 1.0
            x.by_word[v, k] += 1.0
            x.totals[k] += 1.0


@njit(**OPTIONS)
def sweep_tokens(x, alpha, eta, eta_total, draws):  # type: ignore[no-untyped-def]
    """Draw the topic of every token in turn; α is (documents, topics), η (words, topics) or (words, 1)."""
    n_topics, shared = alpha.shape[1], eta.shape[1] == 1
    levels, inverse = np.empty(n_topics), 1.0 / (x.totals + eta_total)
    for d in range(len(alpha)):
        here, prior = x.documents[d], alpha[d]
        for i in range(x.starts[d], x.starts[d + 1]):
            v, old = x.words[i], x.topics[i]
            there = x.by_word[v]
            here[old] -= 1.0
            there[old] -= 1.0
            x.totals[old] -= 1.0
            inverse[old] = 1.0 / (x.totals[old] + eta_total[old])
            total = 0.0
            for k in range(n_topics):
                total += (here[k] + prior[k]) * (there[k] + eta[v, 0 if shared else k]) * inverse[k]
                levels[k] = total
            at, new = draws[i] * total, 0
            while new < n_topics - 1 and levels[new] < at:
                new += 1
            x.topics[i] = new
            here[new] += 1.0
            there[new] += 1.0
            x.totals[new] += 1.0
            inverse[new] = 1.0 / (x.totals[new] + eta_total[new])


@njit(**OPTIONS)
def _rising(a, n):  # type: ignore[no-untyped-def]
    """log Γ(a + n) − log Γ(a), and the derivative of this in a."""
    if n == 0.0:
        return 0.0, 0.0
    if n <= _FEW:
        product, slope = 1.0, 0.0
        for j in range(int(n)):
            product *= a + j
            slope += 1.0 / (a + j)
        return math.log(product), slope
    return math.lgamma(a + n) - math.lgamma(a), digamma(a + n) - digamma(a)


@njit(**OPTIONS)
def counts_terms(design, alpha, rest, counts, lengths):  # type: ignore[no-untyped-def]
    """The log probability, up to a constant, of the documents' counts of some topics with priors `alpha` (topics,
    documents); its gradient in a common shift of these topics' coefficients; and the sum of squares of the documents'
    gradients, which estimates the information. `rest` is Σ α over the other topics.
    """
    p = design.shape[1]
    value, slope, information = 0.0, np.zeros(p), np.zeros((p, p))
    for d in range(len(design)):
        total, score = 0.0, 0.0
        for k in range(len(alpha)):
            up, up_slope = _rising(alpha[k, d], counts[k, d])
            value += up
            score += alpha[k, d] * up_slope
            total += alpha[k, d]
        down, down_slope = _rising(total + rest[d], lengths[d])
        value -= down
        score -= total * down_slope
        for j in range(p):
            slope[j] += score * design[d, j]
            for i in range(p):
                information[j, i] += score * score * design[d, j] * design[d, i]
    return value, slope, information
