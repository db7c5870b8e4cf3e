"""Tempered Gibbs sweeps of a Gaussian mixture on the CPU: Numba behind `gaussian_replicas.py`, imported when used.

A row of a state holds what belongs to a component: Λμ (d), μᵀΛμ, log|Λ|, Λ (d × d), μ (d) and its weight. Data are
columns, so that the loops over them run along neighbours in memory. Draws of the parameters are in
`gaussian_replicas_draws.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ._host import FAST, exp
from ._host_random import fill_uniform
from .gaussian_replicas_draws import draw_parameters
from .gaussian_replicas_swaps import exchange

OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": FAST}
PLAIN: dict[str, Any] = {"error_model": "numpy"}
BLOCK = 256  # data treated together: what is known of them stays in the fastest memory
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALLEST = float(np.finfo(np.float64).tiny)


@njit(nogil=True, cache=True, **PLAIN)
def advance(
    first: int,
    last: int,
    rounds: int,
    swap: bool,
    bits: np.ndarray,
    thin: int,
    at_random: bool,
    ends: np.ndarray,
    x: np.ndarray,
    prior: np.ndarray,
    dirichlet: bool,
    ladder: np.ndarray,
    counts: np.ndarray,
    state: np.ndarray,
    energies: np.ndarray,
    targets: np.ndarray,
    measured: np.ndarray,
    identities: np.ndarray,
    tables: np.ndarray,
) -> None:
    """`rounds` rounds: `thin` sweeps of the replicas from `first` to `last`, their energies, and swaps of all.

    Without `swap` it is only the sweeps: what threads share. See `exchange` for what is written. `prior` has a row for
    each component: first (d), count, second (d × d), dof and the weight's concentration.
    """
    d, size, betas = len(x), state.shape[1], ladder[: len(state)]
    logs, top, sums = np.empty((size, BLOCK)), np.empty(BLOCK), np.empty((3, BLOCK))
    tallies, space = np.zeros((size, 1 + d + d * d)), np.zeros((3 * d + 3, d))
    for number in range(rounds):
        for replica in range(first, last):
            row = state[replica]
            _sweep(bits[replica], thin, betas[replica], x, prior, dirichlet, row, logs, top, sums, tallies, space)
            _measure(replica, betas, len(tables) > 0, x, row, logs, top, sums, energies[replica])
        if swap:
            given = bits[len(state)], at_random, ends, energies
            exchange(number, *given, ladder, counts, state, targets, measured, identities, tables)


@njit(**PLAIN)
def _sweep(
    bits: np.ndarray,
    sweeps: int,
    beta: float,
    x: np.ndarray,
    prior: np.ndarray,
    dirichlet: bool,
    state: np.ndarray,
    logs: np.ndarray,
    top: np.ndarray,
    sums: np.ndarray,
    tallies: np.ndarray,
    space: np.ndarray,
) -> None:
    """Of one replica. At β = 0 the data say nothing: an exact draw from the prior."""
    for _ in range(sweeps if beta > 0.0 else 1):
        tallies[:] = 0.0
        if beta > 0.0:
            for start in range(0, x.shape[1], BLOCK):
                count = min(BLOCK, x.shape[1] - start)
                _log_densities(x, start, count, state, logs, top)
                _draw_labels(bits, beta, x, start, count, state, logs, top, sums, tallies)
        draw_parameters(bits, beta, len(x), prior, dirichlet, tallies, state, space)


@njit(**PLAIN)
def _measure(
    replica: int,
    betas: np.ndarray,
    every: bool,
    x: np.ndarray,
    state: np.ndarray,
    logs: np.ndarray,
    top: np.ndarray,
    sums: np.ndarray,
    energies: np.ndarray,
) -> None:
    """Energies of one replica at every one of the betas, or at the neighbour below, here and at the neighbour above;
    the slope comes last."""
    begin, end = (0, len(betas)) if every else (max(replica - 1, 0), min(replica + 2, len(betas)))
    shift = 0 if every else 1 - replica
    energies[:] = 0.0
    for start in range(0, x.shape[1], BLOCK):
        count = min(BLOCK, x.shape[1] - start)
        _log_densities(x, start, count, state, logs, top)
        for other in range(begin, end):
            value, slope = _potential(betas[other], other == replica, count, state, logs, top, sums)
            energies[other + shift] += value
            energies[-1] += slope


@njit(**OPTIONS)
def _log_densities(x: np.ndarray, start: int, count: int, state: np.ndarray, logs: np.ndarray, top: np.ndarray) -> None:
    """log p(x | θ_k) of every component, and the largest of them."""
    d = len(x)
    # Rows of their own: an index that might be negative, such as start + n, keeps a loop from being vectorised.
    first = x[0, start : start + count]
    for k in range(len(state)):
        row = logs[k]
        constant = 0.5 * (state[k, d + 1] - state[k, d]) - d * _HALF_LOG_2PI
        linear, diagonal = state[k, 0], 0.5 * state[k, d + 2]
        for n in range(count):
            row[n] = constant + first[n] * (linear - diagonal * first[n])
        for i in range(1, d):
            here = x[i, start : start + count]
            linear, diagonal, below = state[k, i], 0.5 * state[k, d + 2 + i * d + i], state[k, d + 2 + i * d]
            for n in range(count):
                row[n] += here[n] * (linear - diagonal * here[n] - below * first[n])
            for j in range(1, i):
                other, entry = x[j, start : start + count], state[k, d + 2 + i * d + j]
                for n in range(count):
                    row[n] -= entry * here[n] * other[n]
        if k == 0:
            for n in range(count):
                top[n] = row[n]
        else:
            for n in range(count):
                top[n] = row[n] if row[n] > top[n] else top[n]


@njit(**OPTIONS)
def _draw_labels(
    bits: np.ndarray,
    beta: float,
    x: np.ndarray,
    start: int,
    count: int,
    state: np.ndarray,
    logs: np.ndarray,
    top: np.ndarray,
    sums: np.ndarray,
    tallies: np.ndarray,
) -> None:
    """z_n from w_k p(x_n | θ_k)^β by inversion; adds its statistics to `tallies`. Uses up `logs`."""
    size, last = len(state), state.shape[1] - 1
    for k in range(size):
        weight, row = max(state[k, last], _SMALLEST), logs[k]
        for n in range(count):
            row[n] = weight * exp(beta * (row[n] - top[n]))
        if k > 0:  # in a loop of its own: the compiler takes the first for one over the same memory
            before = logs[k - 1]
            for n in range(count):
                row[n] += before[n]
    level, reached, mask = sums[0, :count], sums[1, :count], sums[2, :count]
    fill_uniform(bits, level)
    for n in range(count):
        level[n] *= logs[size - 1, n]
        reached[n] = 0.0
    for k in range(size):
        row = logs[k]
        if k == size - 1:
            for n in range(count):
                mask[n] = 1.0 - reached[n]
        else:
            for n in range(count):
                now = 1.0 if level[n] < row[n] else 0.0
                mask[n] = now - reached[n]
                reached[n] = now
        _add_tally(x, start, count, mask, tallies[k])


@njit(**OPTIONS)
def _add_tally(x: np.ndarray, start: int, count: int, mask: np.ndarray, tally: np.ndarray) -> None:
    """How many data the mask picks, their sum and the lower triangle of their second moments."""
    d, total = len(x), 0.0
    for n in range(count):
        total += mask[n]
    tally[0] += total
    for i in range(d):
        here, total = x[i, start : start + count], 0.0
        for n in range(count):
            total += mask[n] * here[n]
        tally[1 + i] += total
        for j in range(i + 1):
            other, total = x[j, start : start + count], 0.0
            for n in range(count):
                total += mask[n] * here[n] * other[n]
            tally[1 + d + i * d + j] += total


@njit(**OPTIONS)
def _potential(
    beta: float, with_slope: bool, count: int, state: np.ndarray, logs: np.ndarray, top: np.ndarray, sums: np.ndarray
) -> tuple[float, float]:
    """Σ_n log Σ_k w_k p(x_n | θ_k)^β and, if asked for, its slope."""
    size, last = len(state), state.shape[1] - 1
    total, slopes = sums[0], sums[1]
    sums[:2] = 0.0
    for k in range(size):
        weight, row = max(state[k, last], _SMALLEST), logs[k]
        if with_slope:
            for n in range(count):
                term = weight * exp(beta * (row[n] - top[n]))
                total[n] += term
                slopes[n] += term * row[n]
        else:
            for n in range(count):
                total[n] += weight * exp(beta * (row[n] - top[n]))
    value, slope = 0.0, 0.0
    for n in range(count):
        value += top[n]
    value *= beta
    for begin in range(0, count, 8):
        # The logarithm of a product is cheaper than the logarithms of its factors, as long as it does not underflow.
        stop = min(begin + 8, count)
        product = 1.0
        for n in range(begin, stop):
            product *= total[n]
        if product > 1e-290:
            value += math.log(product)
        else:
            for n in range(begin, stop):
                value += math.log(total[n])
    if with_slope:
        for n in range(count):
            slope += slopes[n] / total[n]
    return value, slope
