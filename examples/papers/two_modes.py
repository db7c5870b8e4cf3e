"""Latent-variable thesis, figures 2.5 and 2.6: one datum, two components, and when variational Bayes prunes one.

x = 0, π = ½, precision 1, prior N(0, 1/v₀). Solutions of VB are where γ = g(γ) (2.97); they break the symmetry below a
critical v₀. The thesis prints 0.97 for it; the equation gives 0.0970.

    python examples/papers/two_modes.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

QUICK: dict[str, int] = {}  # it takes seconds as it is
GRID = np.linspace(1e-6, 1 - 1e-6, 20_000)  # an even number, so that ½ is not one of them


def g(gamma: np.ndarray, precision: float) -> np.ndarray:
    first, second = 1 / (precision + gamma), 1 / (precision + 1 - gamma)
    return 1 / (1 + np.exp(np.clip(0.5 * (first - second), -700, 700)))


def solutions(precision: float) -> int:
    """How often g crosses the diagonal; the two ends count where g stays inside them."""
    inside = np.concatenate(
        [[g(np.zeros(1), precision)[0]], g(GRID, precision) - GRID, [g(np.ones(1), precision)[0] - 1]]
    )
    return int(np.sum(np.diff(np.sign(inside)) != 0))


def critical(low: float = 0.05, high: float = 0.2) -> float:
    """The prior precision above which only the symmetric solution is left."""
    while high - low > 1e-5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if solutions(middle) > 1 else (low, middle)
    return high


def crossings(precision: float) -> np.ndarray:
    """The responsibilities γ that solve the equation, off the two ends of the grid."""
    above = np.sign(g(GRID, precision) - GRID)
    return GRID[1:][np.diff(above) != 0]


def main(folder: str | None = None) -> dict[str, float]:
    at = critical()
    print(f"solutions at v₀ = 0.01: {solutions(0.01)}; critical v₀ = {at:.4f} (the thesis: 0.97)")
    figure, (left, right) = canvas(2)
    for colour, precision in zip(COLOURS, (0.01, round(at, 4), 0.2), strict=False):
        left.plot(GRID, g(GRID, precision), color=colour, label=f"v₀ = {precision:g}")
    left.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    left.set(xlabel="γ", ylabel="g(γ)", title="solutions of VB: where g crosses the diagonal")
    left.legend(frameon=False, fontsize=8)
    for precision in np.geomspace(0.005, 0.3, 120):
        found = crossings(precision)
        right.plot(np.full(len(found), precision), found, ".", color=COLOURS[0], markersize=2)
    right.axvline(at, color=GREY, linewidth=1, linestyle="--")
    right.set(xlabel="prior precision v₀", ylabel="γ", xscale="log", title=f"one solution above v₀ = {at:.4f}")
    keep(figure, "two-modes", folder)
    return {"critical": at}


if __name__ == "__main__":
    main(*sys.argv[1:2])
