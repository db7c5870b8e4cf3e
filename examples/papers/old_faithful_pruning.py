"""Lecture notes on variational mixtures: six components on Old Faithful, pruned to two iteration by iteration.

Standardised data, α₀ = 10⁻³, β₀ = 1, W₀ = I, ν₀ = 3, m₀ = 0. The bounds of all starts are drawn beside it.

    python examples/papers/old_faithful_pruning.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, GREY, canvas, keep
from old_faithful import data, ellipse

import temperance as tp

QUICK = {"starts": 2, "shown": (1, 5, 20)}


def fit(x: np.ndarray, sweeps: int, seed: int) -> tp.Fit:
    prior = tp.NormalWishart(mean=[0.0, 0.0], pseudo_count=1.0, dof=3.0, scatter=np.eye(2))
    model = tp.GaussianMixture(6, prior=prior, concentration=1e-3, init="kmeans++")
    return tp.fit(model, x, tp.VB(max_iter=sweeps, tol=0.0), seed=seed)


def main(folder: str | None = None, starts: int = 10, shown: tuple[int, ...] = (1, 15, 60, 120)) -> dict[int, int]:
    x = data()
    figure, axes = canvas(len(shown) + 1, width=3.2 * (len(shown) + 1), height=3.2)
    left = {}
    for axis, sweeps in zip(axes, shown, strict=False):
        each = fit(x, sweeps, 0)
        axis.plot(x[:, 0], x[:, 1], ".", color=GREY, markersize=2)
        components = each.posterior["components"]
        for colour, k in zip(COLOURS, each.order, strict=False):
            covariance = np.asarray(components.scatter[k]) / float(components.dof[k])
            ellipse(axis, np.asarray(components.location[k]), covariance, colour)
        left[sweeps] = len(each.order)
        axis.set_title(f"{sweeps} iteration{'' if sweeps == 1 else 's'}: {left[sweeps]} components", fontsize=9)
    for seed in range(starts):
        bounds = np.asarray(fit(x, shown[-1], seed).history["elbo"])
        axes[-1].plot(np.arange(1, len(bounds) + 1), bounds, color=COLOURS[seed % 6], linewidth=1)
        print(f"start {seed}: bound {bounds[-1]:.3f}")
    axes[-1].set(xlabel="iteration", xscale="log", title=f"bounds of {starts} starts")
    print("components left by iteration:", left)
    keep(figure, "old-faithful-pruning", folder)
    return left


if __name__ == "__main__":
    main(*sys.argv[1:2])
