"""Swaps of neighbouring replicas and the ladder's adaptation in Numba, for `gaussian_replicas_kernel.py`.

The same rules as `ParallelTempering._swap_order` and `_next_round`, so that many sweeps need no return to JAX.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ..inference.schedules import LEAST_REJECTION, POWER
from ._host_random import uniform

PLAIN: dict[str, Any] = {"error_model": "numpy"}


@njit(nogil=True, cache=True, **PLAIN)
def exchange(
    number: int,
    bits: np.ndarray,
    at_random: bool,
    ends: np.ndarray,
    energies: np.ndarray,
    ladder: np.ndarray,
    counts: np.ndarray,
    state: np.ndarray,
    targets: np.ndarray,
    measured: np.ndarray,
    identities: np.ndarray,
    tables: np.ndarray,
) -> None:
    """Record what sweep `number` has measured, swap, and at the ends of rounds move the ladder.

    `ladder` holds betas and average rejections of this round, `counts` which replica stands at each temperature, the
    sweeps so far and those before this round. A row of `measured` is forward, backward, slopes, the energy of the
    target and the betas; `tables` has no rows unless `energies` are those at all temperatures.
    """
    size, every = len(state), len(tables) > 0
    targets[number] = state[-1]
    identities[number] = counts[:size]
    row = measured[number]
    row[2 * size - 2 : 3 * size - 2] = energies[:, -1]
    row[3 * size - 2] = energies[-1, size - 1] if every else energies[-1, 1]
    row[3 * size - 1 :] = ladder[:size]
    if every:
        tables[number] = energies[:, :size]
    counts[size] += 1
    done = counts[size] - counts[size + 1]
    drawn = int(uniform(bits) * (size - 1))
    for k in range(size - 1):
        forward = energies[k, k + 1] - energies[k, k] if every else energies[k, 2] - energies[k, 1]
        backward = energies[k + 1, k + 1] - energies[k + 1, k] if every else energies[k + 1, 1] - energies[k + 1, 0]
        row[k], row[size - 1 + k] = forward, backward
        acceptance = math.exp(min(forward - backward, 0.0))
        ladder[size + k] += (1.0 - acceptance - ladder[size + k]) / done
        offered = k == drawn if at_random else k % 2 == (counts[size] - 1) % 2
        # Pairs that are offered a swap have no replica in common: what was measured stays true.
        if offered and uniform(bits) < acceptance:
            counts[k], counts[k + 1] = counts[k + 1], counts[k]
            for i in range(state.shape[1]):
                for j in range(state.shape[2]):
                    state[k, i, j], state[k + 1, i, j] = state[k + 1, i, j], state[k, i, j]
    for end in ends:
        if counts[size] == end:
            equalise(ladder[:size], ladder[size:])
            ladder[size:] = 0.0
            counts[size + 1] = counts[size]


@njit(nogil=True, cache=True, **PLAIN)
def equalise(betas: np.ndarray, rejection: np.ndarray) -> None:
    """`schedules.equal_rejection`, in place."""
    size = len(betas)
    places, barrier = betas ** (1.0 / POWER), np.zeros(size)
    for k in range(size - 1):
        barrier[k + 1] = barrier[k] + max(rejection[k], LEAST_REJECTION)
    k = 0
    for step in range(1, size - 1):
        wanted = barrier[-1] * step / (size - 1)
        while k < size - 2 and barrier[k + 1] < wanted:
            k += 1
        share = (wanted - barrier[k]) / (barrier[k + 1] - barrier[k])
        betas[step] = (places[k] + share * (places[k + 1] - places[k])) ** POWER
