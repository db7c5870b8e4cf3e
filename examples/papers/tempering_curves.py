"""Variational tempering, figure 3: the bound on toy images, and on faces the predictive density and the temperature.

Each against the iterations of VI, annealed VI and VT. Without the faces of the extended Yale B set, balls lit from
random sides stand in for them, and the figure says so.

    TEMPERANCE_DATA=folder python examples/papers/tempering_curves.py [folder]
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import tempering_faces
import tempering_images
from _figure import COLOURS, canvas, keep

import temperance as tp

QUICK = {"images": 200, "train": 50, "sweeps": 6, "points": 3}


def stopped(method, sweeps: int):
    """The same method, ended after this many sweeps at T = 1."""
    if isinstance(method, tp.VB):
        return replace(method, max_iter=sweeps)
    return replace(method, method=replace(method.method, max_iter=sweeps))


def main(
    folder: str | None = None, images: int = 10_000, train: int = 1500, sweeps: int = 100, points: int = 10
) -> dict[str, float]:
    figure, (left, middle, right) = canvas(3, width=13.0)
    toys = tempering_images.simulate("blocks", images)[0]
    toy = tempering_images.model()
    old, new, said = tempering_faces.faces(train)
    model = tp.FactorialMixture(10, noise=0.5, probability=0.3, factor_variance=0.5)
    ends = {}
    at = np.unique(np.geomspace(1, 2 * sweeps, points).astype(int))
    for colour, (name, method) in zip(COLOURS, tempering_faces.methods(sweeps).items(), strict=False):
        bounds = np.asarray(tp.fit(toy, toys, method, seed=0, progress=False).history["elbo"])
        left.plot(np.arange(1, len(bounds) + 1), bounds, color=colour, label=name)
        fit = tp.fit(model, old, method, seed=0, progress=False)
        heat = np.asarray(fit.history.get("temperature", np.ones(2 * sweeps)))
        right.plot(np.arange(1, len(heat) + 1), heat, color=colour, label=name)
        parts = [tp.fit(model, old, stopped(method, int(n)), seed=0, progress=False) for n in at]
        scores = [float(np.mean(part.log_predictive(new))) for part in parts]
        heated = getattr(method, "length", 0) or 0  # sweeps before those that are counted
        middle.plot(heated + at, scores, "o-", color=colour, markersize=3, label=name)
        ends[name] = scores[-1]
        print(f"{name}: toy images {bounds[-1]:.1f}, new faces {scores[-1]:.3f} nats each")
    what = "simulated balls" if said else "faces"
    left.set(xlabel="iteration", ylabel="bound at T = 1", xscale="log", title="toy images (simulated)")
    middle.set(xlabel="iteration", ylabel="log predictive density", xscale="log", title=f"new {what}, at T = 1")
    right.set(xlabel="iteration", ylabel="expected temperature", xscale="log", yscale="log", title=what)
    left.legend(frameon=False, fontsize=8)
    keep(figure, "tempering-curves", folder)
    return ends


if __name__ == "__main__":
    main(*sys.argv[1:2])
