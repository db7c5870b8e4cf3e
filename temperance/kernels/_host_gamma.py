"""Gamma functions for Numba kernels: the scalar twins of `special.py`, by the same recurrences and series.

Import this module only from a kernel: it imports Numba.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LOG_2, _LOG_PI = math.log(2.0), math.log(math.pi)
_LARGE = 20.0


@njit(**_OPTIONS)
def log_gamma(x: float) -> float:
    """log Γ(x) for x > 0, and NaN below."""
    if not x > 0.0:
        return math.inf if x == 0.0 else math.nan
    product, z = 1.0, x
    if x < 8.0:
        u = x * (x + 7.0)
        product = u * (u + 6.0) * (u + 10.0) * (u + 12.0)
        z = x + 8.0
    y = 1.0 / z
    s = y * y
    tail = y * (1 / 12 + s * (-1 / 360 + s * (1 / 1260 + s * (-1 / 1680 + s * (1 / 1188 + s * (
        -691 / 360360 + s * (1 / 156 + s * (-3617 / 122400))))))))  # fmt: skip
    value = (z - 0.5) * math.log(z) - z + _HALF_LOG_2PI + tail
    return value - math.log(product) if x < 8.0 else value


@njit(**_OPTIONS)
def _series(s: float) -> tuple[float, float]:
    """The tails of ψ and of ψ′ at 1/√s: Σ B₂ⱼ sʲ/(2j) and Σ B₂ⱼ sʲ."""
    tail = s * (1 / 12 + s * (-1 / 120 + s * (1 / 252 + s * (-1 / 240 + s * (1 / 132 + s * (
        -691 / 32760 + s * (1 / 12 + s * (-3617 / 8160))))))))  # fmt: skip
    slope = s * (1 / 6 + s * (-1 / 30 + s * (1 / 42 + s * (-1 / 30 + s * (5 / 66 + s * (
        -691 / 2730 + s * (7 / 6 + s * (-3617 / 510))))))))  # fmt: skip
    return tail, slope


@njit(**_OPTIONS)
def _head(x: float) -> tuple[float, float]:
    """Σ 1/(x+i) and Σ 1/(x+i)² over i < 8, added in pairs of i and 7 − i."""
    u, middle = x * (x + 7.0), 2.0 * x + 7.0
    a, b, c, d = 1.0 / u, 1.0 / (u + 6.0), 1.0 / (u + 10.0), 1.0 / (u + 12.0)
    square = middle * middle
    first = middle * (a + b + c + d)
    second = a * (square * a - 2.0) + b * (square * b - 2.0) + c * (square * c - 2.0) + d * (square * d - 2.0)
    return first, second


@njit(**_OPTIONS)
def digamma_and_slope(x: float) -> tuple[float, float]:
    """ψ(x) and ψ′(x) for x > 0."""
    z = x if x > _LARGE else x + 8.0
    y = 1.0 / z
    tail, slope = _series(y * y)
    value, derivative = math.log(z) - 0.5 * y - tail, y + y * (0.5 * y + slope)
    if x <= _LARGE:
        first, second = _head(x)
        value, derivative = value - first, derivative + second
    return value, derivative


@njit(**_OPTIONS)
def trigamma_deficit(x: float, slope: float) -> float:
    """x − 1/ψ′(x), without the cancellation at large x; `slope` is ψ′(x)."""
    if x <= _LARGE:
        return x - 1.0 / slope
    y = 1.0 / x
    tail = 0.5 * y + _series(y * y)[1]  # x ψ′(x) − 1
    return x * tail / (1.0 + tail)


@njit(**_OPTIONS)
def _log_minus_digamma(x: float) -> tuple[float, float]:
    """log x − ψ(x) > 0 and its derivative, without the cancellation of the two at large x."""
    z = x if x > _LARGE else x + 8.0
    y = 1.0 / z
    tail, slope = _series(y * y)
    value, derivative = 0.5 * y + tail, -y * (0.5 * y + slope)
    if x <= _LARGE:
        first, second = _head(x)
        value += math.log(x * y) + first
        derivative += 1.0 / x - y - second
    return value, derivative


@njit(**_OPTIONS)
def log_multigamma(a: float, d: int) -> float:
    """log Γ_d(a); pairs of neighbours by Legendre's duplication formula."""
    value = 0.25 * d * (d - 1) * _LOG_PI
    for j in range(d // 2):
        z = 2.0 * a - (2 * j + 1)
        value += log_gamma(z) + (1.0 - z) * _LOG_2 + 0.5 * _LOG_PI
    return value + log_gamma(a - 0.5 * (d - 1)) if d % 2 else value


@njit(**_OPTIONS)
def wishart_gap(dof: float, d: int) -> tuple[float, float]:
    """log|E Λ| − E log|Λ| of a Wishart, and its derivative in dof."""
    gap, slope = 0.0, 0.0
    for c in range(1, d, 2):
        value, curve = _log_minus_digamma(dof - c)
        gap += 2.0 * (value - math.log1p(-c / dof))
        slope += 2.0 * (curve - c / (dof * (dof - c)))
    if d % 2:
        value, curve = _log_minus_digamma(0.5 * (dof - (d - 1)))
        gap += value
        slope += 0.5 * curve
        if d > 1:
            gap -= math.log1p(-(d - 1) / dof)
            slope -= (d - 1) / (dof * (dof - (d - 1)))
    return gap, slope


@njit(**_OPTIONS)
def inverse_wishart_gap(gap: float, d: int, guess: float) -> float:
    """The degrees of freedom that have this gap, by Newton in (log(dof − d + 1), log gap), from `guess`; NaN if none
    have."""
    if not gap > -1e-10:
        return math.nan
    target = math.log(max(gap, 1e-16))  # a gap lost to rounding is set to the smallest distinguishable from zero
    above = guess - (d - 1)
    for _ in range(40):
        value, slope = wishart_gap(d - 1 + above, d)
        step = min(max((math.log(value) - target) * value / (slope * above), -3.0), 3.0)
        above *= math.exp(-step)
        # Newton's next error is of the order of this step squared.
        if not abs(step) > 1e-8:
            return d - 1 + above
    return d - 1 + above
