"""`BayesianRidge` and `ARDRegression` against scikit-learn's: variational Bayes has the same fixed points."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model

import temperance as tp
from temperance import estimators
from temperance.errors import InvalidParameter, UnsupportedMethod
from tests.estimators.versions import FOLLOWED

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 8)) + 1.0
Y = X @ [3.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.5, 0.0] + 5.0 + 0.3 * rng.normal(size=200)


@pytest.mark.parametrize(("name", "close"), [("BayesianRidge", 1e-5), ("ARDRegression", 1e-3)])
def test_changing_the_import_line_is_enough(name: str, close: float) -> None:
    """Both run to their end: with its own tol scikit-learn's ARD stops before all useless weights are out."""
    theirs = getattr(linear_model, name)(tol=1e-9, max_iter=10_000).fit(X, Y)
    ours = getattr(estimators, name)(tol=1e-9, max_iter=10_000).fit(X, Y)
    assert theirs.get_params().items() <= ours.get_params().items()
    missing = [name for name in vars(theirs) if name.endswith("_") and not hasattr(ours, name)]
    assert missing == []
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=close)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=close)
    assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=close)
    predicted = zip(ours.predict(X, return_std=True), theirs.predict(X, return_std=True), strict=True)
    for mine, their in list(predicted)[: 2 if FOLLOWED else 1]:  # scikit-learn 1.6 gives other standard deviations
        np.testing.assert_allclose(mine, their, rtol=close, atol=close)


def test_a_row_of_weight_two_is_the_same_row_twice() -> None:
    weights = np.where(np.arange(200) < 50, 2.0, 1.0)
    once = estimators.BayesianRidge().fit(X, Y, sample_weight=weights)
    twice = estimators.BayesianRidge().fit(np.concatenate([X, X[:50]]), np.concatenate([Y, Y[:50]]))
    np.testing.assert_allclose(once.coef_, twice.coef_, atol=1e-6)


@pytest.mark.parametrize("name", ["BayesianRidge", "ARDRegression", "BayesianGaussianMixture"])
def test_em_is_not_offered_where_it_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="inference must be") as caught:
        getattr(estimators, name)(inference="guess").fit(X, Y)
    assert "'em'" not in str(caught.value) and "'vb'" in str(caught.value)
    with pytest.raises(UnsupportedMethod, match=f"EM gives points, not the distributions that {name} reports"):
        getattr(estimators, name)(inference="em").fit(X, Y)


@pytest.mark.parametrize("ard", [False, True])
def test_the_evidence_is_the_bound_of_variational_bayes(ard: bool) -> None:
    """At the common fixed point it is the bound that `tp.VB` climbs to, with every constant."""
    kind = estimators.ARDRegression if ard else estimators.BayesianRidge
    hyper = {"alpha_1": 1.0, "alpha_2": 0.5, "lambda_1": 2.0, "lambda_2": 0.3}
    ours = kind(**hyper, fit_intercept=False, tol=1e-12, max_iter=3000).fit(X, Y)
    model = tp.LinearRegression(intercept=False, ard=ard, prior=tp.Gamma(2.0, 0.3), noise=tp.Gamma(1.0, 0.5))
    bound = tp.fit(model, (X, Y), tp.VB(tol=1e-14, max_iter=5000), seed=0)
    assert ours.log_evidence_ == pytest.approx(bound.log_evidence, rel=1e-9)


def test_targets_without_noise_are_no_obstacle() -> None:
    """The variance of the noise goes to nothing, where a bound can only be told by its rounding errors."""
    exact = X @ [3.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.5, 0.0] + 5.0
    for kind in (estimators.BayesianRidge, estimators.ARDRegression):
        found = kind().fit(X, exact)
        np.testing.assert_allclose(found.predict(X), exact, rtol=1e-8)
        assert np.isfinite(found.log_evidence_) and found.converged_
