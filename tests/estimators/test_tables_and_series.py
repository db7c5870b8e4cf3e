"""`ClassMixture` on frames, `StateSpace` on series, and `LogisticRegression` against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model

import temperance as tp
from temperance import estimators
from tests.estimators.versions import FOLLOWED

rng = np.random.default_rng(0)
Z = rng.integers(0, 2, 40)
PEOPLE = pd.DataFrame(
    {
        "age": 40.5 + 15 * Z + 3 * rng.normal(size=40),
        "smokes": np.where(rng.uniform(size=40) < 0.1 + 0.8 * Z, "yes", "no"),
    }
)
PEOPLE.loc[3, "smokes"] = None


def test_classes_of_a_frame_are_those_of_fit() -> None:
    found = estimators.ClassMixture(2, random_state=0).fit(PEOPLE)
    assert list(found.feature_names_in_) == ["age", "smokes"] and [c.kind for c in found.schema_] == ["real", "binary"]
    agree = np.mean(found.predict(PEOPLE) == Z)
    assert max(agree, 1 - agree) > 0.95
    direct = tp.fit(tp.ClassMixture(2), PEOPLE, tp.VB(restarts=5), seed=0)
    assert found.log_evidence_ == pytest.approx(direct.log_evidence, abs=0.01)
    polars = pytest.importorskip("polars")
    if FOLLOWED:  # scikit-learn 1.6 does not see the names of polars 2
        np.testing.assert_array_equal(found.predict(polars.from_pandas(PEOPLE)), found.predict(PEOPLE))
    columns, classes = found.sample(3)
    assert set(columns) == {"age", "smokes"} and len(classes) == 3
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(PEOPLE.rename(columns={"age": "years"}))


@pytest.mark.slow
def test_a_row_of_weight_two_is_the_same_row_twice() -> None:
    weights = np.where(np.arange(40) < 10, 2.0, 1.0)
    one = estimators.ClassMixture(2, random_state=0).fit(PEOPLE, sample_weight=weights)
    two = estimators.ClassMixture(2, random_state=0).fit(pd.concat([PEOPLE, PEOPLE[:10]], ignore_index=True))
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, rel=1e-9)


def test_a_forecast_goes_on_where_the_level_is() -> None:
    flow = pd.DataFrame({"flow": np.cumsum(rng.normal(size=40)) + 0.3 * rng.normal(size=40)})
    flow.loc[7, "flow"] = np.nan
    level = estimators.StateSpace(kind="level").set_output(transform="pandas").fit(flow)
    states = level.transform(flow)
    assert list(states.columns) == ["statespace0"] and np.isfinite(states.to_numpy()).all()
    mean, deviation = level.forecast(3, return_std=True)
    assert mean.shape == (3, 1) and (np.diff(deviation[:, 0]) > 0).all()
    assert np.abs(mean[:, 0] - states.iloc[-1, 0]).max() < 5 * deviation[-1, 0] / np.sqrt(1000)
    with pytest.raises(ValueError, match="kind='level' is for one column, got 2"):
        estimators.StateSpace(kind="level").fit(np.ones((9, 2)))


@pytest.mark.parametrize("C", [1.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_weights_are_scikit_learns(C: float) -> None:
    X = rng.normal(size=(300, 4)) * [1, 5, 0.2, 1] + [100, 0, 3, 0]
    y = np.where(rng.uniform(size=300) < 1 / (1 + np.exp(-(X - [100, 0, 3, 0]) @ [1, -0.3, 2, 0])), "yes", "no")
    ours = estimators.LogisticRegression(C=C).fit(X, y)
    theirs = linear_model.LogisticRegression(C=C, tol=1e-10, max_iter=20_000).fit(X, y)
    assert (
        not FOLLOWED
        or theirs.get_params().items() <= (ours.get_params() | {"C": C, "tol": 1e-10, "max_iter": 20_000}).items()
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        ours.fit(X, np.arange(300) % 3)


@pytest.mark.slow
def test_uncertain_weights_have_an_evidence() -> None:
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
    found = {kind: estimators.LogisticRegression(inference=kind).fit(X, y) for kind in ("vb", "ep", "em")}
    assert found["vb"].log_evidence_ < found["ep"].log_evidence_ and found["em"].log_evidence_ is None
    # Averaging over the weights moves probabilities towards a half.
    sure, averaged = (np.abs(found[kind].predict_proba(X)[:, 1] - 0.5).mean() for kind in ("em", "ep"))
    assert averaged < sure
