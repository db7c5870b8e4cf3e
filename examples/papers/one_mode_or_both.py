"""Latent-variable thesis, figure 2.7: as the modes of a joint density part, EP settles on one of them.

Twenty numbers from two Gaussians of variance 1 with unknown means; the joint density has a mode for each order of the
means. The data of the thesis are not stated, so both sets are simulated: the second is the first pulled apart.

    python examples/papers/one_mode_or_both.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, canvas, keep

import temperance as tp

QUICK = {"starts": 2}
GRID = np.linspace(-5, 5, 161)


def simulate(distance: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=20) + np.repeat([-0.5, 0.5], 10) * distance


def log_joint(x: np.ndarray) -> np.ndarray:
    """log p(x, μ₁, μ₂) on the grid, up to a constant: the prior of both means is N(0, 10)."""
    each = np.exp(-0.5 * (x[:, None] - GRID) ** 2)
    return np.log(each[:, :, None] + each[:, None, :]).sum(0) - (GRID[:, None] ** 2 + GRID**2) / 20


def main(folder: str | None = None, starts: int = 10, distances: tuple[float, ...] = (2.0, 2.5)) -> dict[float, int]:
    figure, axes = canvas(len(distances), width=4.0 * len(distances), height=3.8)
    pair, prior = tp.KnownCovarianceGaussian([[1.0]]), tp.Normal([0.0], [[10.0]])
    model = tp.Mixture(2, pair, prior=prior, weights=[0.5, 0.5])
    orders: dict[float, int] = {}
    turn = np.linspace(0, 2 * np.pi, 100)
    for axis, distance in zip(axes, distances, strict=True):
        x = simulate(distance)
        density = log_joint(x)
        axis.contour(GRID, GRID, np.exp(density - density.max()).T, levels=6, colors=COLOURS[1], linewidths=0.8)
        sides = set()
        for seed in range(starts):
            fit = tp.fit(model, x[:, None], tp.EP(max_passes=500), seed=seed)
            if not fit.converged:
                continue
            q = fit.posterior["components"]
            centre = np.asarray(q.location)[:, 0]
            sd = 1 / np.sqrt(np.asarray(q.precision)[:, 0, 0])
            sides.add(int(np.sign(centre[0] - centre[1])) if abs(centre[0] - centre[1]) > 0.05 else 0)
            axis.plot(centre[0] + 2 * sd[0] * np.cos(turn), centre[1] + 2 * sd[1] * np.sin(turn), "k", linewidth=1)
        orders[distance] = len(sides)
        what = "both modes" if sides == {0} else "one mode from each start"
        axis.set(xlabel="μ₁", ylabel="μ₂", title=f"clusters {distance:g} apart (simulated):\n{what}")
        axis.set(xlim=(-3, 3), ylim=(-3, 3))
        axis.title.set_fontsize(9)
        print(f"{distance:g} apart: EP ends at {len(sides)} different solutions, {what}")
    keep(figure, "one-mode-or-both", folder)
    return orders


if __name__ == "__main__":
    main(*sys.argv[1:2])
