"""Latent-variable thesis, figures 2.8, 2.9, 3.2 and 3.5: ln s after every single update, galaxy data.

Left α = 0 (variational Bayes by messages): once every factor has been refreshed at α = 0, ln s never falls. Middle:
ln s beside the variational bound at the same q, pass by pass; from then on they are within 0.11 nats of each other.
Right α = 1 (expectation propagation): ln s settles at −232.4, after a first loop of assumed-density filtering.

    python examples/papers/message_traces.py [folder]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp

QUICK = {"passes": 4, "compared": 3}


def fit(alpha: float, passes: int, seed: int = 0) -> tp.Fit:
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    method = tp.MessagePassing(alpha, max_passes=passes, trace=True)
    return tp.fit(tp.GaussianMixture(3, prior=prior), tp.datasets.load("galaxy"), method, seed=seed)


def bounds(compared: int, seed: int) -> list[tuple[float, float]]:
    """ln s and the variational bound at the same q, after each of the first passes with α = 0."""
    fits = [fit(0.0, passes, seed) for passes in range(1, compared + 1)]
    return [(each.log_evidence, float(each.model.bound(each.state, each.data))) for each in fits]


def draw_trace(axis: Any, each: tp.Fit, n: int, colour: str) -> None:
    trace = np.asarray(each.history["trace"], dtype=float).ravel()
    axis.plot(np.arange(1, len(trace) + 1) / n, trace, color=colour, linewidth=1)
    axis.axhline(each.log_evidence, color=GREY, linewidth=1, linestyle="--")
    later = trace[n:][np.isfinite(trace[n:])]  # the first pass falls from 0
    axis.set(xlabel="passes over the data", ylabel="ln s", ylim=(np.quantile(later, 0.05) - 2, later.max() + 2))


def main(folder: str | None = None, passes: int = 40, seed: int = 0, compared: int = 6) -> dict[float, tp.Fit]:
    n = len(tp.datasets.load("galaxy"))
    figure, (zero, zoomed, one) = canvas(3, width=13.0)
    fits = {alpha: fit(alpha, passes, seed) for alpha in (0.0, 1.0)}
    for axis, colour, (alpha, each) in zip((zero, one), COLOURS, fits.items(), strict=False):
        draw_trace(axis, each, n, colour)
        axis.set_title(f"galaxies, α = {alpha:g}: ends at {each.log_evidence:.2f}", fontsize=10)
        skipped = int(np.sum(each.history["skipped"]))
        print(f"α = {alpha:g}: ln s = {each.log_evidence:.3f}, converged: {each.converged}, {skipped} updates skipped")
    found = bounds(compared, seed)
    at = np.arange(1, compared + 1)
    zoomed.plot(at, [scale for scale, _ in found], "o-", color=COLOURS[0], markersize=4, label="ln s")
    zoomed.plot(at, [bound for _, bound in found], "s--", color=COLOURS[2], markersize=4, label="bound at the same q")
    zoomed.set(xlabel="passes over the data", xticks=at)
    zoomed.set_title("galaxies, α = 0", fontsize=10)
    zoomed.legend(frameon=False, fontsize=8)
    for number, (scale, bound) in enumerate(found, start=1):
        print(f"α = 0 after {number} passes: ln s = {scale:.3f}, variational bound {bound:.3f}")
    keep(figure, "message-traces", folder)
    return fits


if __name__ == "__main__":
    main(*sys.argv[1:2])
