"""Latent-variable thesis, figures 3.6 to 3.9: predictive densities of EP, VB and Monte Carlo on real data.

Acidity (two components), galaxies (three, and the poorer fixed point of EP at −243.8 beside the better one at −232.4)
and Old Faithful (two). The thesis gives ln s = −200.3 for acidity; its stated prior gives −200.913.

    python examples/papers/predictive_densities.py [folder]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp

QUICK: dict[str, Any] = {"draws": 50, "starts": 2, "reference": "prior"}


def prior(d: int) -> tp.NormalWishart:
    scatter = 0.22 * np.eye(d) + (0.02 * (1 - np.eye(d)) if d > 1 else 0.0)
    return tp.NormalWishart(mean=np.zeros(d), pseudo_count=0.01, dof=float(d + 1), scatter=scatter)


def methods(draws: int, starts: int, reference: str | None) -> dict[str, object]:
    return {
        "VB": tp.VB(restarts=starts),
        "EP": tp.EP(restarts=starts),
        "Monte Carlo": tp.ParallelTempering(draws=draws, warmup=draws, replicas=12, reference=reference),
    }


def main(
    folder: str | None = None, draws: int = 2000, starts: int = 20, reference: str | None = None
) -> dict[str, float]:
    figure, axes = canvas(3, width=13.0)
    log_s = {}
    for axis, (name, size) in zip(axes, (("acidity", 2), ("galaxy", 3)), strict=False):
        x = tp.datasets.load(name)
        grid = np.linspace(x.min() - 1, x.max() + 1, 300)
        axis.hist(x[:, 0], bins=40, density=True, color=GREY, alpha=0.4)
        for colour, (label, method) in zip(COLOURS, methods(draws, starts, reference).items(), strict=False):
            fit = tp.fit(tp.GaussianMixture(size, prior=prior(1)), x, method, seed=0)
            log_s[f"{name} {label}"] = fit.log_evidence
            axis.plot(grid, np.exp(fit.log_predictive(grid[:, None])), color=colour, label=label)
            print(f"{name}, {size} components, {label}: {fit.log_evidence:.3f}")
            if label == "EP":
                print(f"   fixed points of EP: {np.unique(np.round(fit.history['restarts'], 1))}")
        axis.set_title(f"{name}, {size} components", fontsize=10)
        axis.legend(frameon=False, fontsize=8)
    x = tp.datasets.load("faithful")
    fit = tp.fit(tp.GaussianMixture(2, prior=prior(2)), x, tp.EP(restarts=max(2, starts // 4)), seed=0)
    first, second = np.meshgrid(np.linspace(1, 6, 60), np.linspace(40, 100, 60))
    values = fit.log_predictive(np.column_stack([first.ravel(), second.ravel()])).reshape(first.shape)
    axes[2].contour(first, second, values, levels=12, cmap="viridis")
    axes[2].plot(x[:, 0], x[:, 1], ".", color=GREY, markersize=3)
    axes[2].set_title("Old Faithful (272), log predictive density by EP", fontsize=10)
    log_s["faithful EP"] = fit.log_evidence
    keep(figure, "predictive-densities", folder)
    return log_s


if __name__ == "__main__":
    main(*sys.argv[1:2])
