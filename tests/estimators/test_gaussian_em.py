"""`GaussianMixture` against scikit-learn's: the same start, the same maximum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import mixture
from sklearn.utils.estimator_checks import check_estimator

from temperance import estimators
from tests.tiers import with_slow

rng = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
X = CENTRES[rng.integers(3, size=150)] + rng.normal(size=(150, 2)) * [1.0, 0.6]
STRICT = {"tol": 1e-12, "max_iter": 5000, "random_state": 0}
ATTRIBUTES = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_", "lower_bound_")


def both(**arguments: Any) -> tuple[Any, Any]:
    return estimators.GaussianMixture(**arguments).fit(X), mixture.GaussianMixture(**arguments).fit(X)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_the_maximum_is_scikit_learns(covariance: str) -> None:
    ours, theirs = both(n_components=3, covariance_type=covariance, **STRICT)
    for name in ATTRIBUTES:  # in the same order of components: the start is the same
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-5, err_msg=name)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-4, atol=1e-4)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=1e-6) and ours.bic(X) == pytest.approx(theirs.bic(X))
    assert theirs.get_params() == ours.get_params()
    assert [name for name in vars(theirs) if name.endswith("_") and not hasattr(ours, name)] == []


@pytest.mark.parametrize("start", ["k-means++", "random", "random_from_data"])
def test_every_start_is_scikit_learns(start: str) -> None:
    """A few steps, before different starts could have come to the same maximum; a start at parameters has had one."""
    few = {"n_components": 3, "init_params": start, "tol": 0.0, "random_state": 3}
    with pytest.warns(Warning, match="onverge"):
        ours = estimators.GaussianMixture(max_iter=2 if start == "random" else 1, **few).fit(X)
        theirs = mixture.GaussianMixture(max_iter=2, **few).fit(X)
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-4, atol=1e-4)


def test_given_parameters_are_the_start() -> None:
    given = {"weights_init": [0.2, 0.3, 0.5], "means_init": CENTRES[::-1], "precisions_init": np.stack([np.eye(2)] * 3)}
    ours, theirs = both(n_components=3, **given, **STRICT)
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"means_init must be finite numbers of shape \(3, 2\)"):
        estimators.GaussianMixture(3, means_init=[[0.0]]).fit(X)


def test_a_row_of_weight_two_is_the_same_row_twice_and_holes_are_filled() -> None:
    weights = rng.integers(0, 3, size=len(X))
    one = estimators.GaussianMixture(3, **STRICT).fit(X, sample_weight=weights)
    two = estimators.GaussianMixture(3, **STRICT).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_array_equal(one.means_, two.means_)
    holes = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    found = estimators.GaussianMixture(3, n_init=3, **STRICT).fit(holes)
    away = np.abs(np.sort(found.means_[:, 0]) - np.sort(CENTRES[:, 0]))
    assert away.max() < 0.5 and np.isfinite(found.score_samples(holes)).all()


# With "tied", which has no prior, a check with more columns than rows has no maximum.
@pytest.mark.slow
@pytest.mark.parametrize("covariance", with_slow(["full", "diag", "spherical"], "diag", "spherical"))
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(covariance: str) -> None:
    check_estimator(estimators.GaussianMixture(covariance_type=covariance))
