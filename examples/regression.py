"""How long until Old Faithful erupts again? Regress the waiting time on the length of the last eruption.

The evidence chooses the order of a polynomial; then relevance determination tells the length of the eruption from
eight columns of noise. Run it with `python examples/regression.py`; it writes out/regression.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import temperance as tp

OUT = Path("out")


def main(path: Path = OUT / "regression.png") -> None:
    eruption, waiting = tp.datasets.load("faithful").T
    fits = {order: tp.fit(tp.LinearRegression(tp.Polynomial(order)), (eruption, waiting)) for order in range(6)}
    for order, fit in fits.items():
        print(f"order {order}: log evidence at least {fit.log_evidence:9.3f}")
    best = max(fits, key=lambda order: fits[order].log_evidence)
    print(f"\nThe bound is highest at order {best}.\n")

    noise = np.random.default_rng(0).normal(size=(len(waiting), 8))
    relevance = tp.fit(tp.LinearRegression(ard=True), (np.column_stack([eruption, noise]), waiting))
    print("One precision for each weight; feature 0 is the eruption, the others are noise:\n")
    print(relevance.summary())

    path.parent.mkdir(parents=True, exist_ok=True)
    draw(fits, best, relevance, eruption, waiting, path)
    print(f"\nThe picture is in {path}")


def draw(
    fits: dict[int, tp.Fit], best: int, relevance: tp.Fit, eruption: np.ndarray, waiting: np.ndarray, path: Path
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12, 3.6), width_ratios=(1, 1.6, 1), layout="constrained"
    )
    left.plot(list(fits), [fit.log_evidence for fit in fits.values()], "o-", color="#0072B2")
    left.set(xlabel="order of the polynomial", ylabel="bound on the log evidence", xticks=list(fits))

    grid = np.linspace(1.2, 5.6, 200)
    mean, variance = fits[best].predict(grid)
    sd = np.sqrt(variance)
    middle.fill_between(grid, mean - 2 * sd, mean + 2 * sd, color="#D55E00", alpha=0.2, linewidth=0)
    middle.plot(eruption, waiting, ".", color="#555555", markersize=3)
    middle.plot(grid, mean, color="#D55E00")
    middle.set(xlabel="eruption (minutes)", ylabel="until the next (minutes)")
    middle.set_title(f"order {best}: mean ± 2 standard deviations", fontsize=10)

    table = relevance.table()
    right.errorbar(range(9), table["mean"][1:], 2 * np.array(table["sd"][1:]), fmt="o", color="#0072B2")
    right.axhline(0.0, color="#DDDDDD", zorder=0)
    right.set(xlabel="input", ylabel="weight", xticks=range(9))
    right.set_title("relevance determination", fontsize=10)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT / "regression.png")
