"""exp, log, digamma and exp ∘ digamma for Numba kernels, as straight-line arithmetic that the compiler can vectorise.

Import this module only from a kernel: it imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Without nnan and ninf, because NaN and infinity must be kept.
FAST = {"reassoc", "nsz", "arcp", "contract"}

# Options for kernels that several threads run at a time.
OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": FAST}
EXACT: dict[str, Any] = {"forceinline": True, "error_model": "numpy", "fastmath": {"contract"}}
_LOG2E = 1.4426950408889634
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of √½
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@intrinsic
def _bits(typing: Any, x: Any) -> Any:
    return types.int64(types.float64), lambda _, builder, __, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def _double(typing: Any, x: Any) -> Any:
    return types.float64(types.int64), lambda _, builder, __, args: builder.bitcast(args[0], ir.DoubleType())


@njit(**EXACT)
def exp(x: float) -> float:
    """eˣ for x ≤ 700, to 2e-16 |x| (relative); below −700 it stays at e⁻⁷⁰⁰, which every caller treats as zero."""
    x = max(x, -700.0)
    # Rounded by floor and not by adding 1.5·2⁵², which a caller's "reassoc" would cancel.
    n = np.floor(x * _LOG2E + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    # Taylor's series for |r| ≤ ½ log 2, its terms in pairs: short chains of dependent operations.
    square = r * r
    low = (1.0 + r) + square * (0.5 + r * (1 / 6))
    middle = (1 / 24 + r * (1 / 120)) + square * (1 / 720 + r * (1 / 5040))
    high = (1 / 40320 + r * (1 / 362880)) + square * (1 / 3628800 + r * (1 / 39916800))
    fourth = square * square
    p = low + fourth * (middle + fourth * (high + fourth * (1 / 479001600)))
    return _double(_bits(p) + (np.int64(np.int32(n)) << 52))  # type: ignore[call-arg]


@njit(**EXACT)
def _exponent(x: float) -> int:
    """n with √½ ≤ x / 2ⁿ < √2."""
    return (_bits(x) - _ROOT_HALF) >> 52  # type: ignore[call-arg]


@njit(**EXACT)
def _scaled(x: float, n: int) -> float:
    """x / 2ⁿ."""
    return _double(_bits(x) - (n << 52))  # type: ignore[call-arg]


@njit(**EXACT)
def log(x: float) -> float:
    """log x for positive, normal x, with errors below 3e-16 |log x| + 2e-16. (A loop that calls `math.log` cannot be
    vectorised.)"""
    n = _exponent(x)
    m = _scaled(x, n)
    # For √½ ≤ m < √2, log m = 2 artanh s, of which |s| < 0.172.
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    w = z * z
    low = (1.0 + z * (1 / 3)) + w * (1 / 5 + z * (1 / 7))
    high = (1 / 9 + z * (1 / 11)) + w * (1 / 13 + z * (1 / 15))
    last = (1 / 17 + z * (1 / 19)) + w * (1 / 21)
    fourth = w * w
    k = float(np.int32(n))
    return k * _LN2_HIGH + (k * _LN2_LOW + 2.0 * s * (low + fourth * (high + fourth * last)))


@njit(**EXACT)
def exp_digamma(x: float) -> float:
    """exp ψ(x) for x > 0, to 1e-12 (relative); below about 1.4e-3 it is the smallest value exp can give."""
    factor, recurrence = _digamma(x)
    return factor * exp(-recurrence)


@njit(**EXACT)
def digamma(x: float) -> float:
    """ψ(x) for x > 0, to 1e-12."""
    factor, recurrence = _digamma(x)
    return log(factor) - recurrence


@njit(**EXACT)
def _digamma(x: float) -> tuple[float, float]:
    """exp ψ(x + 8) by its asymptotic series, and Σ_{i<8} 1/(x + i), whose terms are added in pairs with the
    denominators u, u + 6, u + 10 and u + 12: no logarithm, and one division in all."""
    u = x * (x + 7.0)
    a = u * (u + 6.0)
    b = (u + 10.0) * (u + 12.0)
    y = x + 7.5
    ab = a * b
    square = y * y
    inverse = 1.0 / (ab * square)
    recurrence = (2.0 * x + 7.0) * ((2.0 * u + 6.0) * b + (2.0 * u + 22.0) * a) * (inverse * square)
    # exp ψ(y + ½) = y + 1/(24 y) − 37/(5760 y³) + …
    z = inverse * ab
    tail = (-37 / 5760 + z * (10313 / 2903040)) + z * z * (-5509121 / 1393459200 + z * (2709398569 / 367873228800))
    return y * ((1.0 + z * (1 / 24)) + z * z * tail), recurrence
