"""Random variables for Numba kernels: xoshiro256** (Blackman and Vigna, 2018), seeded with 256 bits of a JAX key.

Import this module only from a kernel: it imports Numba.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

_OPTIONS: dict[str, Any] = {"error_model": "numpy"}
_5, _7, _9, _11, _17, _19, _45, _57 = (np.uint64(n) for n in (5, 7, 9, 11, 17, 19, 45, 57))


@njit(**_OPTIONS)
def next_bits(state: np.ndarray) -> np.uint64:
    """The next 64 bits; advances `state`, which holds four words."""
    scrambled = state[1] * _5
    result = ((scrambled << _7) | (scrambled >> _57)) * _9
    shifted = state[1] << _17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << _45) | (state[3] >> _19)
    return result


@njit(**_OPTIONS)
def uniform(state: np.ndarray) -> float:
    """A uniform number between 0 and 1, zero excluded, so that its logarithm is finite."""
    return (float(next_bits(state) >> _11) + 0.5) * (1.0 / 9007199254740992.0)


@njit(**_OPTIONS)
def fill_uniform(state: np.ndarray, out: np.ndarray) -> None:
    """Fill an array with uniform numbers, four times faster than calls of `uniform`: the state stays in registers."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    for n in range(len(out)):
        scrambled = s1 * _5
        result = ((scrambled << _7) | (scrambled >> _57)) * _9
        shifted = s1 << _17
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        s3 = (s3 << _45) | (s3 >> _19)
        out[n] = (float(result >> _11) + 0.5) * (1.0 / 9007199254740992.0)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@njit(**_OPTIONS)
def normal(state: np.ndarray) -> float:
    radius = math.sqrt(-2.0 * math.log(uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))


@njit(**_OPTIONS)
def log_gamma_variate(state: np.ndarray, shape: float) -> float:
    """The logarithm of a Gamma(shape, 1) variable, by Marsaglia and Tsang (2000); NaN for an invalid shape."""
    if not (shape > 0.0 and shape < math.inf):
        return math.nan
    boost = 0.0
    if shape < 1.0:  # G(a) = G(a + 1) U^(1/a)
        boost = math.log(uniform(state)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        root = 1.0 + c * x
        if root > 0.0:
            log_v = 3.0 * math.log(root)
            if math.log(uniform(state)) < 0.5 * x * x + d * (1.0 - root * root * root + log_v):
                return math.log(d) + log_v + boost
