"""Hidden Markov recursions on the CPU: the Numba engine of `numerics/chains.py`, whose docstring has the equations.

Each recursion is written once, for two kinds of numbers. Plain numbers: with the likelihoods of a step divided by their
largest, sums of products need no exponentials. A state whose probability underflows is lost, which does no harm as long
as every state can be reached from every other with a probability that does not underflow. Logarithms: where a log
transition is below `_LOWEST`. The argument `logs` is None for plain numbers and True for logarithms, which differ in
type: Numba compiles one function for each kind, without a branch, and only when it is needed.

The forward and the backward pass do not depend on each other: they run side by side, in two threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import EXACT, OPTIONS, exp

_LOWEST = -600.0
_GRAIN = 8192  # steps treated together by one thread


def host_expect(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, starts: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The engine of `expected_statistics`."""
    logs, initial, matrix, relative, top = _prepared(initial, transition, likelihood)
    transposed = np.ascontiguousarray(matrix.T)
    forward, ahead, norms = np.empty(likelihood.shape), np.empty(likelihood.shape), np.empty(len(starts))
    passes = (
        lambda: _forward(initial, matrix, relative, starts, forward, norms, logs),
        lambda: _backward(transposed, relative, starts, ahead, logs),
    )
    in_threads(lambda start, stop: [one() for one in passes[start:stop]], len(passes), 1)
    sums = np.zeros((-(-len(starts) // _GRAIN), *matrix.shape))
    arrays = relative, starts, weights, forward, ahead, norms, top

    def combine(start: int, stop: int) -> None:
        _combine(start, stop, matrix, arrays, sums[start // _GRAIN], logs)

    in_threads(combine, len(starts), _GRAIN)
    total = sums.sum(axis=0)
    return top, ahead, total if logs else total * matrix


def host_filter(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The engine of `filter_states`, in logarithms, because probabilities may underflow."""
    forward, norms = np.empty(likelihood.shape), np.empty(len(starts))
    _forward(initial, transition, likelihood, starts, forward, norms, True)
    return norms, forward


def host_draw(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, starts: np.ndarray, uniform: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The engine of `draw_paths`."""
    logs, initial, matrix, relative, top = _prepared(initial, transition, likelihood)
    forward, norms = np.empty(likelihood.shape), np.empty(len(starts))
    path = np.empty(len(starts), dtype=np.int64)
    _forward(initial, matrix, relative, starts, forward, norms, logs)
    _sample(np.ascontiguousarray(matrix.T), starts, forward, uniform, path, logs)
    return (norms if logs else np.log(norms)) + top, path


def _prepared(initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> tuple[Any, ...]:
    """`logs`, then the initial distribution, the transition matrix and the likelihoods as numbers of that kind, each
    step's likelihoods relative to exp(top), and `top`."""
    steps = len(likelihood)
    if not (transition.min() > _LOWEST and initial.min() > _LOWEST):
        return True, initial, transition, likelihood, np.zeros(steps)
    relative, top = np.empty(likelihood.shape), np.empty(steps)
    in_threads(lambda start, stop: _scale(likelihood[start:stop], relative[start:stop], top[start:stop]), steps, _GRAIN)
    return None, np.exp(initial), np.exp(transition), relative, top


@njit(**OPTIONS)
def _scale(likelihood, relative, top):  # type: ignore[no-untyped-def]
    size = likelihood.shape[1]
    for t in range(len(likelihood)):
        largest = likelihood[t, 0]
        for k in range(1, size):
            if likelihood[t, k] > largest:
                largest = likelihood[t, k]
        top[t] = largest
        for k in range(size):
            relative[t, k] = exp(likelihood[t, k] - largest)


# ---- arithmetic of plain numbers, or of logarithms --------------------------------------------------------------


@njit(**EXACT)
def _times(a, b, logs):  # type: ignore[no-untyped-def]
    return a * b if logs is None else a + b


@njit(**EXACT)
def _plus(a, b, logs):  # type: ignore[no-untyped-def]
    if logs is None:
        return a + b
    gap = 0.0 if a == b else abs(a - b)  # avoids the difference of two infinities
    return (a if a > b else b) + math.log(1.0 + exp(-gap))


# ---- the recursions -----------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _forward(initial, matrix, likelihood, starts, forward, norms, logs):  # type: ignore[no-untyped-def]
    steps, size = likelihood.shape
    moved = np.empty(size)
    alike = 1.0 / size if logs is None else -math.log(size)
    for t in range(steps):
        if starts[t] == 0:
            for j in range(size):
                moved[j] = _times(forward[t - 1, 0], matrix[0, j], logs)
            for i in range(1, size):
                share = forward[t - 1, i]
                for j in range(size):
                    moved[j] = _plus(moved[j], _times(share, matrix[i, j], logs), logs)
        else:
            for j in range(size):
                moved[j] = initial[j] if starts[t] == 1 else alike
        moved[0] = norm = _times(moved[0], likelihood[t, 0], logs)
        for j in range(1, size):
            moved[j] = _times(moved[j], likelihood[t, j], logs)
            norm = _plus(norm, moved[j], logs)
        norms[t] = norm
        scale = 1.0 / norm if logs is None else -norm
        for j in range(size):
            forward[t, j] = _times(moved[j], scale, logs)


@njit(**OPTIONS)
def _backward(transposed, likelihood, starts, ahead, logs):  # type: ignore[no-untyped-def]
    steps, size = likelihood.shape
    back = np.empty(size)
    one = 1.0 if logs is None else 0.0
    for i in range(size):
        ahead[steps - 1, i] = one
    for t in range(steps - 1, 0, -1):
        if starts[t] != 0:
            for i in range(size):
                ahead[t - 1, i] = one
            continue
        share = _times(ahead[t, 0], likelihood[t, 0], logs)
        for i in range(size):
            back[i] = _times(share, transposed[0, i], logs)
        for j in range(1, size):
            share = _times(ahead[t, j], likelihood[t, j], logs)
            for i in range(size):
                back[i] = _plus(back[i], _times(share, transposed[j, i], logs), logs)
        total = back[0]
        for i in range(1, size):
            total = _plus(total, back[i], logs)
        scale = 1.0 / total if logs is None else -total
        for i in range(size):
            ahead[t - 1, i] = _times(back[i], scale, logs)


@njit(**OPTIONS)
def _combine(start, stop, matrix, arrays, total, logs):  # type: ignore[no-untyped-def]
    """Overwrite `ahead` with the smoothed states and `top` with the increments, and add expected transitions to `total`
    (plain numbers are not yet multiplied by the transition matrix).

    p(z_(t−1) = i, z_t = j | x) = forward_(t−1)i A_ij likelihood_tj ahead_tj / (norm_t Σ_k forward_tk ahead_tk).
    """
    likelihood, starts, weights, forward, ahead, norms, top = arrays
    size = likelihood.shape[1]
    joint = np.empty(size)
    for t in range(start, stop):
        both = _times(forward[t, 0], ahead[t, 0], logs)
        for k in range(1, size):
            both = _plus(both, _times(forward[t, k], ahead[t, k], logs), logs)
        if starts[t] == 0 and weights[t] != 0.0:
            norm = _times(norms[t], both, logs)
            factor = weights[t] / norm if logs is None else math.log(weights[t]) - norm
            for j in range(size):
                joint[j] = _times(factor, _times(likelihood[t, j], ahead[t, j], logs), logs)
            for i in range(size):
                share = forward[t - 1, i]
                for j in range(size):
                    pair = share * joint[j] if logs is None else math.exp(share + matrix[i, j] + joint[j])
                    total[i, j] += pair
        scale = 1.0 / both if logs is None else -both
        for k in range(size):
            state = _times(ahead[t, k], _times(forward[t, k], scale, logs), logs)
            ahead[t, k] = state if logs is None else math.exp(state)
        top[t] += math.log(norms[t]) if logs is None else norms[t]


@njit(**OPTIONS)
def _sample(transposed, starts, forward, uniform, path, logs):  # type: ignore[no-untyped-def]
    """Draw each state given the next one, by inversion of the uniform numbers."""
    steps, size = forward.shape
    share = np.empty(size)
    for t in range(steps - 1, -1, -1):
        on = t + 1 < steps and starts[t + 1] == 0
        later = path[t + 1] if on else 0
        for k in range(size):
            share[k] = _times(forward[t, k], transposed[later, k], logs) if on else forward[t, k]
        total = share[0]
        for k in range(1, size):
            total = _plus(total, share[k], logs)
        level = uniform[t] * total if logs is None else uniform[t]
        cumulative, state = 0.0, 0
        for k in range(size):
            cumulative += share[k] if logs is None else math.exp(share[k] - total)
            state += cumulative <= level
        path[t] = min(state, size - 1)
