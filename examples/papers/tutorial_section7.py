"""Variational-inference tutorial, section 7: batch VI on mixtures of three Gaussians in one and two dimensions.

N = 1000, known covariance I, means ~ N(0, 3 I), weights ~ Dirichlet(1); 5 random starts of 100 iterations.

    python examples/papers/tutorial_section7.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, canvas, keep

import temperance as tp

N, K, TRIALS, ITERATIONS = 1000, 3, 5, 100
QUICK = {"count": 1}


def simulate(d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    means = rng.normal(scale=np.sqrt(3.0), size=(K, d))
    return means[rng.choice(K, N, p=rng.dirichlet(np.ones(K)))] + rng.normal(size=(N, d))


def trials(x: np.ndarray, count: int = TRIALS) -> list[tp.Fit]:
    """Separate fits, so that the path of each start is kept."""
    d = x.shape[1]
    model = tp.GaussianMixture(
        K,
        covariance=np.eye(d),
        prior=tp.Normal(np.zeros(d), 3.0 * np.eye(d)),
        concentration=1.0,
        init="random",
    )
    return [tp.fit(model, x, tp.VB(max_iter=ITERATIONS, tol=0.0), seed=seed) for seed in range(count)]


def main(folder: str | None = None, count: int = TRIALS) -> dict[int, list[float]]:
    figure, axes = canvas(2)
    final: dict[int, list[float]] = {}
    for axis, d in zip(axes, (1, 2), strict=True):
        fits = trials(simulate(d, seed=d), count)
        final[d] = [fit.log_evidence for fit in fits]
        for number, fit in enumerate(fits):
            bounds = fit.history["elbo"]  # shorter than asked for where the bound stopped moving altogether
            axis.plot(np.arange(1, len(bounds) + 1), bounds, color=COLOURS[number], label=f"start {number + 1}")
        axis.set(xlabel="iteration", ylabel="bound", xscale="log")
        axis.set_title(f"{d} dimension{'s' if d > 1 else ''}", fontsize=10)
        print(f"{d}-d: final bounds {np.round(sorted(final[d]), 2)}")
    axes[1].legend(frameon=False, fontsize=8)
    keep(figure, "tutorial-section7", folder)
    return final


if __name__ == "__main__":
    main(*sys.argv[1:2])
