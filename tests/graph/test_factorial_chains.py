"""Two hidden Markov chains behind one series (a factorial hidden Markov model), which no ready-made model covers:
bound, draws and tempered evidence beside the sum over all pairs of paths."""

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.graph import Graph

X = np.array([0.1, 2.3, 3.1, -0.2, 1.9, 0.8])
NOISE, WIDTH, CONCENTRATION = 4.0, 0.3, np.array([2.0, 1.0])


def factorial_chains() -> Graph:
    g = Graph()
    levels = []
    for name in ("a", "b"):
        first = g.dirichlet(f"first {name}", np.ones(2))
        step = g.dirichlet(f"step {name}", CONCENTRATION, plates=g.plate(f"k{name}", 2))
        level = g.normal(f"level {name}", 0.0, WIDTH, plates=f"k{name}")
        levels.append(level[g.markov_chain(f"z {name}", first, step, time="t", plates="n")])
    g.normal("x", levels[0] + levels[1], NOISE, observed=True)
    return g


def log_path(path: tuple[int, ...]) -> float:
    """log p of a path with the Dirichlet distributions of its beginning and its steps integrated out."""
    value = -np.log(2.0)
    for row in range(2):
        counts = np.array([sum(p == (row, to) for p in pairwise(path)) for to in range(2)])
        both = CONCENTRATION + counts
        value += gammaln(CONCENTRATION.sum()) - gammaln(both.sum()) + np.sum(gammaln(both) - gammaln(CONCENTRATION))
    return float(value)


@cache
def exact() -> tuple[float, float]:
    """log p(X), and the posterior mean of the sum of the squared levels."""
    t = len(X)
    paths = list(product(range(2), repeat=t))
    prior = {path: log_path(path) for path in paths}
    logs, squares = [], []
    for a, b in product(paths, repeat=2):
        design = np.concatenate([np.eye(2)[list(a)], np.eye(2)[list(b)]], axis=1)
        covariance = design @ design.T / WIDTH + np.eye(t) / NOISE
        logs.append(prior[a] + prior[b] + multivariate_normal(np.zeros(t), covariance).logpdf(X))
        spread = np.linalg.inv(WIDTH * np.eye(4) + NOISE * design.T @ design)
        mean = NOISE * spread @ design.T @ X
        squares.append(mean @ mean + np.trace(spread))
    total = float(logsumexp(logs))
    return total, float(np.exp(np.array(logs) - total) @ np.array(squares))


@pytest.mark.slow
def test_evidence_and_posterior_are_those_of_all_pairs_of_paths() -> None:
    model, data = factorial_chains().model(), X[None]
    evidence, square = exact()
    bound = tp.fit(model, data, tp.VB(restarts=10, tol=1e-9))
    assert evidence - 6.0 < bound.log_evidence < evidence
    tempered = tp.fit(model, data, tp.ParallelTempering(draws=4000, replicas=10))
    assert tempered.bracket is not None and tempered.standard_error is not None
    assert tempered.standard_error < 0.1 and abs(tempered.log_evidence - evidence) < 4 * tempered.standard_error
    assert tempered.bracket[0] <= evidence <= tempered.bracket[1]
    annealed = tp.fit(model, data, tp.AIS())
    assert annealed.bracket is not None
    assert max(annealed.bracket[0], tempered.bracket[0]) <= min(annealed.bracket[1], tempered.bracket[1])
    gibbs = tp.fit(model, data, tp.Gibbs(draws=4000, warmup=500))
    draws = np.concatenate([np.asarray(gibbs.posterior[f"level {name}"])[..., 0] for name in "ab"], axis=-1)
    each = np.square(draws).sum(axis=-1)
    assert each.mean() == pytest.approx(square, rel=0.1)
