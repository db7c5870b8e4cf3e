"""All temperatures at once (MBAR; Shirts and Chodera, 2008), from the energies of every draw at every temperature.

A draw of any temperature is one of the mixture Σ_l p_l/K, so that

    log Z_l = log Σ_{k,i} exp U_l(θ_ki) / Σ_m exp{U_m(θ_ki) − log Z_m}    (as many draws at each temperature)

whose solution has the least variance that the draws allow. Bennett's ratio is the case of two temperatures.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from .tempered import Estimate, linearised

_TOLERANCE = 1e-9


def multistate(energies: np.ndarray, log_start: float = 0.0) -> Estimate:
    """log p(x) from `energies` (draw, k, l): U(θ, β_l) of the state of temperature k, with its standard error."""
    draws, size, _ = energies.shape
    values = energies.reshape((draws * size, size))
    log_z = solve(values)
    shares = _shares(values, log_z)  # W: the posterior of the temperature, given the draw
    # The estimate solves Σ (W_l − 1/K) = 0; its error is, to first order, −J⁻¹ times the average of that.
    gap = shares.reshape((draws, size, size)).mean(axis=1) - 1.0 / size
    matrix = _curvature(shares) / len(values)
    influence = np.zeros((draws, size))
    influence[:, 1:] = np.linalg.lstsq(matrix[1:, 1:], gap[:, 1:].T, rcond=1e-12)[0].T  # log Z_0 is known
    return linearised(log_start + log_z[-1] - log_z[0], influence[:, -1])


def solve(values: np.ndarray) -> np.ndarray:
    """log Z of every temperature, the first zero, from (draw, l): Newton's steps on a convex function, halved until
    it falls, from a few rounds of the fixed point."""
    log_z = values.mean(axis=0)
    log_z = log_z - log_z[0]
    for _ in range(20):
        log_z = logsumexp(values - logsumexp(values - log_z, axis=1, keepdims=True), axis=0)
        log_z = log_z - log_z[0]
    for _ in range(200):
        shares = _shares(values, log_z)
        gradient = shares.sum(axis=0) - len(values) / values.shape[1]
        step = np.zeros_like(log_z)
        step[1:] = np.linalg.lstsq(_curvature(shares)[1:, 1:], gradient[1:], rcond=1e-12)[0]
        before, scale = _objective(values, log_z), 1.0
        while _objective(values, log_z + scale * step) > before + 1e-12 * abs(before) and scale > 1e-6:
            scale *= 0.5
        log_z = log_z + scale * step
        if np.max(np.abs(step)) < _TOLERANCE:
            break
    return log_z


def _shares(values: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    offset = values - log_z
    return np.exp(offset - logsumexp(offset, axis=1, keepdims=True))


def _objective(values: np.ndarray, log_z: np.ndarray) -> float:
    """Convex, and at its minimum where the equations hold."""
    return float(np.sum(logsumexp(values - log_z, axis=1)) + len(values) / len(log_z) * np.sum(log_z))


def _curvature(shares: np.ndarray) -> np.ndarray:
    return np.diag(shares.sum(axis=0)) - shares.T @ shares
