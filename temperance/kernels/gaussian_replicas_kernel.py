"""Tempered Gibbs sweeps of a Gaussian mixture on the CPU: Numba behind `gaussian_replicas.py`, imported when used.

A row of a state holds one component: Λμ (d), μᵀΛμ, log|Λ|, Λ (d × d), μ (d) and its weight. Data are columns, so that
the loops over them run along neighbours in memory. Draws of the parameters are in `gaussian_replicas_draws.py`. Arrays
are filled by loops: `a[:] = b` costs seconds of compilation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ._host import FAST, exp
from ._host_random import fill_uniform, uniform
from .gaussian_replicas_draws import draw_parameters

OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": FAST}
PLAIN: dict[str, Any] = {"error_model": "numpy"}
BLOCK = 256  # data processed together, so that intermediate results stay in the fastest cache
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SMALLEST = float(np.finfo(np.float64).tiny)


class Problem(NamedTuple):
    """The quantities that all replicas share."""

    x: np.ndarray  # (d, n)
    prior: np.ndarray  # a row for each component: first (d), count, second (d × d), dof, the weight's concentration
    dirichlet: bool  # whether the weights are drawn
    thin: int  # Gibbs sweeps before a swap
    betas: np.ndarray  # (k,)


class Ensemble(NamedTuple):
    """The replicas in the order of the ladder; every sweep overwrites them."""

    generators: np.ndarray  # (k + 1, 4): random bits of each replica, and those of the swaps
    states: np.ndarray  # (k, components, d² + 2d + 3)
    identity: np.ndarray  # (k,)


class Record(NamedTuple):
    """The measurements of each sweep before its swaps; the leading axis is s, the sweep."""

    targets: np.ndarray  # (s, components, d² + 2d + 3): the last replica
    energies: np.ndarray  # (s, k, 4): of each replica at the β below, at its own β and at the β above; then the slope
    tables: np.ndarray  # (s, k, k): of each replica at every β; s = 0 if they are not asked for
    identity: np.ndarray  # (s, k)


class Scratch(NamedTuple):
    """Memory that the sweeps of one thread reuse."""

    logs: np.ndarray  # (components, BLOCK)
    top: np.ndarray  # (BLOCK,)
    sums: np.ndarray  # (3, BLOCK)
    tallies: np.ndarray  # (components, 1 + d + d²)
    space: np.ndarray  # (3d + 3, d)


@njit(nogil=True, cache=True, **PLAIN)
def advance(
    problem: Problem,
    ensemble: Ensemble,
    record: Record,
    offered: np.ndarray,
    sweeps: tuple[int, int],
    replicas: tuple[int, int],
    swap: bool,
) -> None:
    """Make sweeps `sweeps[0]` to `sweeps[1]` of replicas `replicas[0]` to `replicas[1]`. After each sweep the pairs of
    neighbours that are `offered` (s, k − 1) a swap decide on it, unless `swap` is False: threads that share a sweep
    leave the swaps to a call of their own.
    """
    d, components = len(problem.x), ensemble.states.shape[1]
    scratch = Scratch(
        np.empty((components, BLOCK)),
        np.empty(BLOCK),
        np.empty((3, BLOCK)),
        np.zeros((components, 1 + d + d * d)),
        np.zeros((3 * d + 3, d)),
    )
    for number in range(sweeps[0], sweeps[1]):
        for replica in range(replicas[0], replicas[1]):
            state = ensemble.states[replica]
            _sweep(ensemble.generators[replica], problem.betas[replica], problem, state, scratch)
            _measure(replica, number, problem, state, record, scratch)
        if swap:
            _exchange(number, offered[number], ensemble, record)


@njit(**PLAIN)
def _exchange(number: int, offered: np.ndarray, ensemble: Ensemble, record: Record) -> None:
    """Record which replica is where, then swap states by the rule of `ParallelTempering._swap_order`."""
    generator, states, identity = ensemble.generators[-1], ensemble.states, ensemble.identity
    energies, (size, rows, width) = record.energies[number], states.shape
    for k in range(size):
        record.identity[number, k] = identity[k]
    for i in range(rows):
        for j in range(width):
            record.targets[number, i, j] = states[size - 1, i, j]
    uniform(generator)  # unused; drawn so that a seed keeps giving the same draws as before
    for k in range(size - 1):
        forward, backward = energies[k, 2] - energies[k, 1], energies[k + 1, 1] - energies[k + 1, 0]
        # Pairs that are offered a swap share no replica, so the measurements stay valid.
        if offered[k] and uniform(generator) < math.exp(min(forward - backward, 0.0)):
            identity[k], identity[k + 1] = identity[k + 1], identity[k]
            for i in range(rows):
                for j in range(width):
                    states[k, i, j], states[k + 1, i, j] = states[k + 1, i, j], states[k, i, j]


@njit(**PLAIN)
def _sweep(bits: np.ndarray, beta: float, problem: Problem, state: np.ndarray, scratch: Scratch) -> None:
    """Sweep one replica. At β = 0, where the data have no influence, a sweep is an exact draw from the prior."""
    x, tallies = problem.x, scratch.tallies
    for _ in range(problem.thin if beta > 0.0 else 1):
        for k in range(tallies.shape[0]):
            for i in range(tallies.shape[1]):
                tallies[k, i] = 0.0
        if beta > 0.0:
            for start in range(0, x.shape[1], BLOCK):
                count = min(BLOCK, x.shape[1] - start)
                _log_densities(x, start, count, state, scratch.logs, scratch.top)
                _draw_labels(bits, beta, x, start, count, state, scratch)
        draw_parameters(bits, beta, problem.prior, problem.dirichlet, tallies, state, scratch.space)


@njit(**PLAIN)
def _measure(replica: int, number: int, problem: Problem, state: np.ndarray, record: Record, scratch: Scratch) -> None:
    """The energies of one replica, in row `number` of the record."""
    x, betas, energies = problem.x, problem.betas, record.energies[number, replica]
    logs, top, sums, every = scratch.logs, scratch.top, scratch.sums, len(record.tables) > 0
    begin, end = (0, len(betas)) if every else (max(replica - 1, 0), min(replica + 2, len(betas)))
    for i in range(4):
        energies[i] = 0.0
    if every:
        for other in range(len(betas)):
            record.tables[number, replica, other] = 0.0
    for start in range(0, x.shape[1], BLOCK):
        count = min(BLOCK, x.shape[1] - start)
        _log_densities(x, start, count, state, logs, top)
        for other in range(begin, end):
            value, slope = _potential(betas[other], other == replica, count, state, logs, top, sums)
            energies[3] += slope
            if -2 < other - replica < 2:
                energies[1 + other - replica] += value
            if every:
                record.tables[number, replica, other] += value


@njit(**OPTIONS)
def _log_densities(x: np.ndarray, start: int, count: int, state: np.ndarray, logs: np.ndarray, top: np.ndarray) -> None:
    """log p(x | θ_k) of every component, and the largest of them."""
    d = len(x)
    # Separate rows, because an index that might be negative, such as start + n, keeps a loop from being vectorised.
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
    bits: np.ndarray, beta: float, x: np.ndarray, start: int, count: int, state: np.ndarray, scratch: Scratch
) -> None:
    """z_n from w_k p(x_n | θ_k)^β by inversion; adds its statistics to the tallies. Overwrites `scratch.logs`."""
    logs, top, sums = scratch.logs, scratch.top, scratch.sums
    size, last = len(state), state.shape[1] - 1
    for k in range(size):
        weight, row = max(state[k, last], _SMALLEST), logs[k]
        for n in range(count):
            row[n] = weight * exp(beta * (row[n] - top[n]))
        if k > 0:  # in a separate loop: in a single one the compiler would assume that `row` and `before` share memory
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
        _add_tally(x, start, count, mask, scratch.tallies[k])


@njit(**OPTIONS)
def _add_tally(x: np.ndarray, start: int, count: int, mask: np.ndarray, tally: np.ndarray) -> None:
    """Add the number of data that the mask picks, their sum and the lower triangle of their second moments."""
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
    for n in range(count):
        total[n] = 0.0
        slopes[n] = 0.0
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
