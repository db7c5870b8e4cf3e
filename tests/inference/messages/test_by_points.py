"""Message passing by weighted points, and with priors that depend on other blocks, against exact answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma

import temperance as tp
from temperance.errors import UnsupportedMethod
from temperance.inference.messages.by_points import ByPoints
from tests.matrix.truths import LINE, PRIOR, PROBLEMS, sticks

FACTORS = PROBLEMS["FactorAnalysis"]


def test_one_sequence_is_one_factor_and_so_exact() -> None:
    problem = PROBLEMS["StateSpace"]
    fit = tp.fit(problem.model(), problem.data, tp.EP(), seed=1)
    assert fit.log_evidence == pytest.approx(problem.log_evidence, abs=1e-4)
    assert fit.details["error"] < 1e-3 < fit.details["effective"]
    assert "points of q" in fit.notes[0]
    # The moments as well, by a grid over the logarithms of both precisions.
    grid = np.linspace(-6.0, 5.0, 45)
    walk, noise = (axis.ravel() for axis in np.meshgrid(np.exp(grid), np.exp(grid), indexing="ij"))
    x, t = problem.data[:, 0] - 5.0, np.arange(len(problem.data))
    total = 9.0 + np.minimum(t[:, None], t) / walk[:, None, None] + np.eye(len(x)) / noise[:, None, None]
    log_p = -0.5 * (np.einsum("i,gij,j->g", x, np.linalg.inv(total), x) + np.linalg.slogdet(total)[1])
    log_p += gamma(3.0, scale=1.0).logpdf(walk) + np.log(walk) + gamma(3.0, scale=0.5).logpdf(noise) + np.log(noise)
    share = np.exp(log_p - logsumexp(log_p))
    for name, precision in (("state_noise", walk), ("noise", noise)):
        mean = fit.posterior[name].mean()
        assert float(mean.value[0]) == pytest.approx(share @ precision, rel=2e-3)
        assert float(mean.log[0]) == pytest.approx(share @ np.log(precision), abs=2e-3)


def test_points_agree_with_integrals() -> None:
    """A regression, whose moments are known to be one-dimensional integrals."""
    problem = PROBLEMS["LinearRegression"]
    integrals = tp.fit(problem.model(), problem.data, tp.EP(tol=1e-9), seed=1)
    points = tp.fit(problem.model(), problem.data, ByPoints(max_iter=300), seed=1)
    assert points.converged and points.log_evidence == pytest.approx(integrals.log_evidence, abs=2e-3)
    mean, other = (np.asarray(fit.posterior["weights"].location) for fit in (points, integrals))
    assert mean == pytest.approx(other, abs=5e-3)


def test_alpha_zero_is_variational_bayes() -> None:
    bound = tp.fit(FACTORS.model(), FACTORS.data, tp.VB(tol=1e-12), seed=1).log_evidence
    fit = tp.fit(FACTORS.model(), FACTORS.data, tp.MessagePassing(0.0), seed=1)
    assert fit.converged and fit.log_evidence == pytest.approx(bound, abs=1e-6)


def test_what_needs_finite_sums_is_refused() -> None:
    with pytest.raises(UnsupportedMethod, match="averages over points"):
        tp.fit(FACTORS.model(), FACTORS.data, tp.EP(double_loop=True), seed=1)
    fit = tp.fit(FACTORS.model(), FACTORS.data, tp.EP(), seed=1)
    with pytest.raises(UnsupportedMethod, match="finite sums"):
        fit.corrected(2)


def process(concentration: float | tp.Gamma) -> tp.DirichletProcessMixture:
    return tp.DirichletProcessMixture(3, prior=tp.NormalWishart(**PRIOR), concentration=concentration)


def test_a_learned_concentration() -> None:
    """A prior that leaves no doubt is a fixed concentration; a broad one is a sum over assignments and a grid."""
    fixed = tp.fit(process(1.5), LINE, tp.EP(restarts=6, tol=1e-9), seed=1)
    sure = tp.fit(process(tp.Gamma(1.5e6, 1e6)), LINE, tp.EP(restarts=6), seed=1)
    assert sure.converged and sure.log_evidence == pytest.approx(fixed.log_evidence, abs=1e-5)
    grid = np.linspace(-6.0, 5.0, 45)
    logs = [gamma(2.0).logpdf(np.exp(t)) + t + sticks(LINE, np.exp(t)) for t in grid]
    exact = logsumexp(logs) + np.log(grid[1] - grid[0])
    bound, half, ep = (
        tp.fit(process(tp.Gamma(2.0, 1.0)), LINE, method, seed=1).log_evidence
        for method in (tp.VB(restarts=4), tp.MessagePassing(0.5, restarts=4), tp.EP(restarts=4))
    )
    assert bound < half < ep < exact
