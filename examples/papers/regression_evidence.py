"""Notes on regression and mixtures: evidence against the order and against N, posterior and predictive density.

Simulated: a cubic in noise. The bound of variational regression (unknown α and β) peaks at the true order, and the more
clearly the more data there are.

    python examples/papers/regression_evidence.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp

QUICK = {"counts": (10,), "orders": 3}


def simulate(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-5, 5, n)
    return x, 1 - x - 0.1 * x**2 + 0.1 * x**3 + 0.5 * rng.normal(size=n)


def main(folder: str | None = None, counts: tuple[int, ...] = (10, 20, 50, 100), orders: int = 8) -> dict[int, int]:
    figure, (left, middle, right, weights) = canvas(4, width=16.0)
    chosen, best = {}, {}
    for colour, n in zip(COLOURS, counts, strict=False):
        data = simulate(n)
        fits = {m: tp.fit(tp.LinearRegression(tp.Polynomial(m)), data, tp.VB(), seed=0) for m in range(1, orders + 1)}
        bounds = np.array([fit.log_evidence for fit in fits.values()])
        chosen[n] = int(np.argmax(bounds)) + 1
        best[n] = bounds.max() / n
        left.plot(list(fits), bounds - bounds.max(), "o-", color=colour, markersize=3, label=f"N = {n}")
        print(f"N = {n}: order {chosen[n]}, bound {bounds.max():.3f}")
    left.set(
        xlabel="order", ylabel="bound below the best", ylim=(-30, 2), title="evidence against the order (simulated)"
    )
    left.legend(frameon=False, fontsize=8)
    middle.plot(list(best), list(best.values()), "o-", color=COLOURS[0])
    middle.set(xlabel="N", ylabel="best bound per datum", title="evidence against N (simulated)")
    x, y = simulate(counts[0])
    fit = tp.fit(tp.LinearRegression(tp.Polynomial(min(3, orders))), (x, y), tp.VB(), seed=0)
    grid = np.linspace(-5.5, 5.5, 200)
    mean, variance = fit.predict(grid)
    right.fill_between(grid, mean - 2 * np.sqrt(variance), mean + 2 * np.sqrt(variance), color=COLOURS[5], alpha=0.4)
    right.plot(grid, mean, color=COLOURS[0])
    right.plot(x, y, "o", color=GREY, markersize=4)
    right.set(xlabel="x", title=f"predictive mean ± 2 sd, N = {counts[0]} (simulated)")
    tp.plot.coefficients(fit, weights)
    weights.set_title("posterior of the weights (simulated)")
    keep(figure, "regression-evidence", folder)
    return chosen


if __name__ == "__main__":
    main(*sys.argv[1:2])
