"""How many groups of galaxies? Fit the velocities with one to six Gaussian components and compare the evidence.

Run it with `make demo`; it writes out/galaxy.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import temperance as tp

OUT = Path("out")


def main(path: Path = OUT / "galaxy.png") -> None:
    x = tp.datasets.load("galaxy")
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    fits = {}
    for k in range(1, 7):
        fits[k] = tp.fit(tp.GaussianMixture(k, prior=prior), x, tp.VB(restarts=20), seed=0)
        print(f"{k} components: log evidence at least {fits[k].log_evidence:9.3f}")
    best = max(fits, key=lambda k: fits[k].log_evidence)
    print(f"\nThe bound is highest with {best} components:\n")
    fits[best].summary()
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(fits, best, x, path)
    print(f"\nThe picture is in {path}")


def draw(fits: dict[int, tp.Fit], best: int, x: np.ndarray, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(1, 1.6), layout="constrained")
    sizes = list(fits)
    for k, fit in fits.items():
        starts = fit.history["restarts"]
        left.plot(np.full(len(starts), k), starts, ".", color="#999999", markersize=4)
    left.plot(sizes, [fits[k].log_evidence for k in sizes], "o-", color="#0072B2")
    left.set(xlabel="components", ylabel="bound on the log evidence", xticks=sizes)
    left.set_title("best of 20 starts (grey: every start)", fontsize=10)

    grid = np.linspace(x.min() - 3, x.max() + 3, 500)[:, None]
    right.hist(x[:, 0], bins=40, density=True, color="#DDDDDD")
    right.plot(x[:, 0], np.full(len(x), -0.006), "|", color="#555555", markersize=7)
    right.plot(grid[:, 0], np.exp(fits[best].log_predictive(grid)), color="#D55E00")
    right.set(xlabel="velocity (1000 km/s)", ylabel="predictive density")
    right.set_title(f"{best} components", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT / "galaxy.png")
