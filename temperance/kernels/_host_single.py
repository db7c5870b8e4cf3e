"""exp, log and digamma in single precision for Numba kernels: a vector holds twice as many numbers as in `_host.py`.

All constants are in single precision: a single double would make the compiler widen the whole loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ._host import EXACT

FAINT = np.float32(-38.0)  # least exponent: the product of two such powers still has full precision

_LOG2E, _LN2_HIGH, _LN2_LOW = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
_EXP = tuple(np.float32(value) for value in (1, 1, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040))
_LOG = tuple(np.float32(value) for value in (1, 1 / 3, 1 / 5, 1 / 7, 1 / 9))
_ROOT_HALF = 0x3F3504F3  # the bits of √½
_HALF, _ONE, _TWO, _THREE, _FOUR = (np.float32(value) for value in (0.5, 1, 2, 3, 4))
_TWELFTH, _FOURTH_TERM, _SIXTH_TERM = (np.float32(value) for value in (1 / 12, 1 / 120, 1 / 252))
_LARGE = np.float32(1e9)  # beyond it the recurrence is negligible, and its terms would overflow

_BITS, _FLOAT = ir.IntType(32), ir.FloatType()


@intrinsic
def _scale(typing: Any, x: Any, n: Any) -> Any:
    """x · 2ⁿ for a whole n."""

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        x, n = given
        shifted = builder.shl(builder.fptosi(n, _BITS), _BITS(23))
        return builder.bitcast(builder.add(builder.bitcast(x, _BITS), shifted), _FLOAT)

    return types.float32(types.float32, types.float32), generate


@intrinsic
def _exponent_of(typing: Any, x: Any) -> Any:
    """n with √½ ≤ x / 2ⁿ < √2."""

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        bits = builder.sub(builder.bitcast(given[0], _BITS), _BITS(_ROOT_HALF))
        return builder.sitofp(builder.ashr(bits, _BITS(23)), _FLOAT)

    return types.float32(types.float32), generate


@njit(**EXACT)
def _times(x: np.float32, n: np.float32) -> np.float32:
    return _scale(x, n)  # type: ignore[call-arg]


@njit(**EXACT)
def _exponent(x: np.float32) -> np.float32:
    return _exponent_of(x)  # type: ignore[call-arg]


@njit(**EXACT)
def exp(x: np.float32) -> np.float32:
    """eˣ for −38 ≤ x ≤ 80, to 2e-7 (relative); below, e⁻³⁸."""
    x = max(x, FAINT)
    n = np.floor(x * _LOG2E + _HALF)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    square = r * r
    low = (_EXP[0] + r) + square * (_EXP[2] + r * _EXP[3])
    high = (_EXP[4] + r * _EXP[5]) + square * (_EXP[6] + r * _EXP[7])
    return _times(low + (square * square) * high, n)


@njit(**EXACT)
def log(x: np.float32) -> np.float32:
    """log x for positive x that is not subnormal, to 1e-7 (relative, and absolute about x = 1)."""
    n = _exponent(x)
    m = _times(x, -n)
    s = (m - _ONE) / (m + _ONE)
    z = s * s
    series = (_LOG[0] + z * _LOG[1]) + (z * z) * ((_LOG[2] + z * _LOG[3]) + (z * z) * _LOG[4])
    return n * _LN2_HIGH + (n * _LN2_LOW + _TWO * s * series)


@njit(**EXACT)
def digamma(x: np.float32) -> np.float32:
    """ψ(x) for x ≥ 1e-12, to 1e-6 (relative, and absolute about its zero): the asymptotic series at x + 4, and
    Σ_{i<4} 1/(x + i), whose terms in pairs have the denominators u and u + 2."""
    x = min(x, _LARGE)
    u = x * (x + _THREE)
    y = x + _FOUR
    inverse = _ONE / y
    z = inverse * inverse
    tail = inverse * _HALF + z * (_TWELFTH - z * (_FOURTH_TERM - z * _SIXTH_TERM))
    return log(y) - tail - (_TWO * x + _THREE) * (_TWO * u + _TWO) / (u * (u + _TWO))
