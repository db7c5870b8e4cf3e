"""Tempered Gibbs sweeps of a Gaussian mixture on the CPU: Numba behind `gaussian_replicas.py`, imported when used.

A row of a state holds what belongs to a component: Λμ (d), μᵀΛμ, log|Λ|, Λ (d × d), μ (d) and its weight. Data are
columns, so that the loops over them run along neighbours in memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ...numerics.host import FAST, exp
from ...numerics.host_random import fill_uniform, log_gamma_variate, normal

OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": FAST}
PLAIN: dict[str, Any] = {"error_model": "numpy"}
BLOCK = 256  # data treated together: what is known of them stays in the fastest memory
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALLEST = float(np.finfo(np.float64).tiny)
_LEAST = 1e-100  # of a χ² variable, in units of its mean: a logarithm has to stay finite


@njit(nogil=True, cache=True, **PLAIN)
def advance(
    bits: np.ndarray,
    sweeps: int,
    betas: np.ndarray,
    own: np.ndarray,
    x: np.ndarray,
    prior: np.ndarray,
    dirichlet: bool,
    state: np.ndarray,
    energies: np.ndarray,
) -> None:
    """`sweeps` sweeps of each replica at betas[own], in place; then its energies at all `betas`, and the slope.

    `prior` has a row for each component: first (d), count, second (d × d), dof and the weight's concentration. At
    β = 0 the data say nothing: an exact draw from the prior.
    """
    d, size = len(x), state.shape[1]
    work = np.zeros((size, 1 + d + d * d)), np.empty((size, BLOCK)), np.empty(BLOCK), np.empty((2, BLOCK))
    for replica in range(len(state)):
        seed, ladder, here = bits[replica], betas[replica], own[replica]
        _one(seed, sweeps, ladder, here, x, prior, dirichlet, state[replica], energies[replica], *work)


@njit(**PLAIN)
def _one(
    bits: np.ndarray,
    sweeps: int,
    betas: np.ndarray,
    own: int,
    x: np.ndarray,
    prior: np.ndarray,
    dirichlet: bool,
    state: np.ndarray,
    energies: np.ndarray,
    tallies: np.ndarray,
    logs: np.ndarray,
    top: np.ndarray,
    sums: np.ndarray,
) -> None:
    d, beta = len(x), betas[own]
    for _ in range(sweeps if beta > 0.0 else 1):
        tallies[:] = 0.0
        if beta > 0.0:
            for start in range(0, x.shape[1], BLOCK):
                part = x[:, start : start + BLOCK]
                _log_densities(part, state, logs, top)
                _draw_labels(bits, beta, part, state, logs, top, sums, tallies)
        _draw_parameters(bits, beta, d, prior, dirichlet, tallies, state)
    energies[:] = 0.0
    for start in range(0, x.shape[1], BLOCK):
        part = x[:, start : start + BLOCK]
        _log_densities(part, state, logs, top)
        for number in range(len(betas)):
            # At the ends of a ladder a neighbour is the replica itself.
            if number == own or betas[number] != beta:
                count = part.shape[1]
                _add_potential(betas[number], number, number == own, count, state, logs, top, sums, energies)
    for number in range(len(betas)):
        if betas[number] == beta:
            energies[number] = energies[own]


@njit(**OPTIONS)
def _log_densities(x: np.ndarray, state: np.ndarray, logs: np.ndarray, top: np.ndarray) -> None:
    """log p(x | θ_k) of every component, and the largest of them."""
    d, count = x.shape
    for k in range(len(state)):
        constant = 0.5 * (state[k, d + 1] - state[k, d]) - d * _HALF_LOG_2PI
        row, first = logs[k], x[0]
        linear, diagonal = state[k, 0], 0.5 * state[k, d + 2]
        for n in range(count):
            row[n] = constant + first[n] * (linear - diagonal * first[n])
        for i in range(1, d):
            here = x[i]
            linear, diagonal, below = state[k, i], 0.5 * state[k, d + 2 + i * d + i], state[k, d + 2 + i * d]
            for n in range(count):
                row[n] += here[n] * (linear - diagonal * here[n] - below * first[n])
            for j in range(1, i):
                other, entry = x[j], state[k, d + 2 + i * d + j]
                for n in range(count):
                    row[n] -= entry * here[n] * other[n]
        if k == 0:
            for n in range(count):
                top[n] = row[n]
        else:
            for n in range(count):
                top[n] = max(top[n], row[n])


@njit(**OPTIONS)
def _draw_labels(
    bits: np.ndarray,
    beta: float,
    x: np.ndarray,
    state: np.ndarray,
    logs: np.ndarray,
    top: np.ndarray,
    sums: np.ndarray,
    tallies: np.ndarray,
) -> None:
    """z_n from w_k p(x_n | θ_k)^β by inversion; adds its statistics to `tallies`. Uses up `logs`."""
    d, count = x.shape
    size, last = len(state), state.shape[1] - 1
    for k in range(size):
        weight, row = max(state[k, last], _SMALLEST), logs[k]
        if k == 0:
            for n in range(count):
                row[n] = weight * exp(beta * (row[n] - top[n]))
        else:
            before = logs[k - 1]
            for n in range(count):
                row[n] = before[n] + weight * exp(beta * (row[n] - top[n]))
    level, chosen = sums[0, :count], sums[1, :count]
    fill_uniform(bits, level)
    chosen[:] = 0.0
    for n in range(count):
        level[n] *= logs[size - 1, n]
    for k in range(size - 1):
        row = logs[k]
        for n in range(count):
            chosen[n] += 1.0 if row[n] <= level[n] else 0.0
    for n in range(count):
        tally = tallies[int(chosen[n])]
        tally[0] += 1.0
        for i in range(d):
            tally[1 + i] += x[i, n]
            for j in range(i + 1):
                tally[1 + d + i * d + j] += x[i, n] * x[j, n]


@njit(**OPTIONS)
def _add_potential(
    beta: float,
    number: int,
    with_slope: bool,
    count: int,
    state: np.ndarray,
    logs: np.ndarray,
    top: np.ndarray,
    sums: np.ndarray,
    energies: np.ndarray,
) -> None:
    """Adds Σ_n log Σ_k w_k p(x_n | θ_k)^β to energies[number], and its slope to the last of them."""
    size, last = len(state), state.shape[1] - 1
    sums[:] = 0.0
    slopes = sums[1]
    for k in range(size):
        weight, row, total = max(state[k, last], _SMALLEST), logs[k], sums[0]
        if with_slope:
            for n in range(count):
                term = weight * exp(beta * (row[n] - top[n]))
                total[n] += term
                slopes[n] += term * row[n]
        else:
            for n in range(count):
                total[n] += weight * exp(beta * (row[n] - top[n]))
    total = sums[0]
    value = 0.0
    for n in range(count):
        value += beta * top[n]
    for start in range(0, count, 8):
        # The logarithm of a product is cheaper than the logarithms of its factors, as long as it does not underflow.
        stop = min(start + 8, count)
        product = 1.0
        for n in range(start, stop):
            product *= total[n]
        if product > 1e-290:
            value += math.log(product)
        else:
            for n in range(start, stop):
                value += math.log(total[n])
    energies[number] += value
    if with_slope:
        slope = 0.0
        for n in range(count):
            slope += slopes[n] / total[n]
        energies[-1] += slope


@njit(**PLAIN)
def _draw_parameters(
    bits: np.ndarray, beta: float, d: int, prior: np.ndarray, dirichlet: bool, tallies: np.ndarray, state: np.ndarray
) -> None:
    """Weights and components given the tallies, as `Dirichlet.sample` and `NormalWishart.sample` draw them."""
    size, last = len(state), state.shape[1] - 1
    if dirichlet:
        highest = -math.inf
        for k in range(size):
            state[k, last] = log_gamma_variate(bits, prior[k, -1] + tallies[k, 0])
            highest = max(highest, state[k, last])
        total = 0.0
        for k in range(size):
            state[k, last] = math.exp(state[k, last] - highest)
            total += state[k, last]
        for k in range(size):
            state[k, last] /= total
    location, noise, white = np.empty(d), np.empty(d), np.empty(d)
    lower, bartlett, root = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for k in range(size):
        tally, out = tallies[k], state[k]
        count = prior[k, d] + beta * tally[0]
        dof = prior[k, d + 1 + d * d] + d + beta * tally[0]
        # S = L Lᵀ, the scatter around the location.
        log_det = 0.0
        for i in range(d):
            location[i] = (prior[k, i] + beta * tally[1 + i]) / count
            for j in range(i + 1):
                entry = prior[k, d + 1 + i * d + j] + beta * tally[1 + d + i * d + j]
                entry -= count * location[i] * location[j]
                for m in range(j):
                    entry -= lower[i, m] * lower[j, m]
                lower[i, j] = math.sqrt(entry) if i == j else entry / lower[j, j]
            log_det += 2.0 * math.log(lower[i, i])
        # Bartlett's B, and R = L⁻ᵀB, so that Λ = R Rᵀ.
        out[d + 1] = -log_det
        for i in range(d):
            half = 0.5 * (dof - i)
            log_chi2 = max(math.log(2.0) + log_gamma_variate(bits, half), math.log(_LEAST * dof))
            bartlett[i, i] = math.exp(0.5 * log_chi2)
            out[d + 1] += log_chi2
            for j in range(i):
                bartlett[i, j] = normal(bits)
            noise[i] = normal(bits) / math.sqrt(count)
        for j in range(d):
            for i in range(d - 1, -1, -1):
                entry = bartlett[i, j] if i >= j else 0.0
                for m in range(i + 1, d):
                    entry -= lower[m, i] * root[m, j]
                root[i, j] = entry / lower[i, i]
        # Rᵀμ = Rᵀm + ε/√v for μ = m + L B⁻ᵀε/√v: no product with a singular Λ.
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
            out[i] = 0.0
            for j in range(d):
                out[i] += root[i, j] * white[j]
            mean = location[i]
            for j in range(i + 1):
                mean += lower[i, j] * noise[j]
            out[d + 2 + d * d + i] = mean
            for j in range(d):
                entry = 0.0
                for m in range(d):
                    entry += root[i, m] * root[j, m]
                out[d + 2 + i * d + j] = entry
