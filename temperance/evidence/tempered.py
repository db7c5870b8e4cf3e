"""What a ladder of tempered draws measures, and the form every estimate of the log evidence takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numerics.autocorrelation import standard_error

BATCHES = 8  # long ones, whose spread shows slow modes that autocorrelations at short lags do not


class Tempered(NamedTuple):
    """Energies of the states at every temperature of one ladder, sweep by sweep.

    With U(θ, β) the log of the tempered density (see `inference/monte_carlo/path.py`), `forward` is
    U(θ, β_{k+1}) − U(θ, β_k) at a state of temperature k, `backward` the same difference at a state of temperature
    k + 1, and `slopes` is dU/dβ at a state of temperature k.
    """

    betas: np.ndarray  # (k,)
    forward: np.ndarray  # (draw, k − 1)
    backward: np.ndarray  # (draw, k − 1)
    slopes: np.ndarray  # (draw, k)
    log_start: float = 0.0  # log Z(0)


class Estimate(NamedTuple):
    """An estimate of the log evidence and its standard error."""

    log_evidence: float
    standard_error: float


def linearised(value: float, influence: np.ndarray) -> Estimate:
    """An estimate whose error is, to first order, the mean of `influence` (draw,) over the draws.

    States at neighbouring temperatures are swapped, and each is used on both sides: adding the influence of all
    temperatures sweep by sweep first, and only then taking the autocorrelated variance, keeps those covariances.
    """
    return Estimate(float(value), max(standard_error(influence), _of_batches(influence)))


def _of_batches(series: np.ndarray) -> float:
    """The error of the mean, from the spread of the means of a few long batches."""
    size = len(series) // BATCHES
    if size < 2:
        return 0.0
    means = series[: BATCHES * size].reshape(BATCHES, size).mean(axis=1)
    return float(means.std(ddof=1) / np.sqrt(BATCHES))


def few(estimate: Estimate, pieces: int) -> Estimate:
    """The same with an error that covers 95% within 1.96 of it, although a few independent pieces measured it."""
    from scipy.special import ndtri, stdtrit  # of scipy.stats the import alone takes half a second

    factor = stdtrit(max(pieces - 1, 1), 0.975) / ndtri(0.975)
    return Estimate(estimate.log_evidence, float(factor * estimate.standard_error))


def combine(estimates: list[Estimate]) -> Estimate:
    """The average over independent ensembles; their spread counts too."""
    values = np.array([estimate.log_evidence for estimate in estimates])
    errors = np.array([estimate.standard_error for estimate in estimates])
    n = len(values)
    error = np.sqrt(np.sum(errors**2)) / n
    if n > 1:
        error = max(error, values.std(ddof=1) / np.sqrt(n))
    return Estimate(float(values.mean()), float(error))
