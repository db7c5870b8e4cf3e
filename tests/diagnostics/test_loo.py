"""Leave-one-out prediction against what it stands for: fits without a datum, in closed form."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.errors import InvalidData, UnsupportedMethod
from temperance.evidence.stacking import stacking
from tests.exact import marginals

RNG = np.random.default_rng(3)
INPUTS = RNG.normal(size=(25, 1))
TARGET = 0.7 - 1.2 * INPUTS[:, 0] + 0.5 * RNG.normal(size=25)
LINE = tp.LinearRegression(noise=4.0, prior=tp.Normal([0.0, 0.0], np.eye(2)))
PRIOR = {"mean": [0.0], "pseudo_count": 0.2, "dof": 3.0, "scatter": [[1.0]]}
ROWS = RNG.normal(0.4, 1.3, size=(20, 1))


def exact_line() -> np.ndarray:
    """log p(y_n | the others): the joint density is Gaussian."""
    design = np.column_stack([np.ones(25), INPUTS])
    covariance = 0.25 * np.eye(25) + design @ design.T
    whole = multivariate_normal(np.zeros(25), covariance).logpdf(TARGET)
    kept = [np.delete(np.arange(25), n) for n in range(25)]
    return np.array(
        [whole - multivariate_normal(np.zeros(24), covariance[np.ix_(k, k)]).logpdf(TARGET[k]) for k in kept]
    )


def exact_gaussian() -> np.ndarray:
    whole = marginals.gaussian(ROWS, **PRIOR)
    return np.array([whole - marginals.gaussian(np.delete(ROWS, n, axis=0), **PRIOR) for n in range(len(ROWS))])


CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "regression, VB": (LINE, (INPUTS, TARGET), tp.VB(), exact_line),
    "regression, Gibbs": (LINE, (INPUTS, TARGET), tp.Gibbs(draws=1000, warmup=50), exact_line),
    "regression, SMC": (LINE, (INPUTS, TARGET), tp.SMC(), exact_line),
    "Gaussian, VB": (tp.GaussianMixture(1, prior=tp.NormalWishart(**PRIOR)), ROWS, tp.VB(), exact_gaussian),
}


@pytest.mark.parametrize("case", CASES)
def test_the_closed_form_of_leaving_each_datum_out(case: str) -> None:
    model, data, method, truth = CASES[case]
    found = tp.fit(model, data, method, seed=0).loo()
    exact = truth()
    np.testing.assert_allclose(found.pointwise, exact, atol=0.1)
    assert found.elpd == pytest.approx(exact.sum(), abs=0.15)
    assert found.standard_error == pytest.approx(np.sqrt(len(exact)) * exact.std(ddof=1), rel=0.05)
    assert found.khat.shape == exact.shape and (found.khat < 0.7).all()
    assert 0.5 < found.effective_parameters < 3.5
    assert "trust it" in str(found) and not found.notes


def test_a_datum_that_cannot_be_left_out_is_told() -> None:
    rows = np.append(ROWS, [[40.0]], axis=0)
    found = tp.fit(tp.GaussianMixture(1, prior=tp.NormalWishart(**PRIOR)), rows, tp.VB(), seed=0).loo()
    assert np.argmax(found.khat) == 20 and found.khat[20] > 0.7
    assert "1 of 21 data has a Pareto shape above 0.7" in found.sentence and "without it" in found.sentence


def test_weights_mend_an_approximation_that_is_too_narrow() -> None:
    """The posterior of VB with ten times its precision predicts as the untouched one does."""
    fit = tp.fit(LINE, (INPUTS, TARGET), tp.VB(), seed=0)
    narrow = {name: family + 9.0 * family.natural for name, family in fit.state.blocks.items()}
    found = dataclasses.replace(fit, state=fit.state._replace(blocks=narrow)).loo()
    assert found.elpd == pytest.approx(fit.loo().elpd, abs=0.05)


@pytest.mark.slow
def test_an_approximation_that_weights_cannot_mend_is_told() -> None:
    """Eight components for forty data of pure noise in six columns: a few draws of hundreds of parameters weigh all."""
    noise = np.random.default_rng(0).normal(size=(40, 6))
    found = tp.fit(tp.GaussianMixture(8), noise, tp.VB(), seed=0).loo()
    assert any("draws of the approximation itself" in note for note in found.notes)
    assert "trust it" not in str(found)


@cache
def topics() -> tp.Fit:
    return tp.fit(tp.LDA(2), np.array([[2, 1, 0], [0, 1, 2]]), tp.VB(), seed=0)


def test_models_without_a_likelihood_of_each_datum_are_refused() -> None:
    with pytest.raises(UnsupportedMethod, match="cannot be summed out"):
        topics().loo()
    with pytest.raises(UnsupportedMethod, match="depend on their neighbours"):
        tp.fit(tp.HMM(2), ROWS, tp.VB(), seed=0).loo()
    with pytest.raises(InvalidData, match="weights must all be 0 or 1 for loo"):
        tp.fit(tp.GaussianMixture(1), ROWS, tp.VB(), weights=np.full(20, 2.0)).loo()


def test_stacking_maximises_the_held_out_density() -> None:
    pointwise = RNG.normal(size=(60, 3)) + np.array([0.0, 0.3, -2.0])
    found = stacking(pointwise)
    assert found.sum() == pytest.approx(1.0) and (found >= 0).all()

    def loss(free: np.ndarray) -> float:
        weights = np.exp(free - np.logaddexp.reduce(free))
        return -float(np.log(np.exp(pointwise) @ weights).sum())

    best = minimize(loss, np.zeros(3), tol=1e-12)
    assert loss(np.log(found)) == pytest.approx(best.fun, abs=1e-6)
