"""Four figures of the home page and the gallery: a bracket that closes, a critical temperature, EP beside VB, and news.

The topics are those of 2,246 news articles (corpus_ap, in the folder that TEMPERANCE_DATA names); without them simulated
documents stand in, and the figure says so.

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


def bracket(folder: str | None = None, temperatures: tuple[int, ...] = (5, 10, 20, 50, 100, 200)) -> dict[int, Any]:
    """Annealed importance sampling up and down: both ends approach the sum over all 256 assignments."""
    x = small_sets.simulate()
    truth = small_sets.exact(x)[0]
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    found = {}
    for n in temperatures:
        method = tp.AIS(particles=200, temperatures=n)
        found[n] = tp.fit(tp.GaussianMixture(2, prior=prior), x[:, None], method, seed=0).details["estimates"]
    ends = {name: [found[n][name].log_evidence for n in temperatures] for name in ("upwards", "downwards")}
    print(f"exact {truth:.3f}", {name: np.round(values, 3) for name, values in ends.items()})
    figure, (axis,) = canvas(1, width=5.0)
    axis.fill_between(temperatures, ends["upwards"], ends["downwards"], color=COLOURS[5], alpha=0.4)
    for colour, (name, values) in zip(COLOURS, ends.items(), strict=False):
        axis.plot(temperatures, values, "o-", color=colour, label=name)
    axis.axhline(truth, color=GREY, linestyle="--", label="exact")
    axis.set(xlabel="temperatures", ylabel="log evidence", xscale="log", title="the bracket closes (eight simulated data)")
    axis.legend(frameon=False, fontsize=8)
    keep(figure, "story-bracket", folder)
    return {"exact": truth, **ends}


def critical(folder: str | None = None) -> dict[str, float]:
    """The means of two Gaussians of known variance, cooled: they part where the library finds the critical temperature."""
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
        means = means + [-1e-3, 1e-3]
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


def predictive(folder: str | None = None) -> dict[str, float]:
    """The predictive density of eight data by EP and VB, beside the exact one."""
    x = small_sets.simulate()
    truth = np.exp(small_sets.exact(x)[1])
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    figure, (axis,) = canvas(1, width=5.0)
    axis.plot(small_sets.GRID, truth, color="black", label="exact")
    errors = {}
    for colour, method in zip(COLOURS, (tp.EP(restarts=5), tp.VB(restarts=5)), strict=False):
        fit = tp.fit(tp.GaussianMixture(2, prior=prior), x[:, None], method, seed=0)
        density = np.exp(fit.log_predictive(small_sets.GRID[:, None]))
        name = type(method).__name__
        errors[name] = float(np.abs(density - truth).sum() * (small_sets.GRID[1] - small_sets.GRID[0]) / 2)
        axis.plot(small_sets.GRID, density, "--", color=colour, label=f"{name}: {errors[name]:.1%} misplaced")
    print("probability in the wrong place:", errors)
    axis.plot(x, np.zeros(len(x)), "|", color=GREY, markersize=12)
    axis.set(xlabel="x", ylabel="predictive density", title="EP beside VB (eight simulated data)")
    axis.legend(frameon=False, fontsize=8)
    keep(figure, "story-predictive", folder)
    return errors


def simulate_news() -> Any:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 10)
    return np.array([rng.multinomial(100, rng.dirichlet(np.full(10, 0.1)) @ topics) for _ in range(300)])


def news(folder: str | None = None, topics: int = 20) -> tp.Fit:
    """Topics of news articles by collapsed variational Bayes, and how long that took."""
    get = "save the AssociatedPress counts of R's topicmodels as corpus_ap.npz and their words as corpus_ap.vocab.txt.gz"
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
