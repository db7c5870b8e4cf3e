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


def posterior_means(axis, x: np.ndarray, fit: tp.Fit) -> None:
    """The data, and the posterior means, darker where the weight is larger (figures 1b and 1d)."""
    centres = np.asarray(fit.posterior["components"].location)
    weights = np.asarray(fit.posterior["weights"].concentration)
    opacity = np.clip(weights / weights.max(), 0.15, 1)
    if x.shape[1] == 1:
        axis.hist(x[:, 0], bins=40, color="#cccccc")
        for centre, alpha in zip(centres[:, 0], opacity, strict=True):
            axis.axvline(centre, color=COLOURS[1], alpha=alpha, linewidth=3)
    else:
        axis.plot(x[:, 0], x[:, 1], ".", color="#cccccc", markersize=2)
        axis.scatter(centres[:, 0], centres[:, 1], color=COLOURS[1], alpha=opacity, s=60, zorder=3)
    axis.set_title("posterior means, darker: heavier (simulated)", fontsize=9)


def main(folder: str | None = None, count: int = TRIALS) -> dict[int, list[float]]:
    figure, axes = canvas(4, width=14.0)
    final: dict[int, list[float]] = {}
    for axis, means, d in zip(axes[::2], axes[1::2], (1, 2), strict=True):
        x = simulate(d, seed=d)
        fits = trials(x, count)
        posterior_means(means, x, max(fits, key=lambda fit: fit.log_evidence))
        final[d] = [fit.log_evidence for fit in fits]
        for number, fit in enumerate(fits):
            bounds = fit.history["elbo"]  # shorter than asked for where the bound stopped moving altogether
            axis.plot(np.arange(1, len(bounds) + 1), bounds, color=COLOURS[number], label=f"start {number + 1}")
        axis.set(xlabel="iteration", ylabel="bound", xscale="log")
        axis.set_title(f"{d} dimension{'s' if d > 1 else ''} (simulated)", fontsize=10)
        print(f"{d}-d: final bounds {np.round(sorted(final[d]), 2)}")
    axes[2].legend(frameon=False, fontsize=8)
    keep(figure, "tutorial-section7", folder)
    return final


if __name__ == "__main__":
    main(*sys.argv[1:2])
