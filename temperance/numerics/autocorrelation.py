"""Autocorrelation: how many independent draws a chain is worth, and whether chains agree.

Only what the estimators need, in NumPy; ArviZ, in `mixing.py`, gives the full tables.
"""

from __future__ import annotations

import numpy as np


def long_run_variance(series: np.ndarray) -> float:
    """The variance of the mean of a series (chains, draws), times the number of draws.

    Autocovariances are taken relative to the variance of all chains together, so that chains that disagree count
    as correlated, and summed by Geyer's initial monotone sequence: sums of neighbouring pairs are positive and
    decrease, so the sum stops where noise makes them negative.
    """
    series = np.atleast_2d(series)
    chains, draws = series.shape
    if draws < 4:
        return float(series.var())
    covariance = _autocovariance(series).mean(axis=0) * draws / (draws - 1)
    between = np.var(series.mean(axis=1), ddof=1) if chains > 1 else 0.0
    total = covariance[0] * (draws - 1) / draws + between
    if total == 0:
        return 0.0
    correlation = 1.0 - (covariance[0] - covariance) / total
    pairs = correlation[: draws - draws % 2].reshape(-1, 2).sum(axis=1)
    negative = np.nonzero(pairs <= 0)[0]
    pairs = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    # Draws that alternate can be worth more than independent ones, but not by more than this (as in Stan).
    time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(series.size))
    return float(total * time)


def _autocovariance(series: np.ndarray) -> np.ndarray:
    """The autocovariance of each row at every lag, by the fast Fourier transform."""
    draws = series.shape[-1]
    size = 2 ** int(np.ceil(np.log2(2 * draws)))
    spectrum = np.fft.rfft(series - series.mean(axis=-1, keepdims=True), size, axis=-1)
    return np.fft.irfft(np.abs(spectrum) ** 2, size, axis=-1)[..., :draws] / draws


def standard_error(series: np.ndarray) -> float:
    """The Monte Carlo error of the mean of a series (chains, draws), autocorrelation included."""
    series = np.atleast_2d(series)
    return float(np.sqrt(long_run_variance(series) / series.size))


def effective_size(series: np.ndarray) -> float:
    """The number of independent draws that would give the mean with the same precision."""
    series = np.atleast_2d(series)
    spread = long_run_variance(series)
    return float(series.size if spread == 0 else series.size * series.var() / spread)


def split_r_hat(series: np.ndarray) -> float:
    """Rank-normalised split R-hat of a series (chains, draws): 1 when the halves of all chains look alike."""
    series = np.atleast_2d(np.asarray(series))
    half = series.shape[1] // 2
    if half < 2:
        return np.inf
    halves = np.concatenate([series[:, :half], series[:, -half:]])
    if halves.min() == halves.max():
        return 1.0
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(folded)))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Each value's rank (ties share a rank) as a standard normal quantile."""
    from statistics import NormalDist

    quantile = NormalDist().inv_cdf
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - 0.5 * (counts - 1.0)
    scores = np.array([quantile(p) for p in ((rank - 0.375) / (values.size + 0.25)).tolist()])
    return scores[inverse].reshape(values.shape)


def _r_hat(values: np.ndarray) -> float:
    n = values.shape[1]
    within = values.var(axis=1, ddof=1).mean()
    between = n * values.mean(axis=1).var(ddof=1)
    if within == 0:
        return np.inf if between > 0 else 1.0  # constant chains, at different values or all at one value
    return float(np.sqrt((between / within + n - 1) / n))
