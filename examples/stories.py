"""Four figures of the home page and the gallery: a bracket that closes, a critical temperature, EP beside VB, and news.

The topics are those of 2,246 news articles (corpus_ap, in the folder that TEMPERANCE_DATA names); without them
simulated documents stand in, and the figure says so.

    python examples/stories.py [folder [story]]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "papers"))

import numpy as np
import small_sets
from _figure import COLOURS, GREY, bundled_or_simulated, canvas, keep

import temperance as tp


def bracket(folder: str | None = None, draws: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)) -> dict[int, Any]:
    """Parallel tempering with more and more draws, beside the sum over all 256 assignments of eight data."""
    x = small_sets.simulate()
    truth = small_sets.exact(x)[0]
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    figure, (axis,) = canvas(1, width=5.0)
    found = {}
    for n in draws:
        method = tp.ParallelTempering(draws=n, warmup=500, replicas=12)
        fit = tp.fit(tp.GaussianMixture(2, prior=prior), x[:, None], method, seed=0, progress=False)
        found[n] = fit.bracket
        axis.plot(n, fit.log_evidence, "o", color=COLOURS[0])
        if fit.bracket is None:
            axis.annotate("withheld", (n, fit.log_evidence), (0, 8), textcoords="offset points", fontsize=8)
        else:
            axis.plot([n, n], fit.bracket, "-_", color=COLOURS[0], linewidth=3)
        print(f"{n} draws: {fit.log_evidence:.3f}, bracket {fit.bracket}, exact {truth:.3f}")
    axis.axhline(truth, color=COLOURS[1], linestyle="--", label="exact: the sum over 256 assignments")
    axis.set(xlabel="draws", ylabel="log evidence", xscale="log", title="the bracket closes (eight simulated data)")
    axis.legend(frameon=False, fontsize=8)
    keep(figure, "story-bracket", folder)
    return {"exact": truth, **found}


def critical(folder: str | None = None) -> dict[str, float]:
    """The means of two Gaussians of known variance, cooled: they part at the critical temperature."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-3, 1, 200), rng.normal(3, 1, 200)])
    model = tp.GaussianMixture(2, covariance=np.eye(1), weights=[0.5, 0.5], prior=tp.Normal([0.0], [[1e4]]))
    found = float(tp.fit(model, x[:, None], tp.Annealed(length=20), seed=0).details["critical"])
    heat = np.geomspace(30, 1, 120)
    path, means = [], np.array([-1e-3, 1e-3]) + x.mean()
    for temperature in heat:
        for _ in range(200):
            logits = -0.5 * (x[:, None] - means) ** 2 / temperature
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            means = shares.T @ x / shares.sum(axis=0)
        path.append(means)
        means = means + np.array([-1e-3, 1e-3])
    print(f"critical temperature {found:.3f}, variance of the data {x.var():.3f}")
    figure, (axis,) = canvas(1, width=5.0)
    axis.plot(heat, path, color=COLOURS[0])
    axis.axvline(found, color=COLOURS[1], linestyle="--", label=f"critical temperature {found:.1f}")
    axis.set(xlabel="temperature", ylabel="means of two components", xscale="log")
    axis.set_title("two clusters appear as the fit cools (simulated)", fontsize=10)
    axis.invert_xaxis()
    axis.legend(frameon=False, fontsize=8)
    keep(figure, "story-critical", folder)
    return {"critical": found, "variance": float(x.var())}


def predictive(folder: str | None = None, sets: int = 20) -> np.ndarray:
    """The probability that predictive densities of EP and VB misplace, on sets small enough for exact sums."""
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    grid = small_sets.GRID
    figure, (left, right) = canvas(2, width=8.0)
    misplaced, converged = np.empty((sets, 2)), np.empty(sets, dtype=bool)
    for seed in range(sets):
        x = small_sets.simulate(seed)
        truth = np.exp(small_sets.exact(x)[1])
        fits = [tp.fit(tp.GaussianMixture(2, prior=prior), x[:, None], m(restarts=5), seed=0) for m in (tp.EP, tp.VB)]
        densities = [np.exp(fit.log_predictive(grid[:, None])) for fit in fits]
        misplaced[seed] = [50 * np.abs(density - truth).sum() * (grid[1] - grid[0]) for density in densities]
        converged[seed] = fits[0].converged
        if seed == 0:
            left.plot(grid, truth, color="black", linewidth=3, alpha=0.4, label="exact")
            for colour, name, density in zip(COLOURS, ("EP", "VB"), densities, strict=False):
                left.plot(grid, density, color=colour, label=name)
    closer = int(np.sum(misplaced[converged, 0] < misplaced[converged, 1]))
    print(f"EP converged on {converged.sum()} of {sets} sets, and is closer than VB on {closer} of those")
    print(f"median misplaced, %: EP and VB {np.median(misplaced[converged], axis=0).round(2)}")
    left.set(xlabel="x", ylabel="predictive density", title="eight simulated data")
    left.legend(frameon=False, fontsize=8)
    right.plot(*misplaced[converged].T, "o", color=COLOURS[0], label="EP converged")
    right.plot(*misplaced[~converged].T, "o", color=COLOURS[0], fillstyle="none", label="EP did not converge")
    right.axline((0, 0), slope=1, color=GREY, linewidth=1)
    right.set(
        xlabel="EP: probability misplaced (%)", ylabel="VB", title=f"EP closer on {closer} of {converged.sum()} sets"
    )
    right.legend(frameon=False, fontsize=8)
    keep(figure, "story-predictive", folder)
    return misplaced


def simulate_news() -> Any:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 10)
    return np.array([rng.multinomial(100, rng.dirichlet(np.full(10, 0.1)) @ topics) for _ in range(300)])


def news(folder: str | None = None, topics: int = 20) -> tp.Fit:
    """Topics of news articles by collapsed variational Bayes, and how long that took."""
    get = (
        "save the AssociatedPress counts of R's topicmodels as corpus_ap.npz and their words as corpus_ap.vocab.txt.gz"
    )
    counts, said = bundled_or_simulated("ap", get, simulate_news)
    words = [f"word{number}" for number in range(300)] if said else tp.datasets.load("ap.vocab")
    begun = time.monotonic()
    fit = tp.fit(tp.LDA(topics, vocabulary=words), counts, tp.CVB0(passes=30), seed=0, progress=False)
    seconds = time.monotonic() - begun
    print(f"{counts.shape[0]} documents, {topics} topics: {seconds:.1f} s, {fit.converged=}")
    figure = tp.plot.topics(fit, n_words=6, most=6, relevance=0.6)
    what = "simulated documents" if said else "news articles of the Associated Press"
    figure.suptitle(f"six of {topics} topics of {counts.shape[0]:,} {what}", fontsize=11)
    keep(figure, "story-news", folder)
    return fit


STORIES = {"bracket": bracket, "critical": critical, "predictive": predictive, "news": news}


def main(folder: str = "out", *names: str) -> None:
    for name in names or STORIES:
        STORIES[name](folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
