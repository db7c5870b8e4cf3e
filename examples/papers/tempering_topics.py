"""Variational tempering, figure 2: held-out log predictive likelihood and temperature against passes, topic models.

The paper's corpora (New York Times, arXiv, Wikipedia) are not bundled: this is a small simulated corpus, and the figure
says so. `python -m benchmarks.tempering_gpu` runs simulated corpora of the paper's sizes.

    python examples/papers/tempering_topics.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, canvas, keep

import temperance as tp

QUICK = {"n": 200, "passes": 4}
K, WORDS, LENGTH = 20, 400, 80


def simulate(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(WORDS, 0.05), K)
    shares = rng.dirichlet(np.full(K, 0.1), n + n // 5)
    counts = np.array([rng.multinomial(LENGTH, share @ topics) for share in shares])
    return counts[:n], counts[n:]


def main(folder: str | None = None, n: int = 3000, passes: int = 10) -> dict[str, float]:
    train, test = simulate(n)
    svi = tp.SVI(batch_size=max(20, n // 20), passes=passes, held_out=test, patience=10 * passes)
    grid = np.geomspace(1, 5, 20)
    methods = {
        "SVI": svi,
        "AVI, a fifth of the passes": tp.Annealed(svi, "linear", start=3.0, length=passes / 5),
        "AVI, half of the passes": tp.Annealed(svi, "linear", start=1.5, length=passes / 2),
        "VT": tp.VT(grid, method=svi, length=passes // 2),
        "LVT": tp.LVT(grid, method=svi, length=passes // 2),
    }
    figure, (left, right) = canvas(2)
    scores = {}
    for colour, (name, method) in zip(COLOURS, methods.items(), strict=False):
        fit = tp.fit(tp.LDA(K), train, method, seed=0)
        scores[name] = tp.document_completion(fit, test).log_predictive
        at = np.asarray(fit.history["step"], dtype=float) / (n / svi.batch_size)
        left.plot(at, fit.history["held_out"], color=colour, label=name)
        heat = fit.history.get("temperature")
        if heat is not None:
            right.plot(at[: len(heat)], np.asarray(heat)[: len(at)], color=colour, label=name)
        print(f"{name}: {scores[name]:.4f} nats per held-out token")
    left.set(xlabel="passes", ylabel="held-out log predictive density", title="simulated corpus")
    left.legend(frameon=False, fontsize=8)
    right.set(xlabel="passes", ylabel="temperature", title="simulated corpus")
    keep(figure, "tempering-topics", folder)
    return scores


if __name__ == "__main__":
    main(*sys.argv[1:2])
