"""The normaliser of a tempered joint, C(T) = ∫ p(θ) Π_n [Σ_z ∫ p(x, z | θ)^(1/T) dx] dθ, for variational tempering.

Exact where the integral over θ factorises, else by Monte Carlo (`sampled_normaliser.py`). A variance with a prior of
its own makes C infinite, because tempered tails add up without end.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, logsumexp

from ..errors import UnsupportedMethod
from ..families import Beta, Dirichlet, Gamma, KnownCovarianceGaussian
from ._data import Data
from .factorial import FactorialMixture
from .linear.factor_analysis import FactorAnalysis
from .linear.state_space import StateSpace
from .mixture.finite import Mixture
from .sampled_normaliser import sampled_logs
from .tempered_volume import infinite
from .topics.lda import LDA
from .topics.normaliser import Prior, log_normalisers

_SWEEPS, _MOST = 100, 1600  # of Gibbs sampling
_TOPICS, _MOST_TOPICS = 16, 64  # draws of topics, which are dearer, if there are many words
_STABLE = 0.02  # how far the implied temperature may move when the samples are halved


class Normaliser(NamedTuple):
    """log C at each temperature, its standard error (0 where it is exact), and the samples it took."""

    log: np.ndarray
    error: np.ndarray
    samples: int = 0


@singledispatch
def log_tempered_normaliser(model: Any, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    """log C(T) for as many data as these."""
    return by_sampling(model, temperatures, data, seed)


def by_sampling(model: Any, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    """Of any model with a volume, until the temperature that it implies is stable."""
    powers, sweeps = 1.0 / temperatures, _SWEEPS
    if len(powers) == 1:
        return _exact(np.zeros(1))
    while True:
        logs = sampled_logs(model, powers, data, seed, sweeps)
        chains = logs.shape[1]
        value, half = logs.mean(axis=1), logs[:, : chains // 2].mean(axis=1)
        apart = max(_shift(powers, value, half), _step(powers, value, half))
        if min(apart, _moved(powers, value, half)) <= _STABLE or sweeps >= _MOST:
            return Normaliser(value, logs.std(axis=1, ddof=1) / np.sqrt(chains), chains * sweeps)
        sweeps *= 4


@log_tempered_normaliser.register
def _(model: FactorialMixture, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    """Errata to eq. 22–24: (ND/2) [log T + (1 − 1/T) log 2πσ²] + N Σ_k log{π_k^(1/T) + (1 − π_k)^(1/T)}."""
    if isinstance(model.noise, Gamma) or model.noise is None:
        raise infinite("noise")
    n, d = _count(data), data.values.shape[1]
    powers = 1.0 / temperatures
    gaussian = _gaussian(powers, d, d * np.log(float(model.noise)))
    if model.probability is not None:
        p = np.asarray(model.probability)
        on = np.logaddexp(powers[:, None] * np.log(p), powers[:, None] * np.log1p(-p)).sum(axis=1)
        return _exact(n * (gaussian + on))
    prior = model.prior["probability"]
    assert isinstance(prior, Beta)
    # E(π^s + (1 − π)^s)^N by the binomial theorem; factors are independent.
    sums = np.array([_binomial(np.asarray(prior.a), np.asarray(prior.b), n, s) for s in powers])
    return _exact(n * gaussian + sums)


@log_tempered_normaliser.register
def _(model: FactorAnalysis, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    """Given θ and z a tempered x integrates to the same whatever they are, and then so does z."""
    if "noise" in model.prior:
        raise infinite("noise")
    seen = np.asarray(data.weights) @ ~np.isnan(np.asarray(data.values))
    log_noise = np.log(np.asarray(model.noise))
    powers, n = 1.0 / temperatures, _count(data)
    columns = seen.sum() * _gaussian(powers, 1, 0.0) + 0.5 * (1.0 - powers) * (seen @ log_noise)
    return _exact(columns + n * model.n_factors * _gaussian(powers, 1, 0.0))


@log_tempered_normaliser.register
def _(model: StateSpace, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    """As for factor analysis: each entry given its state, and each state given the one before."""
    if "noise" in model.prior or "state_noise" in model.prior:
        raise infinite("noise")
    weights, x, powers = np.asarray(data.weights), data.values, 1.0 / temperatures
    seen = np.tensordot(weights, (~np.isnan(np.asarray(x.x))).sum(axis=1), axes=1)
    firsts, steps = weights.sum(), weights @ (~np.isnan(np.asarray(x.real))).sum(axis=1)
    logs = seen @ np.log(np.asarray(model.noise)) + firsts * np.sum(np.log(np.asarray(model.start)))
    logs = logs + (steps - firsts) * np.sum(np.log(np.asarray(model.state_noise)))
    count = seen.sum() + steps * model.n_states
    return _exact(count * _gaussian(powers, 1, 0.0) + 0.5 * (1.0 - powers) * logs)


@log_tempered_normaliser.register
def _(model: Mixture, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    weights = model.prior.get("weights")
    if not isinstance(weights, Dirichlet):
        raise UnsupportedMethod("tp.VT needs weights with a Dirichlet prior; use tp.Annealed")
    powers, n, delta = 1.0 / temperatures, _count(data), np.asarray(weights.concentration)
    if isinstance(model.pair, KnownCovarianceGaussian) and not model.missing:
        covariance = np.atleast_2d(np.asarray(model.pair.covariance))
        gaussian = _gaussian(powers, len(covariance), np.linalg.slogdet(covariance)[1])
        return _exact(n * gaussian + np.array([_log_shares(delta, n, s) for s in powers]))
    return by_sampling(model, temperatures, data, seed)


@log_tempered_normaliser.register
def _(model: LDA, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
    if model.learn:
        raise UnsupportedMethod("tp.VT needs topics with fixed priors (learn=()); use tp.Annealed")
    powers = 1.0 / temperatures
    if len(powers) == 1:
        return _exact(np.zeros(1))
    eta = np.broadcast_to(np.asarray(model.eta), (model.n_topics if model.eta.ndim == 2 else 1, model.n_words or 1))
    prior = Prior(np.asarray(model.alpha), eta, np.asarray(data.values.lengths), np.asarray(data.weights))
    samples = _TOPICS
    most = _MOST_TOPICS if eta.shape[1] > 1000 else 4 * _MOST_TOPICS
    while True:
        logs = log_normalisers(prior, powers, samples, seed)
        (value, error), (half, _) = (_over_topics(part) for part in (logs, logs[:, : samples // 2]))
        # With few data the temperature is spread over the grid, with many it is a point between two of its entries.
        if min(_shift(powers, value, half), _moved(powers, value, half)) <= _STABLE or samples >= most:
            return Normaliser(value, error, samples)
        samples *= 4


def _over_topics(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log of the mean over draws, and its error. Many data make the mean that of the largest draw alone, which
    says nothing; then it is Jensen's bound, the mean of the logs."""
    samples = logs.shape[1]
    top = logsumexp(logs, axis=1)
    if np.exp(2.0 * top - logsumexp(2.0 * logs, axis=1)).min() < 0.25 * samples:
        return logs.mean(axis=1), logs.std(axis=1, ddof=1) / np.sqrt(samples)
    value = top - np.log(samples)
    return value, np.exp(logs - value[:, None]).std(axis=1) / np.sqrt(samples)


def _count(data: Data) -> int:
    return round(float(data.total_weight))


def _exact(log: np.ndarray) -> Normaliser:
    return Normaliser(log, np.zeros(len(log)))


def _gaussian(powers: np.ndarray, d: int, log_determinant: float) -> np.ndarray:
    """log ∫ N(x | μ, Σ)^s dx."""
    return 0.5 * ((1.0 - powers) * (d * np.log(2.0 * np.pi) + log_determinant) - d * np.log(powers))


def _binomial(a: np.ndarray, b: np.ndarray, n: int, power: float) -> float:
    """Σ_k log E(π_k^s + (1 − π_k)^s)^n under Beta(a_k, b_k)."""
    on = np.arange(n + 1)
    choose = gammaln(n + 1) - gammaln(on + 1) - gammaln(n - on + 1)
    moments = betaln(a[:, None] + power * on, b[:, None] + power * (n - on)) - betaln(a, b)[:, None]
    return float(logsumexp(choose + moments, axis=1).sum())


def _log_shares(delta: np.ndarray, n: int, power: float) -> float:
    """log E(Σ_k π_k^s)^n under Dirichlet(δ).

    By the multinomial theorem it is n! Γ(Σδ)/Γ(Σδ + sn) times the coefficient of xⁿ in Π_k Σ_i x^i Γ(δ_k + si) /
    (Γ(δ_k) i!). With x tilted so that the coefficients, read as distributions, have means that add up to n, it is
    the probability of a sum of independent counts, which a Fourier transform gives to full precision.
    """
    i = np.arange(n + 1)
    concentrations, times = np.unique(delta, return_counts=True)  # components that are alike are counted together
    terms = gammaln(concentrations[:, None] + power * i) - gammaln(concentrations)[:, None] - gammaln(i + 1)

    def tilted(log_x: float) -> tuple[np.ndarray, np.ndarray]:
        logits = terms + log_x * i
        top = logsumexp(logits, axis=1)
        return np.exp(logits - top[:, None]), top

    low, high = -50.0, 50.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if times @ (tilted(middle)[0] @ i) < n else (low, middle)
    shares, top = tilted(low)
    size = 1 << int(np.ceil(np.log2(len(delta) * n + 1)))
    product = np.prod(np.fft.rfft(shares, size, axis=1) ** times[:, None], axis=0)
    coefficient = np.log(np.fft.irfft(product, size)[n]) + times @ top - low * n
    return float(gammaln(n + 1) + gammaln(delta.sum()) - gammaln(delta.sum() + power * n) + coefficient)


def _moved(powers: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """The largest relative change of E[T], over energies for which each temperature in turn is the best."""
    energies = np.gradient(one, powers)

    def implied(log_c: np.ndarray) -> np.ndarray:
        logits = energies[:, None] * powers[None] - log_c[None]
        r = np.exp(logits - logsumexp(logits, axis=1)[:, None])
        return r @ (1.0 / powers)

    return float(np.max(np.abs(implied(other) / implied(one) - 1.0)))


def _shift(powers: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """The same for a best temperature between those of the grid: how far the slopes of log C are apart, by how fast
    they change."""
    if len(powers) < 3:
        return _moved(powers, one, other)
    slope = np.gradient(one, powers)
    moved = (np.gradient(other, powers) - slope) / np.gradient(slope, powers) / powers
    return float(np.max(np.abs(moved[1:-1])))


def _step(powers: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """How far from T = 1 a difference of log C to that at T = 1 can move a temperature that should be 1."""
    if len(powers) < 3:
        return 0.0
    curvature = np.gradient(np.gradient(one, powers), powers)[1]
    return float(np.sqrt(2.0 * np.max(np.abs(other - one)) / max(curvature, 1e-300)))
