"""Tempered normalisers of linear Gaussian models with known noise: a tempered Gaussian integrates to the same whatever
its mean is, so that entries and latents count one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._data import Data
from .._normaliser import Normaliser, count, exact, gaussian_volumes, infinite

if TYPE_CHECKING:
    from .factor_analysis import FactorAnalysis
    from .state_space import StateSpace


def factors_normaliser(model: FactorAnalysis, temperatures: np.ndarray, data: Data) -> Normaliser:
    """Each entry given its scores, and the scores."""
    if "noise" in model.prior:
        raise infinite("noise")
    seen = np.asarray(data.weights) @ ~np.isnan(np.asarray(data.values))
    log_noise = np.log(np.asarray(model.noise))
    powers, n = 1.0 / temperatures, count(data)
    columns = seen.sum() * gaussian_volumes(powers, 1, 0.0) + 0.5 * (1.0 - powers) * (seen @ log_noise)
    return exact(columns + n * model.n_factors * gaussian_volumes(powers, 1, 0.0))


def states_normaliser(model: StateSpace, temperatures: np.ndarray, data: Data) -> Normaliser:
    """Each entry given its state, and each state given the one before."""
    if "noise" in model.prior or "state_noise" in model.prior:
        raise infinite("noise")
    weights, x, powers = np.asarray(data.weights), data.values, 1.0 / temperatures
    seen = np.tensordot(weights, (~np.isnan(np.asarray(x.x))).sum(axis=1), axes=1)
    firsts, steps = weights.sum(), weights @ (~np.isnan(np.asarray(x.real))).sum(axis=1)
    logs = seen @ np.log(np.asarray(model.noise)) + firsts * np.sum(np.log(np.asarray(model.start)))
    logs = logs + (steps - firsts) * np.sum(np.log(np.asarray(model.state_noise)))
    numbers = seen.sum() + steps * model.n_states
    return exact(numbers * gaussian_volumes(powers, 1, 0.0) + 0.5 * (1.0 - powers) * logs)
