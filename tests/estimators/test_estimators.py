"""Estimators against scikit-learn's of the same names, exact posteriors, and its own checks."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import mixture
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import temperance as tp
from temperance import estimators

rng = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])
X = CENTRES[rng.integers(3, size=120)] + rng.normal(size=(120, 2)) * [1.0, 0.6]
SAME = {
    "n_components": 3,
    "weight_concentration_prior_type": "dirichlet_distribution",
    "max_iter": 500,
    "reg_covar": 0.0,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def fitted() -> estimators.BayesianGaussianMixture:
    return estimators.BayesianGaussianMixture(**SAME, tol=1e-9).fit(X)


def test_changing_the_import_line_is_enough(fitted: Any) -> None:
    theirs = mixture.BayesianGaussianMixture(**SAME, tol=1e-9).fit(X)
    arguments = mixture.BayesianGaussianMixture().get_params()
    assert arguments == {name: estimators.BayesianGaussianMixture().get_params()[name] for name in arguments}
    missing = [name for name in vars(theirs) if name.endswith("_") and not hasattr(fitted, name)]
    assert missing == []
    ours, other = np.argsort(fitted.means_[:, 0]), np.argsort(theirs.means_[:, 0])
    for name in (
        "weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "weight_concentration_",
        "mean_precision_", "degrees_of_freedom_",
    ):  # fmt: skip
        # Two bounds within 1e-9 of their limit leave parameters about √(1e-9/N) = 3e-6 away from theirs.
        np.testing.assert_allclose(getattr(fitted, name)[ours], getattr(theirs, name)[other], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, ours], theirs.predict_proba(X)[:, other], atol=1e-4)


def test_scores_are_a_density_and_samples_come_from_it(fitted: Any) -> None:
    grid = np.linspace(-30.0, 40.0, 400)
    plane = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    mass = np.exp(fitted.score_samples(plane)).sum() * (grid[1] - grid[0]) ** 2
    assert mass == pytest.approx(1.0, abs=2e-3)
    rows, labels = fitted.sample(2000)
    assert np.all(np.diff(labels) >= 0)
    assert np.abs(np.bincount(labels, minlength=3) / 2000 - fitted.weights_).max() < 4 * np.sqrt(0.25 / 2000)
    assert np.mean(fitted.predict(rows) == labels) > 0.95


def test_it_is_a_good_citizen(fitted: Any) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
    assert clone(fitted).get_params() == fitted.get_params()
    pipeline = make_pipeline(StandardScaler(), estimators.BayesianGaussianMixture(n_components=3, random_state=0))
    assert set(pipeline.fit_predict(X)) == {0, 1, 2}
    with pytest.raises(NotFittedError):
        estimators.BayesianGaussianMixture().predict(X)
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        estimators.BayesianGaussianMixture(covariance_type="tied").fit(X)
    with pytest.raises(ValueError, match="inference must be"):
        estimators.BayesianGaussianMixture(inference="guess").fit(X)
    with pytest.warns(ConvergenceWarning):
        estimators.BayesianGaussianMixture(**SAME | {"max_iter": 1}).fit(X)


def test_one_batch_after_another_is_all_of_them_for_one_component() -> None:
    prior = {"mean_prior": [0.0, 0.0], "covariance_prior": np.eye(2), "reg_covar": 0.0}
    one = estimators.BayesianGaussianMixture(**prior).fit(X)
    parts = estimators.BayesianGaussianMixture(**prior)
    for piece in np.split(X, 4):
        parts.partial_fit(piece)
    np.testing.assert_allclose(parts.means_, one.means_, rtol=1e-9)
    np.testing.assert_allclose(parts.covariances_, one.covariances_, rtol=1e-9)
    assert parts.log_evidence_ == pytest.approx(one.log_evidence_, rel=1e-9)


@pytest.mark.slow
def test_missing_values_and_weights() -> None:
    holes = X.copy()
    holes[::7, 1] = np.nan
    found = estimators.BayesianGaussianMixture(n_components=3, random_state=0).fit(holes)
    assert np.isfinite(found.score_samples(holes)).all()
    weights = rng.integers(0, 3, size=len(X))
    weighted = estimators.BayesianGaussianMixture(random_state=0, mean_prior=[0, 0], covariance_prior=np.eye(2))
    repeated = clone(weighted).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.fit(X, sample_weight=weights).means_, repeated.means_, rtol=1e-9)


@pytest.mark.slow
def test_the_size_can_be_searched_for_by_held_out_density() -> None:
    search = GridSearchCV(
        estimators.BayesianMixture(likelihood="gaussian", random_state=0, n_init=5), {"n_components": [1, 3]}, cv=2
    )
    assert search.fit(X).best_params_ == {"n_components": 3}


COUNTS = rng.poisson(1.0, size=(12, 5))


def test_one_topic_is_the_conjugate_posterior() -> None:
    found = estimators.LatentDirichletAllocation(1, topic_word_prior=0.5, random_state=0).fit(COUNTS)
    np.testing.assert_allclose(found.components_, 0.5 + COUNTS.sum(0, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(found.transform(COUNTS), 1.0)
    probabilities = found.components_[0] / found.components_.sum()
    assert found.score(sparse.csr_matrix(COUNTS)) == pytest.approx((COUNTS * np.log(probabilities)).sum(), rel=1e-9)
    assert found.perplexity(COUNTS) == pytest.approx(np.exp(-found.score(COUNTS) / COUNTS.sum()))


def test_an_online_step_of_one_topic_is_an_interpolation() -> None:
    found = estimators.LatentDirichletAllocation(
        1, topic_word_prior=0.5, batch_size=6, total_samples=12, learning_offset=1.0, learning_decay=1.0, random_state=0
    )
    found.partial_fit(COUNTS[:6])
    before = found.components_.copy()
    found.partial_fit(COUNTS[6:])
    rate = 1.0 / (1.0 + 2.0)
    target = 0.5 + 2.0 * COUNTS[6:].sum(0)
    np.testing.assert_allclose(found.components_, (1 - rate) * before + rate * target, rtol=1e-9)
    assert found.n_batch_iter_ == 3 and found.transform(COUNTS).shape == (12, 1)


def test_regression_says_how_sure_it_is() -> None:
    x = rng.normal(size=(200, 3))
    y = 1.0 + x @ [2.0, 0.0, -1.0] + 0.5 * rng.normal(size=200)
    found = estimators.BayesianLinearRegression(ard=True).fit(x, y)
    assert np.abs(found.coef_ - [2.0, 0.0, -1.0]).max() < 0.2 and abs(found.intercept_ - 1.0) < 0.2
    mean, deviation = found.predict(x, return_std=True)
    np.testing.assert_allclose(mean, found.intercept_ + x @ found.coef_, rtol=1e-9, atol=1e-9)
    assert 0.4 < deviation.mean() < 0.6
    assert found.score(x, y) > 0.9


ALL = [getattr(estimators, name)() for name in estimators.__all__]
# Their random starts depend on the order of the rows, as k-means' do in scikit-learn.
EXPECTED = {
    "DirichletProcessMixture": {
        "check_sample_weight_equivalence_on_dense_data": "the start is random, so equal in distribution only",
    }
}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_scikit_learns_own_checks(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator, expected_failed_checks=EXPECTED.get(type(estimator).__name__, {}))


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["vb", "svi", "ep", "hellinger", "vt", "annealed", "lvt", "gibbs", "pt", tp.VB()])
def test_every_method_by_name(inference: Any) -> None:
    found = estimators.BayesianGaussianMixture(**SAME | {"inference": inference}).fit(X)
    assert np.abs(np.sort(found.means_[:, 0]) - np.sort(CENTRES[:, 0])).max() < 0.6
    assert np.isfinite(found.score(X))
    assert np.isfinite(found.log_evidence_) == (inference != "gibbs")  # plain Gibbs sampling has no evidence
