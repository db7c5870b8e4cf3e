"""Recursions over hidden Markov chains on the CPU: Numba behind `chains.py`, imported only when used.

With the likelihoods of a step divided by their largest, plain products replace sums of exponentials. A state whose
probability underflows is then lost, which does no harm as long as every state can be reached from any other with a
probability that does not: where log transitions are below `_LOWEST` the same recursions run in log space.
Forwards and backwards are independent of each other until they are put together: they run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS, exp

PLAIN: dict[str, Any] = OPTIONS | {"fastmath": False}  # infinities are meant in log space
_LOWEST = -600.0
_GRAIN = 8192  # steps treated together by one thread


def host_expect(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, starts: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`chains.expected_statistics`."""
    steps, size = likelihood.shape
    pieces = -(-steps // _GRAIN)
    sums = np.empty((pieces, size, size))
    if not _in_range(initial, transition):
        forward, ahead = np.empty((steps, size)), np.empty((steps, size))
        increments = np.empty(steps)
        together(
            lambda: _forward_log(initial, transition, likelihood, starts, forward, increments),
            lambda: _backward_log(transition, likelihood, starts, ahead),
        )

        def in_logs(start: int, stop: int) -> None:
            _combine_log(start, stop, transition, likelihood, starts, weights, forward, ahead, sums[start // _GRAIN])

        in_threads(in_logs, steps, _GRAIN)
        return increments, ahead, sums.sum(axis=0)
    plain, matrix = np.exp(initial), np.exp(transition)
    scaled, top, forward, ahead, increments = _buffers(likelihood)
    together(
        lambda: _forward(plain, matrix, scaled, starts, forward, increments),
        lambda: _backward(np.ascontiguousarray(matrix.T), scaled, starts, ahead),
    )

    def combine(start: int, stop: int) -> None:
        _combine(start, stop, scaled, top, starts, weights, forward, ahead, increments, sums[start // _GRAIN])

    in_threads(combine, steps, _GRAIN)
    return top, ahead, sums.sum(axis=0) * matrix


def host_filter(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`chains.filter_states`."""
    forward, increments = np.empty(likelihood.shape), np.empty(len(likelihood))
    # In log space: a probability that underflows has a logarithm all the same.
    _forward_log(initial, transition, likelihood, starts, forward, increments)
    return increments, forward


def host_draw(
    initial: np.ndarray,
    transition: np.ndarray,
    likelihood: np.ndarray,
    starts: np.ndarray,
    uniform: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """`chains.draw_paths`."""
    path = np.empty(len(likelihood), dtype=np.int64)
    if not _in_range(initial, transition):
        increments, forward = host_filter(initial, transition, likelihood, starts)
        _sample_log(transition, starts, forward, uniform, path)
        return increments, path
    scaled, top, forward, _, increments = _buffers(likelihood)
    matrix = np.exp(transition)
    _forward(np.exp(initial), matrix, scaled, starts, forward, increments)
    _sample(np.ascontiguousarray(matrix.T), starts, forward, uniform, path)
    return np.log(increments) + top, path


def together(*tasks: Callable[[], object]) -> None:
    """Run the tasks in threads, as far as there are any."""
    in_threads(lambda start, stop: [task() for task in tasks[start:stop]], len(tasks), 1)


def _in_range(initial: np.ndarray, transition: np.ndarray) -> bool:
    return bool(transition.min() > _LOWEST and initial.min() > _LOWEST)


def _buffers(likelihood: np.ndarray) -> tuple[np.ndarray, ...]:
    """The likelihoods divided by each step's largest, the logarithm of that, and room for both passes."""
    steps, size = likelihood.shape
    scaled, top = np.empty((steps, size)), np.empty(steps)
    in_threads(lambda start, stop: _scale(likelihood[start:stop], scaled[start:stop], top[start:stop]), steps, _GRAIN)
    return scaled, top, np.empty((steps, size)), np.empty((steps, size)), np.empty(steps)


@njit(**OPTIONS)
def _scale(likelihood, scaled, top):  # type: ignore[no-untyped-def]
    size = likelihood.shape[1]
    for t in range(len(likelihood)):
        largest = likelihood[t, 0]
        for k in range(1, size):
            largest = max(largest, likelihood[t, k])
        top[t] = largest
        for k in range(size):
            scaled[t, k] = exp(likelihood[t, k] - largest)


@njit(**OPTIONS)
def _forward(initial, matrix, scaled, starts, forward, norms):  # type: ignore[no-untyped-def]
    size = scaled.shape[1]
    moved = np.empty(size)
    for t in range(len(scaled)):
        if starts[t] == 0:
            before = forward[t - 1]
            first = before[0]
            for j in range(size):
                moved[j] = first * matrix[0, j]
            for i in range(1, size):
                share = before[i]
                for j in range(size):
                    moved[j] += share * matrix[i, j]
        elif starts[t] == 1:
            for j in range(size):
                moved[j] = initial[j]
        else:
            for j in range(size):
                moved[j] = 1.0 / size
        norm = 0.0
        for j in range(size):
            moved[j] *= scaled[t, j]
            norm += moved[j]
        norms[t] = norm
        scale = 1.0 / norm
        for j in range(size):
            forward[t, j] = moved[j] * scale


@njit(**OPTIONS)
def _backward(transposed, scaled, starts, ahead):  # type: ignore[no-untyped-def]
    steps, size = scaled.shape
    joint, back = np.empty(size), np.empty(size)
    ahead[steps - 1] = 1.0
    for t in range(steps - 1, 0, -1):
        if starts[t] != 0:
            for i in range(size):
                ahead[t - 1, i] = 1.0
            continue
        for j in range(size):
            joint[j] = ahead[t, j] * scaled[t, j]
        first = joint[0]
        for i in range(size):
            back[i] = first * transposed[0, i]
        for j in range(1, size):
            share = joint[j]
            for i in range(size):
                back[i] += share * transposed[j, i]
        total = 0.0
        for i in range(size):
            total += back[i]
        scale = 1.0 / total
        for i in range(size):
            ahead[t - 1, i] = back[i] * scale


@njit(**OPTIONS)
def _combine(start, stop, scaled, top, starts, weights, forward, ahead, norms, total):  # type: ignore[no-untyped-def]
    """Increments in place of the tops, transitions (before their factor), states in place of what is ahead.

    p(z_(t−1) = i, z_t = j | x) = forward_(t−1)i A_ij scaled_tj ahead_tj / (norm_t Σ_k forward_tk ahead_tk).
    """
    size = scaled.shape[1]
    joint = np.empty(size)
    total[:] = 0.0
    for t in range(start, stop):
        both = 0.0
        for k in range(size):
            both += forward[t, k] * ahead[t, k]
        if starts[t] == 0 and weights[t] != 0.0:
            factor = weights[t] / (norms[t] * both)
            for j in range(size):
                joint[j] = factor * scaled[t, j] * ahead[t, j]
            for i in range(size):
                share = forward[t - 1, i]
                for j in range(size):
                    total[i, j] += share * joint[j]
        inverse = 1.0 / both
        for k in range(size):
            ahead[t, k] *= forward[t, k] * inverse
        top[t] += math.log(norms[t])


@njit(**OPTIONS)
def _sample(transposed, starts, forward, uniform, path):  # type: ignore[no-untyped-def]
    steps, size = forward.shape
    for t in range(steps - 1, -1, -1):
        on = t + 1 < steps and starts[t + 1] == 0
        later = path[t + 1] if on else 0
        total = 0.0
        for k in range(size):
            total += forward[t, k] * transposed[later, k] if on else forward[t, k]
        level = uniform[t] * total
        cumulative, state = 0.0, 0
        for k in range(size):
            cumulative += forward[t, k] * transposed[later, k] if on else forward[t, k]
            state += cumulative <= level
        path[t] = min(state, size - 1)


@njit(**PLAIN)
def _log_sum(values):  # type: ignore[no-untyped-def]
    largest = values[0]
    for k in range(1, len(values)):
        largest = max(largest, values[k])
    if not math.isfinite(largest):
        return largest
    total = 0.0
    for k in range(len(values)):
        total += math.exp(values[k] - largest)
    return largest + math.log(total)


@njit(**PLAIN)
def _forward_log(initial, transition, likelihood, starts, forward, increments):  # type: ignore[no-untyped-def]
    steps, size = likelihood.shape
    terms, joint = np.empty(size), np.empty(size)
    for t in range(steps):
        for j in range(size):
            if starts[t] == 0:
                for i in range(size):
                    terms[i] = forward[t - 1, i] + transition[i, j]
                joint[j] = _log_sum(terms) + likelihood[t, j]
            elif starts[t] == 1:
                joint[j] = initial[j] + likelihood[t, j]
            else:
                joint[j] = likelihood[t, j] - math.log(size)
        norm = _log_sum(joint)
        increments[t] = norm
        for j in range(size):
            forward[t, j] = joint[j] - norm


@njit(**PLAIN)
def _backward_log(transition, likelihood, starts, ahead):  # type: ignore[no-untyped-def]
    steps, size = likelihood.shape
    terms = np.empty(size)
    ahead[steps - 1] = 0.0
    for t in range(steps - 1, 0, -1):
        if starts[t] != 0:
            ahead[t - 1] = 0.0
            continue
        largest = -np.inf
        for i in range(size):
            for j in range(size):
                terms[j] = transition[i, j] + likelihood[t, j] + ahead[t, j]
            ahead[t - 1, i] = _log_sum(terms)
            largest = max(largest, ahead[t - 1, i])
        for i in range(size):
            ahead[t - 1, i] -= largest


@njit(**PLAIN)
def _combine_log(  # type: ignore[no-untyped-def]
    start, stop, transition, likelihood, starts, weights, forward, ahead, total
):
    """Transitions, and states in place of what is ahead."""
    size = likelihood.shape[1]
    joint, logits = np.empty(size), np.empty((size, size))
    total[:] = 0.0
    for t in range(start, stop):
        if starts[t] == 0 and weights[t] != 0.0:
            largest = -np.inf
            for i in range(size):
                for j in range(size):
                    logits[i, j] = forward[t - 1, i] + transition[i, j] + likelihood[t, j] + ahead[t, j]
                    largest = max(largest, logits[i, j])
            norm = 0.0
            for i in range(size):
                for j in range(size):
                    logits[i, j] = math.exp(logits[i, j] - largest)
                    norm += logits[i, j]
            for i in range(size):
                for j in range(size):
                    total[i, j] += weights[t] * logits[i, j] / norm
        for k in range(size):
            joint[k] = forward[t, k] + ahead[t, k]
        norm = _log_sum(joint)
        for k in range(size):
            ahead[t, k] = math.exp(joint[k] - norm)


@njit(**PLAIN)
def _sample_log(transition, starts, forward, uniform, path):  # type: ignore[no-untyped-def]
    steps, size = forward.shape
    shares = np.empty(size)
    for t in range(steps - 1, -1, -1):
        on = t + 1 < steps and starts[t + 1] == 0
        largest = -np.inf
        for k in range(size):
            shares[k] = forward[t, k] + (transition[k, path[t + 1]] if on else 0.0)
            largest = max(largest, shares[k])
        total = 0.0
        for k in range(size):
            shares[k] = math.exp(shares[k] - largest)
            total += shares[k]
        level = uniform[t] * total
        cumulative, state = 0.0, 0
        for k in range(size):
            cumulative += shares[k]
            state += cumulative <= level
        path[t] = min(state, size - 1)
