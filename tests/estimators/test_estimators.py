"""Estimators against scikit-learn's of the same names, exact posteriors, and its own checks."""

from __future__ import annotations

import pickle
import time
import warnings
from typing import Any

import jax
import numpy as np
import pytest
from scipy import sparse
from sklearn import decomposition, mixture
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import check_estimator

import temperance as tp
from temperance import estimators
from tests.tiers import with_slow

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


@pytest.mark.slow
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
        estimators.BayesianGaussianMixture(covariance_type="round").fit(X)
    with pytest.raises(ValueError, match="inference must be"):
        estimators.BayesianGaussianMixture(inference="guess").fit(X)
    with pytest.warns(ConvergenceWarning):
        estimators.BayesianGaussianMixture(**SAME | {"max_iter": 1}).fit(X)


@pytest.mark.slow
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
def test_a_tied_precision_is_scikit_learns_at_every_iteration() -> None:
    """Its updates are those of one precision with a prior worth its degrees of freedom for each component."""
    arguments = {
        "n_components": 3, "covariance_type": "tied", "weight_concentration_prior_type": "dirichlet_distribution",
        "weight_concentration_prior": 0.4, "mean_prior": [1.0, 2.0], "mean_precision_prior": 0.3,
        "degrees_of_freedom_prior": 3.5, "covariance_prior": [[1.5, 0.4], [0.4, 0.9]], "reg_covar": 0.0,
    }  # fmt: skip
    start = np.random.default_rng(1).dirichlet(np.ones(3), size=len(X))
    ours, theirs = (kind(**arguments) for kind in (estimators.BayesianGaussianMixture, mixture.BayesianGaussianMixture))
    theirs._check_parameters(X)
    theirs._initialize(X, start)
    steps = 40
    model, data = ours._model(X, None, start).prepare(X)

    @jax.jit
    def iterate() -> Any:
        def step(q: Any, _: Any) -> Any:
            after, bound = model.sweep(q, data)
            return after, (q, model.responsibilities(q, data.values), bound)

        return jax.lax.scan(step, model.initial(jax.random.key(0), data), None, length=steps)[1]

    posteriors, shares, bounds = iterate()
    tied = jax.vmap(model.units.to_user)(posteriors.blocks)["components"]
    for step in range(steps):
        _, log_shares = theirs._e_step(X)
        close = {"rtol": 1e-8, "atol": 1e-8}
        np.testing.assert_allclose(tied.location[step].T, theirs.means_, **close)
        np.testing.assert_allclose(np.diagonal(tied.pseudo_inputs[step]), theirs.mean_precision_, **close)
        np.testing.assert_allclose(tied.dof[step] / 3, theirs.degrees_of_freedom_, **close)
        np.testing.assert_allclose(tied.scatter[step] / tied.dof[step], theirs.covariances_, **close)
        np.testing.assert_allclose(shares[step], np.exp(log_shares), **close)
        theirs._m_step(X, log_shares)
    assert (np.diff(bounds) > -1e-9).all() and np.abs(shares[-1] - shares[0]).max() > 0.3


@pytest.mark.slow
def test_a_tied_precision_of_one_component_is_the_exact_posterior() -> None:
    arguments = {"mean_prior": [0.0, 0.0], "covariance_prior": np.eye(2), "reg_covar": 0.0}
    tied = estimators.BayesianGaussianMixture(covariance_type="tied", **arguments).fit(X)
    full = estimators.BayesianGaussianMixture(**arguments).fit(X)
    assert tied.log_evidence_ == pytest.approx(full.log_evidence_, rel=1e-10)
    np.testing.assert_allclose(tied.covariances_, full.covariances_[0], rtol=1e-9)
    np.testing.assert_allclose(tied.score_samples(X), full.score_samples(X), rtol=1e-9)
    rows, _ = (
        estimators.BayesianGaussianMixture(covariance_type="tied", random_state=0, **arguments).fit(X).sample(4000)
    )
    assert np.abs(rows.mean(axis=0) - full.means_[0]).max() < 5 * np.sqrt(np.diag(full.covariances_[0]).max() / 4000)
    with pytest.raises(TypeError, match='"tied" is for "vb"'):
        estimators.BayesianGaussianMixture(covariance_type="tied", inference="gibbs").fit(X)
    with pytest.raises(ValueError, match="takes no missing values"):
        estimators.BayesianGaussianMixture(covariance_type="tied").fit(np.where(X > 7.0, np.nan, X))


@pytest.mark.slow
@pytest.mark.parametrize("n_components", [1, 3])
def test_a_row_of_weight_two_is_the_same_row_twice(n_components: int) -> None:
    weights = rng.integers(0, 3, size=len(X))
    one = estimators.BayesianGaussianMixture(n_components=n_components, random_state=0).fit(X, sample_weight=weights)
    two = estimators.BayesianGaussianMixture(n_components=n_components, random_state=0)
    two.fit(np.random.default_rng(0).permutation(np.repeat(X, weights, axis=0)))
    np.testing.assert_array_equal(one.means_, two.means_)
    assert one.log_evidence_ == two.log_evidence_ and one.fit_.data.size == np.sum(weights > 0)


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


@pytest.mark.slow
def test_a_grid_of_46_fits_costs_little_more_than_46_compiled_fits() -> None:
    """Three sizes by three concentrations by five folds of 500 rows, and the best again; everything compiled."""
    rows = CENTRES[np.random.default_rng(0).integers(3, size=500)] + np.random.default_rng(1).normal(size=(500, 2))
    mixtures = estimators.BayesianGaussianMixture(random_state=0, max_iter=200)
    grid = {"n_components": [2, 3, 4], "weight_concentration_prior": [0.1, 1.0, 10.0]}
    folds = list(KFold(5).split(rows))

    def searched() -> None:
        GridSearchCV(mixtures, grid, cv=folds).fit(rows)

    def fitted() -> None:
        for arguments in ParameterGrid(grid):
            for train, test in folds:
                clone(mixtures).set_params(**arguments).fit(rows[train]).score(rows[test])
        clone(mixtures).fit(rows)

    def seconds(call: Any) -> float:
        began = time.process_time()
        call()
        return time.process_time() - began

    searched()
    pairs = [(seconds(searched), seconds(fitted)) for _ in range(3)]
    assert min(search for search, _ in pairs) <= 1.5 * min(fits for _, fits in pairs)


@pytest.mark.parametrize("engine", ["auto", "plain"])
def test_a_grid_compiles_for_each_shape_and_not_for_each_fit(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other concentrations and other rows of the same number need no program."""
    monkeypatch.setenv("TEMPERANCE_ENGINE", engine)
    rows = CENTRES[np.random.default_rng(0).integers(3, size=130)] + np.random.default_rng(1).normal(size=(130, 2))
    compiled: list[float] = []

    def listen(event: str, seconds: float, **more: Any) -> None:
        compiled.extend([seconds] if event == "/jax/core/compile/backend_compile_duration" else [])

    def programs(sizes: list[int], concentrations: list[float]) -> int:
        before = len(compiled)
        grid = {"n_components": sizes, "weight_concentration_prior": concentrations}
        mixtures = estimators.BayesianGaussianMixture(random_state=0, max_iter=1000)
        GridSearchCV(mixtures, grid, cv=KFold(3), refit=False).fit(rows)
        return len(compiled) - before

    jax.monitoring.register_event_duration_secs_listener(listen)
    found = [programs([2], [0.1]), programs([2], [1.0, 10.0]), programs([3], [0.1])]
    # The start, the steps, the weights, and scores of each size of fold; one more for the first of a process.
    assert found[1] == 0 and max(found) <= 6


COUNTS = rng.poisson(1.0, size=(12, 5))


@pytest.mark.slow
def test_one_topic_is_the_conjugate_posterior() -> None:
    found = estimators.LatentDirichletAllocation(1, topic_word_prior=0.5, random_state=0).fit(COUNTS)
    np.testing.assert_allclose(found.components_, 0.5 + COUNTS.sum(0, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(found.transform(COUNTS), 1.0)
    probabilities = found.components_[0] / found.components_.sum()
    assert found.score(sparse.csr_matrix(COUNTS)) == pytest.approx((COUNTS * np.log(probabilities)).sum(), rel=1e-9)
    assert found.perplexity(COUNTS) == pytest.approx(np.exp(-found.score(COUNTS) / COUNTS.sum()))


@pytest.mark.slow
@pytest.mark.parametrize("learning", ["batch", "online"])
def test_the_same_seed_finds_scikit_learns_topics(learning: str) -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 5)
    counts = np.stack([rng.multinomial(60, rng.dirichlet(np.full(5, 0.3)) @ topics) for _ in range(80)])
    arguments = {
        "n_components": 5, "learning_method": learning, "batch_size": 16, "max_iter": 6, "mean_change_tol": 1e-8,
        "max_doc_update_iter": 1000, "random_state": 0,
    }  # fmt: skip
    ours = estimators.LatentDirichletAllocation(**arguments).fit(counts)
    theirs = decomposition.LatentDirichletAllocation(**arguments).fit(counts)
    np.testing.assert_allclose(ours.components_, theirs.components_, rtol=1e-6)
    assert ours.log_evidence_ == pytest.approx(theirs.score(counts), rel=1e-6)  # their score has the topics' term
    repeated, weighted = np.repeat(counts, 2, axis=0), np.full(80, 2.0)
    one = estimators.LatentDirichletAllocation(**arguments | {"batch_size": 160}).fit(counts, sample_weight=weighted)
    two = estimators.LatentDirichletAllocation(**arguments | {"batch_size": 160}).fit(repeated)
    np.testing.assert_allclose(one.components_, two.components_, rtol=1e-6)


@pytest.mark.slow
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


class Alone:
    """hmmlearn's second argument is `lengths`, where the checks pass y; and their numbers become counts."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(X)  # type: ignore[misc]

    def score(self, X: Any, y: Any = None) -> float:
        return super().score(X)  # type: ignore[misc]


class Counting(Alone):
    def _steps(self, X: Any, lengths: Any, fitted: bool = False) -> Any:
        X = X.astype(float) if isinstance(X, np.ndarray) and X.dtype.kind == "O" else X
        finite = isinstance(X, np.ndarray) and X.dtype.kind == "f" and not np.isinf(X).any()
        return super()._steps(self._counts(X) if finite else X, lengths, fitted)  # type: ignore[misc]

    def _counts(self, X: np.ndarray) -> np.ndarray:
        return np.abs(X).round()


class AGaussianHMM(Alone, estimators.GaussianHMM): ...


class APoissonHMM(Counting, estimators.PoissonHMM): ...


class AMultinomialHMM(Counting, estimators.MultinomialHMM):
    def _counts(self, X: np.ndarray) -> np.ndarray:
        gaps = np.isnan(X).any(axis=-1, keepdims=True)  # whole steps are missing, or none
        return np.where(gaps, np.nan, super()._counts(X))


class ACategoricalHMM(Alone, estimators.CategoricalHMM):
    """It takes one column of codes, of which the checks have none: whether their first column is positive."""

    def _steps(self, X: Any, lengths: Any, fitted: bool = False) -> Any:
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        return super()._steps(np.where(np.isnan(X), np.nan, X > 0)[:, :1], lengths, fitted)


SEQUENCES = {
    "check_methods_sample_order_invariance": "rows are steps, and their order matters",
    "check_methods_subset_invariance": "rows are steps, and each is judged with its neighbours",
}
HMMS = SEQUENCES | {"check_dont_overwrite_parameters": "n_features is an attribute of hmmlearn's"}
CODES = HMMS | dict.fromkeys(("check_n_features_in", "check_n_features_in_after_fitting"), "one column stands for all")
OWN = ("StateSpace", "TopicModel")
ALL = [
    *((getattr(estimators, name)(), {}) for name in estimators.__all__ if name[-3:] != "HMM" and name not in OWN),
    (estimators.StateSpace(), SEQUENCES),
    (estimators.TopicModel(), {"check_transformer_data_not_an_array": "a list of lists has the words of documents"}),
    *((kind(), HMMS) for kind in (AGaussianHMM, APoissonHMM, AMultinomialHMM)),
    (ACategoricalHMM(n_features=2), CODES),
]


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "expected"), ALL, ids=lambda value: type(value).__name__)
def test_scikit_learns_own_checks(estimator: Any, expected: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator, expected_failed_checks=expected)


EVIDENCE = ["vb", "svi", "ep", "hellinger", "annealed", "lvt", "pt", "importance", tp.VB()]


@pytest.mark.slow
@pytest.mark.parametrize("inference", [*EVIDENCE, "gibbs", "collapsed", "kernel"])
def test_every_method_by_name(inference: Any) -> None:
    found = estimators.BayesianGaussianMixture(**SAME | {"inference": inference}).fit(X)
    assert np.abs(np.sort(found.means_[:, 0]) - np.sort(CENTRES[:, 0])).max() < 0.6
    assert np.isfinite(found.score(X)) and set(found.predict(X)) == {0, 1, 2}
    assert (found.log_evidence_ is not None) == (inference in EVIDENCE)  # plain sampling has no evidence


@pytest.mark.slow
@pytest.mark.parametrize(("inference", "likelihood"), [("em", "gaussian"), ("laplace", "poisson"), ("vt", "known")])
def test_methods_for_other_mixtures(inference: str, likelihood: str) -> None:
    x = np.abs(X).round() if likelihood == "poisson" else X
    pair = tp.KnownCovarianceGaussian(np.eye(2)) if likelihood == "known" else likelihood
    found = estimators.BayesianMixture(3, pair, inference=inference, n_init=4, random_state=0).fit(x)
    assert np.isfinite(found.score(x)) and len(set(found.predict(x))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["vb", "svi", "cvb0", "annealed"])
def test_methods_for_topics(inference: str) -> None:
    counts = np.kron(np.eye(2, dtype=int), np.full((6, 4), 3))
    found = estimators.LatentDirichletAllocation(2, inference=inference, max_iter=30, random_state=0).fit(counts)
    assert np.abs(found.transform(counts)[:6].mean(axis=0) - found.transform(counts)[6:].mean(axis=0)).min() > 0.5
    assert np.isfinite(found.log_evidence_)


@pytest.mark.parametrize("inference", with_slow(["em", "vt"], "em"))
def test_a_method_that_does_not_fit_says_so(inference: str) -> None:
    with pytest.raises(TypeError, match=r"EM gives points|tp.VT needs known covariances"):
        estimators.BayesianGaussianMixture(**SAME | {"inference": inference}).fit(X)
