"""Graphs beside the hand-written mixture, and beside BayesPy on its mixture and PCA: one VB iteration."""

from __future__ import annotations

import numpy as np

import temperance as tp
from temperance.graph import Graph

from . import mixture
from ._timing import alternate, per_iteration, report, seconds


def gaussian_mixture(d: int, k: int) -> tp.models.Model:
    g = Graph()
    weights = g.dirichlet("weights", np.ones(k))
    components = g.normal_wishart("components", np.zeros(d), 1.0, d + 2.0, np.eye(d), plates=g.plate("k", k))
    z = g.categorical("z", weights, plates="n")
    g.normal("x", components[z], observed=True)
    return g.model()


def pca(q: int) -> tp.models.Model:
    g = Graph()
    relevance = g.gamma("relevance", 1e-3, 1e-3, plates=g.plate("q", q))
    loadings = g.normal("loadings", 0.0, g.diagonal(relevance, "q"), plates="d")
    scores = g.normal("scores", 0.0, 1.0, dim=q, plates="n")
    noise = g.gamma("noise", 1e-3, 1e-3)
    g.normal("x", g.dot(scores, loadings), noise, plates=("n", "d"), observed=True)
    return g.model()


def fit(model: tp.models.Model, x: np.ndarray, iterations: int) -> tp.Fit:
    return tp.fit(model, x, tp.VB(max_iter=iterations, tol=0.0), seed=0, progress=False)


def bayespy_pca(x: np.ndarray, q: int, iterations: int) -> None:
    from bayespy.inference import VB
    from bayespy.nodes import Gamma, GaussianARD, SumMultiply

    n, d = x.shape
    relevance = Gamma(1e-3, 1e-3, plates=(q,))
    loadings = GaussianARD(0, relevance, shape=(q,), plates=(1, d))
    scores = GaussianARD(0, 1, shape=(q,), plates=(n, 1))
    noise = Gamma(1e-3, 1e-3)
    y = GaussianARD(SumMultiply("i,i", loadings, scores), noise)
    y.observe(x)
    loadings.initialize_from_random()
    VB(y, scores, loadings, relevance, noise).update(repeat=iterations, verbose=False, tol=0.0)


def beside_hand_written(n: int, d: int, k: int, few: int, many: int) -> None:
    x = mixture.simulate(n, d, k)
    model = gaussian_mixture(d, k)
    first = seconds(lambda: fit(model, x, few))
    first_hand = seconds(lambda: mixture.ours(x, k, few))
    ours, hand, ratios = alternate(
        lambda: per_iteration(lambda i: fit(model, x, i), few, many),
        lambda: per_iteration(lambda i: mixture.ours(x, k, i), few, many),
        rounds=3,
    )
    report(f"tp.GaussianMixture ({n}, {d}, {k})", ours, hand, ratios)
    print(f"{'':44s} first call {first:.2f} s, hand-written {first_hand:.2f} s")


def beside_bayespy() -> None:
    x = mixture.simulate(10_000, 2, 6)
    model = gaussian_mixture(2, 6)
    fit(model, x, 20)
    ours, theirs, ratios = alternate(
        lambda: per_iteration(lambda i: fit(model, x, i), 20, 120),
        lambda: per_iteration(lambda i: mixture.bayespy(x, 6, i), 2, 5),
        rounds=3,
    )
    report("BayesPy, mixture (10000, 2, 6)", ours, theirs, ratios)
    rng = np.random.default_rng(0)
    y = rng.normal(size=(1000, 4)) @ rng.normal(size=(4, 20)) + 0.1 * rng.normal(size=(1000, 20))
    components = pca(10)
    fit(components, y, 5)
    ours, theirs, ratios = alternate(
        lambda: per_iteration(lambda i: fit(components, y, i), 5, 45),
        lambda: per_iteration(lambda i: bayespy_pca(y, 10, i), 2, 7),
        rounds=3,
    )
    report("BayesPy, PCA (1000, 20, 10)", ours, theirs, ratios)


def main() -> None:
    beside_hand_written(100_000, 2, 6, 5, 25)
    beside_hand_written(100_000, 16, 32, 2, 6)
    try:
        beside_bayespy()
    except ImportError:
        print("BayesPy is not installed")


if __name__ == "__main__":
    main()
