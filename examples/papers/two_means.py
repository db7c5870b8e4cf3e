"""One datum and two unknown means: the approximation from α = 0 to beyond 1 (latent-variable thesis, figures 2.1, 2.2).

x = 0, π = ½, precision 1, prior N(0, 10). ln s rises with α through the exact evidence at α = 1, and so does the width.

    python examples/papers/two_means.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import temperance as tp

ALPHAS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.5, 2.0)
SHOWN = (0.0, 0.5, 1.0)
QUICK: dict[str, int] = {}  # it takes seconds as it is


def fit(alpha: float) -> tp.Fit:
    prior = tp.Normal([0.0], precision=[[0.1]])
    # The same start for both, so that neither is preferred: with one datum that is the solution.
    model = tp.GaussianMixture(2, covariance=[[1.0]], weights=[0.5, 0.5], prior=prior, init=[[0.0], [0.0]])
    return tp.fit(model, np.zeros((1, 1)), tp.MessagePassing(alpha), seed=0)


def main(folder: str | None = None) -> dict[float, tp.Fit]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fits = {alpha: fit(alpha) for alpha in ALPHAS}
    exact = -0.5 * np.log(2 * np.pi * 11.0)
    log_s = [each.log_evidence for each in fits.values()]
    width = [float(each.posterior["components"].covariance[0, 0, 0]) ** 0.5 for each in fits.values()]
    for alpha, value, deviation in zip(ALPHAS, log_s, width, strict=True):
        print(f"α = {alpha:5.3f}: ln s = {value:.6f}, standard deviation {deviation:.4f}")
    print(f"exact log evidence {exact:.6f}")

    page, axes = plt.subplots(1, 5, figsize=(14, 2.9), layout="constrained")
    grid = np.linspace(-9, 9, 181)
    first, second = np.meshgrid(grid, grid)
    normal = lambda m, v: np.exp(-0.5 * m**2 / v) / np.sqrt(2 * np.pi * v)  # noqa: E731
    joint = 0.5 * (normal(first, 1.0) + normal(second, 1.0)) * normal(first, 10.0) * normal(second, 10.0)
    levels = np.max(joint) * np.array([0.02, 0.1, 0.3, 0.6])
    for each, alpha in zip(axes, SHOWN, strict=False):
        variance = float(fits[alpha].posterior["components"].covariance[0, 0, 0])
        q = np.exp(fits[alpha].log_evidence) * normal(first, variance) * normal(second, variance)
        each.contour(grid, grid, joint, levels, colors="#D55E00", linewidths=1)
        each.contour(grid, grid, q, levels, colors="black", linewidths=1)
        each.set(title=f"α = {alpha:g}", xlabel="μ₁", aspect="equal")
    axes[0].set_ylabel("μ₂")
    axes[3].plot(ALPHAS, log_s, "o-", color="#0072B2", markersize=3)
    axes[3].axhline(exact, color="#999999", linestyle="--", linewidth=1)
    axes[3].set(xlabel="α", title="ln s (dashed: exact)")
    axes[4].plot(ALPHAS, width, "o-", color="#0072B2", markersize=3)
    axes[4].set(xlabel="α", title="standard deviation")
    path = Path(folder or "out") / "two-means.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(path, dpi=110)
    print(f"the figure is in {path}")
    return fits


if __name__ == "__main__":
    main(*sys.argv[1:2])
