"""The measurements of a ladder of tempered draws, and the form of every estimate of the log evidence."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..numerics.autocorrelation import standard_error

NORMAL = 1.959963984540054  # the 97.5% quantile of a normal distribution
BATCHES = 8  # long batches, whose spread reveals slow modes that autocorrelations at short lags miss


class Tempered(NamedTuple):
    """Energies of the states at every temperature of one ladder, sweep by sweep.

    With U(θ, β) the log of the tempered density (see `inference/monte_carlo/path.py`), `forward` is U(θ, β_{k+1}) −
    U(θ, β_k) at a state of temperature k, `backward` is this difference at a state of temperature k + 1, and `slopes`
    is dU/dβ at a state of temperature k.
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
    """The estimate with its error widened so that ±1.96 errors cover 95%, although the error comes from few independent
    pieces."""
    return Estimate(estimate.log_evidence, student(max(int(pieces) - 1, 1)) / NORMAL * estimate.standard_error)


def spread_of(values: Sequence[float]) -> float:
    """The standard error of the average of a few independent estimates, from their spread; 0 for a single one."""
    n = len(values)
    if n < 2:
        return 0.0
    return few(Estimate(0.0, float(np.std(values, ddof=1) / np.sqrt(n))), n).standard_error


@functools.cache
def student(dof: int) -> float:
    """The 97.5% quantile of Student's t: by its expansion around the normal quantile, or by bisection of the finite sum
    for P(|T| < t) with θ = arctan(t/√ν) (Abramowitz and Stegun, 26.7.3 to 26.7.5); SciPy's takes longer to import than
    a small fit."""
    z = NORMAL
    if dof > 2000:
        first, second = (z**3 + z) / 4.0, (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
        third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
        return z + first / dof + second / dof**2 + third / dof**3
    odd = dof % 2
    k = np.arange(1, (dof - odd) // 2)
    coefficients = np.concatenate([[1.0], np.cumprod((2 * k - 1 + odd) / (2 * k + odd))]) * (dof > 1)
    low, high = 0.0, math.pi / 2
    while (angle := 0.5 * (low + high)) not in (low, high):
        tail = math.sin(angle) * float(coefficients @ math.cos(angle) ** (2 * np.arange(len(coefficients)) + odd))
        inside = 2.0 / math.pi * (angle + tail) if odd else tail
        low, high = (angle, high) if inside < 0.95 else (low, angle)
    return math.sqrt(dof) * math.tan(low)


def combine(estimates: list[Estimate]) -> Estimate:
    """The average of estimates from independent ensembles; its error accounts for their spread."""
    values = np.array([estimate.log_evidence for estimate in estimates])
    errors = np.array([estimate.standard_error for estimate in estimates])
    n = len(values)
    error = np.sqrt(np.sum(errors**2)) / n
    if n > 1:
        error = max(error, values.std(ddof=1) / np.sqrt(n))
    return Estimate(float(values.mean()), float(error))
