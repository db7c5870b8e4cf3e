"""The third order of the perturbative correction: exact with three data, mostly better than the second with more."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import beta, multivariate_normal

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from tests.exact import enumeration
from tests.matrix.truths import FLAGS, HEADS, STEPS, heads


def fitted(model: Any, x: np.ndarray) -> tp.Fit:
    fit = tp.fit(model, x, tp.EP(restarts=2, max_passes=300), seed=1, progress=False)
    assert fit.converged
    return fit


def exact(x: np.ndarray) -> float:
    return enumeration.log_evidence(x, heads, np.ones(2))


@pytest.mark.slow
def test_three_data_are_exact() -> None:
    fit = fitted(tp.Mixture(2, "bernoulli", prior=tp.Beta(**HEADS)), FLAGS[:3])
    assert fit.corrected(3) == pytest.approx(exact(FLAGS[:3]), abs=1e-8)
    with pytest.raises(InvalidParameter, match="order must be 2 or 3, got 4"):
        fit.corrected(4)


def told_apart(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Every assignment to two components whose priors differ."""
    logs = []
    for z in itertools.product((0, 1), repeat=len(x)):
        value = gammaln(2) - gammaln(2 + len(x))
        for k in range(2):
            mine = x[np.array(z) == k]
            on = mine.sum(axis=0)
            value += gammaln(1 + len(mine)) + (betaln(a[k] + on, b[k] + len(mine) - on) - betaln(a[k], b[k])).sum()
        logs.append(value)
    return float(logsumexp(logs))


@pytest.mark.slow
def test_where_the_second_order_helps_the_third_mostly_does() -> None:
    """On 40 data sets of six rows drawn from the prior: of the 35 on which the second order is closer than ln s the
    third is too on all, and closer than the second on 27. On the first hundred: 86 and 63 of 87."""
    a, b = np.array([[4.0, 3.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [4.0, 3.0]])
    errors = []
    for seed in range(40):
        # Uniform numbers alone: NumPy's streams of other distributions change from version to version.
        u = np.random.default_rng(seed).random(23)
        p, z = beta(a, b).ppf(u[:4].reshape((2, 2))), (u[5:11] > u[4]).astype(int)
        x = (u[11:].reshape((6, 2)) < p[z]).astype(float)
        fit = fitted(tp.Mixture(2, "bernoulli", prior=tp.Beta(a, b)), x)
        values = np.array([fit.log_evidence, fit.corrected(2), fit.corrected(3)])
        errors.append(np.abs(values - told_apart(x, a, b)))
    plain, second, third = np.array(errors).T
    helped = second < plain
    assert helped.mean() >= 0.8 and (third < plain)[helped].mean() >= 0.95 and (third < second)[helped].mean() >= 0.7
    assert np.median(third) < np.median(second) < 0.3 * np.median(plain)


@pytest.mark.slow
def test_a_graph_has_the_same() -> None:
    """Locations of precision 0.2, data of precision 1."""
    g = tp.Graph()
    locations = g.normal("locations", 0.0, 0.2, plates=g.plate("k", 2))
    g.normal("x", locations[g.categorical("z", g.dirichlet("weights", np.ones(2)), plates="n")], 1.0, observed=True)
    x = np.array([-1.9, 0.9, 1.3])

    def together(x: np.ndarray) -> float:
        n = len(x)
        return float(multivariate_normal(np.zeros(n), np.eye(n) + 5.0).logpdf(x[:, 0])) if n else 0.0

    exact = enumeration.log_evidence(x[:, None], together, np.ones(2))
    assert fitted(g.model(), x).corrected(3) == pytest.approx(exact, abs=1e-7)


def test_a_chain_has_the_second_only() -> None:
    model = tp.HMM(2, "bernoulli", prior=tp.Beta(**HEADS))
    fit = tp.fit(model, STEPS[:2], tp.EP(max_passes=5), seed=1, progress=False)
    with pytest.raises(UnsupportedMethod, match="not for chains"):
        fit.corrected(3)
