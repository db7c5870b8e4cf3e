"""What a ladder of tempered draws measures, and the form every estimate of the log evidence takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numerics.autocorrelation import standard_error


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
    return Estimate(float(value), standard_error(influence))


def combine(estimates: list[Estimate]) -> Estimate:
    """The average over independent ensembles; where there are four or more, their spread counts too."""
    values = np.array([estimate.log_evidence for estimate in estimates])
    errors = np.array([estimate.standard_error for estimate in estimates])
    n = len(values)
    error = np.sqrt(np.sum(errors**2)) / n
    if n >= 4:
        error = max(error, values.std(ddof=1) / np.sqrt(n))
    return Estimate(float(values.mean()), float(error))
