"""Variational-inference tutorial, section 7: SVI with minibatches of 1, 20 and 50 against batch VI.

The data and the model are those of `tutorial_section7.py`, the starts draws from the prior; 500 steps, 5 starts. The
tutorial's step size 1/(t + 100) is a plain average that leaves the start a weight of 1/6 after 500 steps;
(t + 10)^(−0.7) forgets it.

    python examples/papers/tutorial_minibatches.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, GREY, canvas, keep
from tutorial_section7 import ITERATIONS, TRIALS, K, simulate

import temperance as tp

SIZES, STEPS, EVERY = (1, 20, 50), 500, 10
QUICK = {"trials": 1, "steps": 20}
SCHEDULES = {"1/(t + 100)": (100.0, 1.0), "(t + 10)^(−0.7)": (10.0, 0.7)}


def mixture(d: int) -> tp.GaussianMixture:
    prior = tp.Normal(np.zeros(d), 3.0 * np.eye(d))
    return tp.GaussianMixture(K, covariance=np.eye(d), prior=prior, concentration=1.0, init="prior")


def paths(x: np.ndarray, size: int, step_size: tuple[float, float], trials: int, steps: int) -> np.ndarray:
    """The bound of all the data after every few steps, a row for each start."""
    method = tp.SVI(batch_size=size, steps=steps, step_size=step_size, elbo=True, report=EVERY)
    return np.stack([tp.fit(mixture(x.shape[1]), x, method, seed=seed).history["elbo"] for seed in range(trials)])


def main(folder: str | None = None, trials: int = TRIALS, steps: int = STEPS) -> dict[tuple[int, int, str], float]:
    figure, axes = canvas(2)
    short: dict[tuple[int, int, str], float] = {}
    for axis, d in zip(axes, (1, 2), strict=True):
        x = simulate(d, seed=d)
        batch = tp.fit(mixture(d), x, tp.VB(restarts=trials, max_iter=ITERATIONS, tol=0.0)).log_evidence
        for colour, size in zip(COLOURS, SIZES, strict=False):
            for style, (name, step_size) in zip((":", "-"), SCHEDULES.items(), strict=True):
                gap = np.maximum(batch - paths(x, size, step_size, trials, steps), 1e-3)
                taken = EVERY * np.arange(1, gap.shape[1] + 1)
                axis.plot(taken, np.median(gap, axis=0), style, color=colour, label=f"{size}, ρ = {name}")
                short[d, size, name] = float(np.median(gap[:, -1]))
                print(f"{d}-d, minibatch {size:2d}, {name:16s}: {short[d, size, name]:8.2f} nats below batch")
        axis.axhline(1.0, color=GREY, linewidth=0.8)
        axis.set(xlabel="step", ylabel=f"nats below batch (median of {trials} starts)", yscale="log", xscale="log")
        axis.set_title(f"{d} dimension{'s' if d > 1 else ''} (simulated)", fontsize=10)
    axes[1].legend(frameon=False, fontsize=7, title="minibatch", title_fontsize=8)
    keep(figure, "tutorial-minibatches", folder)
    return short


if __name__ == "__main__":
    main(*sys.argv[1:2])
