"""Weights and components of a tempered Gaussian mixture given its tallies: Numba, for `gaussian_replicas_kernel.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ._host_random import log_gamma_variate, normal

PLAIN: dict[str, Any] = {"error_model": "numpy"}
_LEAST = 1e-100  # least χ² variable, in units of its mean, so that its logarithm is finite


@njit(**PLAIN)
def draw_parameters(
    bits: np.ndarray,
    beta: float,
    prior: np.ndarray,
    dirichlet: bool,
    tallies: np.ndarray,
    state: np.ndarray,
    space: np.ndarray,
) -> None:
    """Draw parameters as `Dirichlet.sample` and `NormalWishart.sample` do; `space` is (3d + 3, d)."""
    d = space.shape[1]
    if dirichlet:
        _draw_weights(bits, prior, tallies, state)
    location, noise, white = space[0], space[1], space[2]
    lower, bartlett, root = space[3 : 3 + d], space[3 + d : 3 + 2 * d], space[3 + 2 * d :]
    for k in range(len(state)):
        count = prior[k, d] + beta * tallies[k, 0]
        dof = prior[k, d + 1 + d * d] + d + beta * tallies[k, 0]
        log_det = _factor_scatter(beta, d, count, prior[k], tallies[k], location, lower)
        state[k, d + 1] = _draw_bartlett(bits, d, dof, bartlett) - log_det
        for i in range(d):
            noise[i] = normal(bits) / math.sqrt(count)
        _set_precision(d, lower, bartlett, root, state[k])
        _set_mean(location, noise, white, lower, bartlett, root, state[k])


@njit(**PLAIN)
def _draw_weights(bits: np.ndarray, prior: np.ndarray, tallies: np.ndarray, state: np.ndarray) -> None:
    """Gamma variables divided by their sum, in logarithms, because small ones would underflow."""
    size, last, highest, total = len(state), state.shape[1] - 1, -math.inf, 0.0
    for k in range(size):
        state[k, last] = log_gamma_variate(bits, prior[k, -1] + tallies[k, 0])
        highest = max(highest, state[k, last])
    for k in range(size):
        state[k, last] = math.exp(state[k, last] - highest)
        total += state[k, last]
    for k in range(size):
        state[k, last] /= total


@njit(**PLAIN)
def _factor_scatter(
    beta: float, d: int, count: float, prior: np.ndarray, tally: np.ndarray, location: np.ndarray, lower: np.ndarray
) -> float:
    """S = L Lᵀ, the scatter around the location; returns its log determinant."""
    log_det = 0.0
    for i in range(d):
        location[i] = (prior[i] + beta * tally[1 + i]) / count
        for j in range(i + 1):
            entry = prior[d + 1 + i * d + j] + beta * tally[1 + d + i * d + j] - count * location[i] * location[j]
            for m in range(j):
                entry -= lower[i, m] * lower[j, m]
            lower[i, j] = math.sqrt(entry) if i == j else entry / lower[j, j]
        log_det += 2.0 * math.log(lower[i, i])
    return log_det


@njit(**PLAIN)
def _draw_bartlett(bits: np.ndarray, d: int, dof: float, bartlett: np.ndarray) -> float:
    """Fill the lower triangle B of Bartlett's decomposition, B Bᵀ ~ Wishart(dof, 1); return log|B|."""
    log_det = 0.0
    for i in range(d):
        log_chi2 = max(math.log(2.0) + log_gamma_variate(bits, 0.5 * (dof - i)), math.log(_LEAST * dof))
        bartlett[i, i] = math.exp(0.5 * log_chi2)
        log_det += log_chi2
        for j in range(i):
            bartlett[i, j] = normal(bits)
    return log_det


@njit(**PLAIN)
def _set_precision(d: int, lower: np.ndarray, bartlett: np.ndarray, root: np.ndarray, out: np.ndarray) -> None:
    """R = L⁻ᵀB, so that Λ = R Rᵀ."""
    for j in range(d):
        for i in range(d - 1, -1, -1):
            entry = bartlett[i, j] if i >= j else 0.0
            for m in range(i + 1, d):
                entry -= lower[m, i] * root[m, j]
            root[i, j] = entry / lower[i, i]
    for i in range(d):
        for j in range(d):
            entry = 0.0
            for m in range(d):
                entry += root[i, m] * root[j, m]
            out[d + 2 + i * d + j] = entry


@njit(**PLAIN)
def _set_mean(
    location: np.ndarray,
    noise: np.ndarray,
    white: np.ndarray,
    lower: np.ndarray,
    bartlett: np.ndarray,
    root: np.ndarray,
    out: np.ndarray,
) -> None:
    """Rᵀμ = Rᵀm + ε/√v for μ = m + L B⁻ᵀε/√v: this needs no product with a singular Λ. Overwrites `noise`."""
    d = len(location)
    out[d] = 0.0
    for j in range(d):
        white[j] = noise[j]
        for i in range(d):
            white[j] += root[i, j] * location[i]
        out[d] += white[j] * white[j]
    for i in range(d - 1, -1, -1):
        for m in range(i + 1, d):
            noise[i] -= bartlett[m, i] * noise[m]
        noise[i] /= bartlett[i, i]
    for i in range(d):
        linear, mean = 0.0, location[i]
        for j in range(d):
            linear += root[i, j] * white[j]
        for j in range(i + 1):
            mean += lower[i, j] * noise[j]
        out[i], out[d + 2 + d * d + i] = linear, mean
