"""The third order of the perturbative correction: exact with three data, mostly better than the second with more."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from tests.exact import enumeration
from tests.matrix.truths import FLAGS, HEADS, STEPS, graph_of_a_mixture, heads


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
    """On 20 data sets of six rows drawn from the prior: closer on 14 of the 18 on which the second was."""
    a, b = np.array([[4.0, 3.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [4.0, 3.0]])
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, w = rng.beta(a, b), rng.dirichlet([1, 1])
        x = (rng.uniform(size=(6, 2)) < p[rng.choice(2, size=6, p=w)]).astype(float)
        fit = fitted(tp.Mixture(2, "bernoulli", prior=tp.Beta(a, b)), x)
        values = np.array([fit.log_evidence, fit.corrected(2), fit.corrected(3)])
        errors.append(np.abs(values - told_apart(x, a, b)))
    plain, second, third = np.array(errors).T
    helped = second < plain
    assert helped.mean() >= 0.8 and (third < second)[helped].mean() >= 0.7
    assert np.median(third) < np.median(second) < 0.3 * np.median(plain)


@pytest.mark.slow
def test_a_graph_has_the_same() -> None:
    x = np.array([-1.9, 0.9, 1.3])
    fit = fitted(graph_of_a_mixture(), x)
    from tests.matrix.truths import gaussian

    assert fit.corrected(3) == pytest.approx(enumeration.log_evidence(x[:, None], gaussian, np.ones(2)), abs=1e-7)


def test_a_chain_has_the_second_only() -> None:
    model = tp.HMM(2, "bernoulli", prior=tp.Beta(**HEADS))
    fit = tp.fit(model, STEPS[:2], tp.EP(max_passes=5), seed=1, progress=False)
    with pytest.raises(UnsupportedMethod, match="not for chains"):
        fit.corrected(3)
