"""Graphs beside the hand-written mixture, and beside BayesPy on its mixture and PCA: one VB iteration."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from threadpoolctl import threadpool_limits

import temperance as tp
from temperance.graph import Graph

from . import mixture
from ._timing import alternate, per_iteration, report


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


FIRST = """
import time
from benchmarks import graph, mixture
x = mixture.simulate({n}, {d}, {k})
began = time.perf_counter()
{fit}
print(time.perf_counter() - began)
"""


def first_call(fit: str, n: int, d: int, k: int) -> float:
    """Compilation and a short fit, in a fresh process without stored compilations; imports are done before."""
    code = FIRST.format(fit=fit.format(d=d, k=k), n=n, d=d, k=k)
    environment = os.environ | {"TEMPERANCE_CACHE": "off"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(found.stdout)


def first_calls(n: int, d: int, k: int) -> None:
    ours, hand, ratios = alternate(
        lambda: first_call("graph.fit(graph.gaussian_mixture({d}, {k}), x, 2)", n, d, k),
        lambda: first_call("mixture.ours(x, {k}, 2)", n, d, k),
        rounds=3,
    )
    report(f"tp.GaussianMixture, first call ({n}, {d}, {k})", ours, hand, ratios)


def beside_hand_written(n: int, d: int, k: int, few: int, many: int) -> None:
    x = mixture.simulate(n, d, k)
    model = gaussian_mixture(d, k)
    ours, hand, ratios = alternate(
        lambda: per_iteration(lambda i: fit(model, x, i), few, many),
        lambda: per_iteration(lambda i: mixture.ours(x, k, i), few, many),
        rounds=3,
    )
    report(f"tp.GaussianMixture ({n}, {d}, {k})", ours, hand, ratios)


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
    # With one thread of BLAS too: small products are faster without the others.
    for threads, words in ((None, "all threads"), (1, "one thread")):

        def bayespy(limit: int | None = threads) -> float:
            with threadpool_limits(limit):
                return per_iteration(lambda i: bayespy_pca(y, 10, i), 5, 45)

        bayespy()
        ours, theirs, ratios = alternate(lambda: per_iteration(lambda i: fit(components, y, i), 20, 420), bayespy)
        report(f"BayesPy, PCA (1000, 20, 10), {words}", ours, theirs, ratios)


def main() -> None:
    beside_hand_written(100_000, 2, 6, 5, 25)
    beside_hand_written(100_000, 16, 32, 2, 6)
    first_calls(100_000, 2, 6)
    first_calls(100_000, 16, 32)
    try:
        beside_bayespy()
    except ImportError:
        print("BayesPy is not installed")


if __name__ == "__main__":
    main()
