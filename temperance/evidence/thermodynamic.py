"""Thermodynamic integration, log p(x) = ∫₀¹ E_β[dU/dβ] dβ, as in thesis 4.2: for comparison, not the default.

The integrand can grow like −1/β towards β = 0. The thesis fits that tail; errata: even with exact averages the fit is
half a nat too high with a narrow prior and several nats too low with a wide one. `evidence/reweighting.py` needs no
interpolation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .tempered import Estimate, Tempered, linearised


class Tail(NamedTuple):
    """f(β) = c − 1/(aβ + b), thesis (4.16)."""

    a: float
    b: float
    c: float

    def __call__(self, beta: np.ndarray) -> np.ndarray:
        return self.c - 1.0 / (self.a * beta + self.b)

    def integral(self, upper: float) -> float:
        """The integral from 0 to `upper`: the first terms of (4.20)."""
        return float((np.log(self.b) - np.log(self.a * upper + self.b)) / self.a + self.c * upper)


def fit_tail(betas: np.ndarray, averages: np.ndarray) -> Tail | None:
    """Fit the tail through three points, the first at β = 0; None if no such rising curve passes through them.

    The thesis iterates (4.17)–(4.19), which may take hundreds of rounds; as 1/(c − L) is linear in β, their fixed
    point is the solution of one linear equation for c.
    """
    _, second, third = betas
    one, two, three = averages
    rise_two, rise_three = third * (two - one), second * (three - one)
    if not rise_two > rise_three > 0:
        return None  # not concave: no tail to fit
    c = (rise_two * three - rise_three * two) / (rise_two - rise_three)
    b = 1.0 / (c - one)
    a = (1.0 / (c - two) - b) / second
    return Tail(a, b, c) if a > 0 and c > three else None


def integrate(betas: np.ndarray, averages: np.ndarray, tail: bool = True) -> float:
    """∫₀¹ of the averages: by the tail over the first interval (with `tail`), by piecewise cubic Hermite elsewhere."""
    fitted = fit_tail(betas[:3], averages[:3]) if tail and len(betas) > 2 else None
    if fitted is None:
        return hermite_integral(betas, averages)
    return fitted.integral(betas[1]) + hermite_integral(betas[1:], averages[1:])


def hermite_integral(x: np.ndarray, y: np.ndarray) -> float:
    """The integral of the piecewise cubic through these points that rises and falls where they do (Fritsch & Butland,
    1984), with SciPy's slopes at the ends; SciPy's own takes longer to import than a small fit."""
    width, rise = np.diff(x), np.diff(y) / np.diff(x)
    slopes = np.full(len(x), rise[0])
    if len(x) > 2:
        one, two = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
        same = rise[:-1] * rise[1:] > 0
        left, right = (np.where(same, part, 1.0) for part in (rise[:-1], rise[1:]))
        slopes[1:-1] = np.where(same, (one + two) / (one / left + two / right), 0.0)
        for end, (h, g), (m, n) in ((0, width[:2], rise[:2]), (-1, width[:-3:-1], rise[:-3:-1])):
            slope = ((2 * h + g) * m - h * n) / (h + g)
            steep = m * n < 0 and abs(slope) > 3 * abs(m)
            slopes[end] = 0.0 if slope * m <= 0 else 3 * m if steep else slope
    return float(width @ (0.5 * (y[:-1] + y[1:]) + width * (slopes[:-1] - slopes[1:]) / 12))


def thermodynamic(tempered: Tempered, tail: bool = True) -> Estimate:
    """log p(x) by quadrature; its error is the Monte Carlo error alone, without that of the interpolation."""
    averages = tempered.slopes.mean(axis=0)
    value = integrate(tempered.betas, averages, tail)
    spread = tempered.slopes.std(axis=0) / np.sqrt(len(tempered.slopes))
    gradient = np.zeros_like(averages)
    for k in np.flatnonzero(spread):
        moved = averages.copy()
        moved[k] += 1e-3 * spread[k]
        gradient[k] = (integrate(tempered.betas, moved, tail) - value) / (1e-3 * spread[k])
    return linearised(tempered.log_start + value, (tempered.slopes - averages) @ gradient)
