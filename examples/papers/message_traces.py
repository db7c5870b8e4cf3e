"""Latent-variable thesis, figures 2.8, 2.9, 3.2 and 3.5: ln s after every single update, galaxy data.

Left α = 0 (variational Bayes by messages): once every factor has been refreshed at α = 0, ln s never falls. Right
α = 1 (expectation propagation): it settles at −232.4, after a first loop of assumed-density filtering.

    python examples/papers/message_traces.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp

QUICK = {"passes": 4}


def fit(alpha: float, passes: int, seed: int = 0) -> tp.Fit:
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    method = tp.MessagePassing(alpha, max_passes=passes, trace=True)
    return tp.fit(tp.GaussianMixture(3, prior=prior), tp.datasets.load("galaxy"), method, seed=seed)


def main(folder: str | None = None, passes: int = 40, seed: int = 0) -> dict[float, tp.Fit]:
    n = len(tp.datasets.load("galaxy"))
    figure, axes = canvas(2)
    fits = {alpha: fit(alpha, passes, seed) for alpha in (0.0, 1.0)}
    for axis, colour, (alpha, each) in zip(axes, COLOURS, fits.items(), strict=False):
        trace = np.asarray(each.history["trace"], dtype=float).ravel()
        axis.plot(np.arange(1, len(trace) + 1) / n, trace, color=colour, linewidth=1)
        axis.axhline(each.log_evidence, color=GREY, linewidth=1, linestyle="--")
        later = trace[n:][np.isfinite(trace[n:])]  # the first pass falls from 0
        axis.set(xlabel="passes over the data", ylabel="ln s", ylim=(np.quantile(later, 0.05) - 2, later.max() + 2))
        axis.set_title(f"α = {alpha:g}: ends at {each.log_evidence:.2f}", fontsize=10)
        print(f"α = {alpha:g}: ln s = {each.log_evidence:.3f}, converged: {each.converged}")
    keep(figure, "message-traces", folder)
    return fits


if __name__ == "__main__":
    main(*sys.argv[1:2])
