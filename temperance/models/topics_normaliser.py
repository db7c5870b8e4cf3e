"""The normaliser of tempered topics, with the tokens' topics summed out (Mandt et al., 2016, eq. 18):

    C(T) = E_β Π_d E_θ (Σ_v (Σ_k θ_k β_kv)^(1/T))^(N_d)

by Monte Carlo, the same draws at every temperature. Topics are drawn from their prior. A power N_d over proportions
is led by the few that mix many topics, which a sparse prior hardly ever gives; so proportions are drawn from Dirichlet
distributions of several concentrations, and weighted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, logsumexp

_PROPORTIONS = 256  # draws for each draw of the topics
_LEVELS = 8  # of concentration
_LENGTHS = 32  # of documents; between them log E f^N, smooth and convex in N, is interpolated
_NODES = 24  # powers at which C is worked out; between them log C is smooth
_ENTRIES = 2**18  # proportions × words at a time: they stay in the cache
_SMALL = 2000  # words; with more, single precision is enough


class Prior(NamedTuple):
    """What C depends on."""

    documents: np.ndarray  # α, (topics,)
    topics: np.ndarray  # η, (1 or topics, words)
    lengths: np.ndarray  # of each document
    weights: np.ndarray  # how many documents each stands for


def log_normalisers(prior: Prior, powers: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Σ_d log E_θ(…)^(N_d) for each power and each of `samples` draws of the topics."""
    nodes = powers if len(powers) <= _NODES else np.linspace(powers.min(), powers.max(), _NODES)
    rng = np.random.default_rng(seed)
    logs = np.stack([_given_topics(prior, nodes, rng) for _ in range(samples)], axis=1)
    return logs if nodes is powers else CubicSpline(nodes, logs)(powers)


def _given_topics(prior: Prior, powers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n_words = prior.topics.shape[1]
    topics = np.exp(_log_dirichlet(rng, np.broadcast_to(prior.topics, (len(prior.documents), n_words))))
    log_theta, log_weights = _proportions(prior.documents, rng)
    kind = np.float64 if n_words <= _SMALL else np.float32
    theta, topics = np.exp(log_theta).astype(kind), topics.astype(kind)
    log_sums = np.empty((len(powers), len(log_theta)))
    rows = max(16, _ENTRIES // n_words)
    for start in range(0, len(log_theta), rows):
        part = slice(start, start + rows)
        mixed = np.maximum(theta[part] @ topics, np.finfo(kind).tiny)
        log_sums[:, part] = np.log(_power_sums(mixed, powers))
    # At T = 1 every sum is one.
    log_sums[powers == 1.0] = 0.0
    lengths, weights = _few_lengths(prior.lengths, prior.weights)
    normal = logsumexp(log_weights)
    return np.array([weights @ (logsumexp(lengths[:, None] * row + log_weights, axis=1) - normal) for row in log_sums])


def _power_sums(mixed: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Σ_v mixed_v^s for each power; at equal distances by multiplication."""
    logs = np.log(mixed)
    if len(powers) < _NODES:
        return np.stack([np.exp(mixed.dtype.type(power) * logs).sum(axis=1) for power in powers])
    current = np.exp(mixed.dtype.type(powers[0]) * logs)
    ratio = np.exp(mixed.dtype.type(powers[1] - powers[0]) * logs)
    sums = [current.sum(axis=1)]
    for _ in powers[1:]:
        current *= ratio
        sums.append(current.sum(axis=1))
    return np.stack(sums)


def _proportions(alpha: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """log θ under Dirichlet distributions from the prior to about the flat one, and log weights of the draws."""
    factors = np.geomspace(1.0, max(1.0, 2.0 / alpha.mean()), _LEVELS)
    each = _PROPORTIONS // _LEVELS
    log_theta = np.concatenate([_log_dirichlet(rng, np.tile(factor * alpha, (each, 1))) for factor in factors])

    def log_density(factor: float) -> np.ndarray:  # without Π 1/θ, which cancels
        here = factor * alpha
        return log_theta @ here + gammaln(here.sum()) - gammaln(here).sum()

    drawn = logsumexp([log_density(factor) for factor in factors], axis=0) - np.log(_LEVELS)
    return log_theta, log_density(1.0) - drawn


def _log_dirichlet(rng: np.random.Generator, concentration: np.ndarray) -> np.ndarray:
    """Logarithms of draws, one a row: a small concentration gives numbers that are too small for their own."""
    log_gamma = np.log(rng.gamma(concentration + 1.0)) - rng.exponential(size=concentration.shape) / concentration
    return log_gamma - logsumexp(log_gamma, axis=1, keepdims=True)


def _few_lengths(lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `_LENGTHS` lengths with weights, such that sums of functions linear between them are the same."""
    values, place = np.unique(lengths, return_inverse=True)
    counts = np.bincount(place, weights)
    if len(values) <= _LENGTHS:
        return values, counts
    nodes = np.unique(np.quantile(lengths, np.linspace(0.0, 1.0, _LENGTHS)))
    above = np.clip(np.searchsorted(nodes, values), 1, len(nodes) - 1)
    share = (values - nodes[above - 1]) / (nodes[above] - nodes[above - 1])
    found = np.bincount(above, counts * share, len(nodes)) + np.bincount(above - 1, counts * (1.0 - share), len(nodes))
    return nodes, found
