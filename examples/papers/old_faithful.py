"""Lecture notes on variational mixtures: Old Faithful pruned from six components to two, and the size by the bound.

Standardised data; β₀ = 1, W₀ = I, ν₀ = 3, m₀ = 0. First K = 6 with α₀ = 10⁻³; then K = 1…6 with α₀ = 1, 100 random
starts each, with and without the multiplicity of the labels.

    python examples/papers/old_faithful.py [folder]
"""

from __future__ import annotations

import sys
from math import lgamma

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp

STARTS = 100
QUICK = {"starts": 3}


def data() -> np.ndarray:
    x = tp.datasets.load("faithful")
    return (x - x.mean(axis=0)) / x.std(axis=0)


def fit(x: np.ndarray, k: int, concentration: float, starts: int = STARTS) -> tp.Fit:
    prior = tp.NormalWishart(mean=[0.0, 0.0], pseudo_count=1.0, dof=3.0, scatter=np.eye(2))
    model = tp.GaussianMixture(k, prior=prior, concentration=concentration)
    return tp.fit(model, x, tp.VB(restarts=starts, tol=1e-9), seed=0)


def log_labelings(k: int, used: int) -> float:
    """log K!/(K − K′)!: the number of ways to name the K′ components that hold data."""
    return lgamma(k + 1) - lgamma(k - used + 1)


def ellipse(axes, mean: np.ndarray, covariance: np.ndarray, colour: str) -> None:
    angle = np.linspace(0, 2 * np.pi, 100)
    path = mean + 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) @ np.linalg.cholesky(covariance).T
    axes.plot(path[:, 0], path[:, 1], color=colour)


def main(folder: str | None = None, starts: int = STARTS) -> dict[str, object]:
    x = data()
    pruned = fit(x, 6, 1e-3, starts)
    counts = np.asarray(pruned.table()["data"])
    print(f"K = 6, α₀ = 0.001: bound {pruned.log_evidence:.6f}, data in the components left: {counts.round(2)}")

    sizes = range(1, 7)
    fits = {k: fit(x, k, 1.0, starts) for k in sizes}
    rows = []
    for k, each in fits.items():
        used = len(each.table()["data"])
        rows.append(
            (
                k,
                used,
                each.log_evidence,
                each.log_evidence + lgamma(k + 1),
                each.log_evidence + log_labelings(k, used),
            )
        )
        print("K = {}: {} in use, bound {:.3f}, + ln K! {:.3f}, + ln K!/(K−K′)! {:.3f}".format(*rows[-1]))

    figure, (left, right) = canvas(2)
    left.plot(x[:, 0], x[:, 1], ".", color=GREY, markersize=3)
    components = pruned.posterior["components"]
    occupied = pruned.order
    for colour, k in zip(COLOURS, occupied, strict=False):
        scatter = np.asarray(components.scatter[k]) / float(components.dof[k])
        ellipse(left, np.asarray(components.location[k]), scatter, colour)
    left.set(xlabel="eruption (standardised)", ylabel="waiting (standardised)")
    left.set_title(f"six components, α₀ = 0.001: {len(occupied)} left", fontsize=10)
    for k, each in fits.items():
        bounds = each.history["restarts"] + lgamma(k + 1)
        right.plot(np.full(len(bounds), k), bounds, ".", color=GREY, markersize=3)
    right.plot(sizes, [row[3] for row in rows], "o-", color=COLOURS[0], label="bound + ln K!")
    right.plot(sizes, [row[2] for row in rows], "s--", color=COLOURS[1], label="bound")
    right.set(xlabel="components K", ylim=(min(row[2] for row in rows[1:]) - 12, max(row[3] for row in rows) + 4))
    right.set_title(f"α₀ = 1, {starts} starts (grey)", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    keep(figure, "old-faithful", folder)
    return {"pruned": pruned, "rows": rows}


if __name__ == "__main__":
    main(*sys.argv[1:2])
