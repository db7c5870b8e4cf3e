"""Latent-variable thesis, figures 3.6 to 3.9: predictive densities of EP, VB and Monte Carlo on real data.

Acidity (two components) and enzyme (three), galaxies (three: the poorer fixed point of EP at −243.8 beside the better
one at −232.4, and the logarithms of the densities) and Old Faithful (two). The thesis gives ln s = −200.3 for acidity;
its stated prior gives −200.913. The enzyme data come from the folder TEMPERANCE_DATA, or else they are simulated.

    python examples/papers/predictive_densities.py [folder]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _figure import COLOURS, GREY, bundled_or_simulated, canvas, keep
from ockham_hills import GET, stand_in

import temperance as tp

QUICK: dict[str, Any] = {"draws": 50, "starts": 2, "reference": "prior"}
POOR = 2  # the seed of a start of EP that ends at the poorer fixed point of the galaxies


def prior(d: int) -> tp.NormalWishart:
    scatter = 0.22 * np.eye(d) + (0.02 * (1 - np.eye(d)) if d > 1 else 0.0)
    return tp.NormalWishart(mean=np.zeros(d), pseudo_count=0.01, dof=float(d + 1), scatter=scatter)


def methods(draws: int, starts: int, reference: str | None) -> dict[str, object]:
    return {
        "VB": tp.VB(restarts=starts),
        "EP": tp.EP(restarts=starts),
        "Monte Carlo": tp.ParallelTempering(draws=draws, warmup=draws, replicas=12, reference=reference),
    }


def fit_all(x: np.ndarray, title: str, size: int, found: dict[str, Any]) -> dict[str, tp.Fit]:
    fits = {}
    for label, method in found.items():
        seed = POOR if "poorer" in label else 0
        fits[label] = tp.fit(tp.GaussianMixture(size, prior=prior(x.shape[1])), x, method, seed=seed)
        print(f"{title}, {size} components, {label}: {fits[label].log_evidence:.3f}")
    return fits


def compare(axis: Any, x: np.ndarray, title: str, fits: dict[str, tp.Fit], logarithm: bool = False) -> None:
    """The data, and the predictive density of each fit."""
    grid = np.linspace(x.min() - 1, x.max() + 1, 300)
    if not logarithm:
        axis.hist(x[:, 0], bins=40, density=True, color=GREY, alpha=0.4)
    for colour, (label, fit) in zip(COLOURS, fits.items(), strict=False):
        values = fit.log_predictive(grid[:, None])
        axis.plot(grid, values if logarithm else np.exp(values), color=colour, label=label)
    axis.set_title(title + (", logarithm" if logarithm else ""), fontsize=10)
    axis.legend(frameon=False, fontsize=8)


def contours(axis: Any, x: np.ndarray, fits: dict[str, tp.Fit]) -> None:
    """3.9: the log predictive density of two columns."""
    first, second = np.meshgrid(np.linspace(1, 6, 60), np.linspace(40, 100, 60))
    axis.plot(x[:, 0], x[:, 1], ".", color=GREY, markersize=3)
    for colour, style, (label, fit) in zip(COLOURS, ("dashed", "dotted", "solid"), fits.items(), strict=False):
        values = fit.log_predictive(np.column_stack([first.ravel(), second.ravel()])).reshape(first.shape)
        axis.contour(first, second, values, levels=[-14, -11, -8, -6], colors=colour, linestyles=style, linewidths=1)
        axis.plot([], [], color=colour, linestyle=style, label=label)
    axis.set_title("Old Faithful (272), log predictive density", fontsize=10)
    axis.legend(frameon=False, fontsize=8)


def main(
    folder: str | None = None, draws: int = 2000, starts: int = 20, reference: str | None = None
) -> dict[str, float]:
    figure, (acidity, enzyme, galaxy, logarithm, faithful) = canvas(5, width=20.0)
    found = methods(draws, starts, reference)
    activities, said = bundled_or_simulated("enzyme", GET["enzyme"], lambda: stand_in("enzyme"))
    data = {
        "acidity": (tp.datasets.load("acidity"), 2, found),
        f"enzyme{said}": (activities, 3, found),
        "galaxy": (tp.datasets.load("galaxy"), 3, {**found, "EP, poorer fixed point": tp.EP()}),
        "Old Faithful": (tp.datasets.load("faithful"), 2, found),
    }
    fits = {name: fit_all(x, name, size, by) for name, (x, size, by) in data.items()}
    for axis, name in zip((acidity, enzyme, galaxy), data, strict=False):
        compare(axis, data[name][0], f"{name}, {data[name][1]} components", fits[name])
    best = {label: fit for label, fit in fits["galaxy"].items() if "poorer" not in label}
    compare(logarithm, data["galaxy"][0], "galaxy", best, logarithm=True)
    contours(faithful, data["Old Faithful"][0], fits["Old Faithful"])
    keep(figure, "predictive-densities", folder)
    return {f"{name} {label}": fit.log_evidence for name, each in fits.items() for label, fit in each.items()}


if __name__ == "__main__":
    main(*sys.argv[1:2])
