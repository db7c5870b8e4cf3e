"""`FactorAnalysis` and `PCA` against scikit-learn's: the same likelihood, the same axes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import decomposition

from temperance import estimators

rng = np.random.default_rng(0)
N, D, K = 300, 6, 2
LOADINGS = 2.0 * rng.normal(size=(K, D))
X = 3.0 + rng.normal(size=(N, K)) @ LOADINGS + rng.normal(size=(N, D)) * rng.uniform(0.5, 1.5, size=D)


def test_factor_analysis_ends_at_scikit_learns_maximum() -> None:
    arguments = {"n_components": K, "tol": 1e-9, "max_iter": 20_000}
    ours = estimators.FactorAnalysis(**arguments).fit(X)
    theirs = decomposition.FactorAnalysis(**arguments, svd_method="lapack").fit(X)
    assert theirs.get_params().items() >= {"n_components": K}.items()
    assert set(theirs.get_params()) <= set(ours.get_params())
    assert [name for name in vars(theirs) if name.endswith("_") and not hasattr(ours, name)] == []
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-3)
    np.testing.assert_allclose(ours.get_precision(), theirs.get_precision(), atol=1e-3)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, atol=1e-3)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-9)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-3)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-3)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-3)
    assert ours.loglike_[-1] == pytest.approx(theirs.loglike_[-1], rel=1e-7)


@pytest.mark.parametrize("rotation", ["varimax", "quartimax"])
def test_rotations_are_scikit_learns(rotation: str) -> None:
    arguments = {"n_components": K, "tol": 1e-9, "max_iter": 20_000, "rotation": rotation}
    ours = estimators.FactorAnalysis(**arguments).fit(X)
    theirs = decomposition.FactorAnalysis(**arguments, svd_method="lapack").fit(X)
    matched = np.abs(ours.components_ @ theirs.components_.T).argmax(axis=1)  # they may come in another order
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_[matched]), atol=2e-3)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-3)


@pytest.mark.slow
def test_more_evidence_for_the_true_number_of_factors() -> None:
    found = {k: estimators.FactorAnalysis(k, inference="vb").fit(X).log_evidence_ for k in (1, 2)}
    assert found[2] > found[1] + 10.0


@pytest.mark.parametrize("size", [K, None, 0.9])
def test_axes_are_scikit_learns(size: int | float | None) -> None:
    ours, theirs = estimators.PCA(size).fit(X), decomposition.PCA(size).fit(X)
    assert set(theirs.get_params()) <= set(ours.get_params())
    assert [name for name in vars(theirs) if name.endswith("_") and not hasattr(ours, name)] == []
    kept = ours.n_components_
    assert kept == theirs.n_components_
    span = ours.components_[:K].T @ ours.components_[:K], theirs.components_[:K].T @ theirs.components_[:K]
    np.testing.assert_allclose(*span, atol=1e-5)
    np.testing.assert_allclose(ours.explained_variance_[:K], theirs.explained_variance_[:K], rtol=1e-5)
    np.testing.assert_allclose(ours.explained_variance_ratio_[:K], theirs.explained_variance_ratio_[:K], rtol=1e-5)
    np.testing.assert_allclose(np.abs(ours.transform(X)[:, :K]), np.abs(theirs.transform(X)[:, :K]), atol=1e-4)


def test_scores_whitened_and_back() -> None:
    ours, theirs = (kind(K, whiten=True).fit(X) for kind in (estimators.PCA, decomposition.PCA))
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-5)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)), theirs.inverse_transform(theirs.transform(X)), atol=1e-4
    )
    assert estimators.PCA(K).fit(X).score(X) == pytest.approx(decomposition.PCA(K).fit(X).score(X), abs=0.05)
    assert list(ours.get_feature_names_out()) == ["pca0", "pca1"]


@pytest.mark.slow
def test_the_data_say_how_many_axes_and_holes_are_filled() -> None:
    rows = 3.0 + rng.normal(size=(N, K)) @ LOADINGS + 0.5 * rng.normal(size=(N, D))
    assert estimators.PCA("mle").fit(rows).n_components_ == decomposition.PCA("mle").fit(rows).n_components_ == K
    holes = np.where(rng.uniform(size=rows.shape) < 0.1, np.nan, rows)
    found, whole = estimators.PCA(K).fit(holes), decomposition.PCA(K).fit(rows)
    cosines = np.linalg.svd(found.components_ @ whole.components_.T)[1]
    assert cosines.min() > 0.99 and np.isfinite(found.transform(holes)).all()
    with pytest.raises(ValueError, match=r"n_components must be a whole number from 1 to min\(n_samples, n_features\)"):
        estimators.PCA(7).fit(X)
