"""What people who come from scikit-learn and hmmlearn try: frames with names, mistakes, and texts in a column."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import temperance as tp
from temperance import estimators
from temperance.errors import InvalidData, InvalidParameter

COUNTS = pd.DataFrame(
    np.kron(np.eye(2, dtype=int), np.full((6, 3), 3)), columns=["cat", "dog", "bird", "stock", "bond", "fund"]
)
TEXTS = pd.DataFrame({"text": ["the cat and the dog", "a dog, a bird", "stock and bond", "bond or fund"] * 3})
STEPS = pd.DataFrame(np.repeat([[0.0, 9.0], [5.0, 2.0]], 20, axis=0) + np.eye(2)[np.arange(40) % 2], columns=["a", "b"])


def test_columns_of_a_frame_of_counts_are_the_words() -> None:
    found = estimators.TopicModel(2, random_state=0).fit(COUNTS)
    assert list(found.feature_names_in_) == list(found.vocabulary_) == list(COUNTS)
    told = [{word for word, _ in topic} for topic in found.topics(3)]
    assert {"cat", "dog", "bird"} in told and {"stock", "bond", "fund"} in told
    for other in (COUNTS[COUNTS.columns[::-1]], COUNTS.rename(columns={"cat": "cow"})):
        with pytest.raises(ValueError, match="feature names"):
            found.transform(other)
    direct = tp.fit(tp.LDA(2), COUNTS, tp.VB(max_iter=20), seed=0)
    assert all(set(words.split()) <= set(COUNTS) for words in direct.columns()["words"])
    np.testing.assert_array_equal(direct.transform(COUNTS[COUNTS.columns[::-1]]), direct.transform(COUNTS))
    unnamed = tp.fit(tp.LDA(2), COUNTS.to_numpy(), tp.VB(max_iter=20), seed=0)
    assert direct.log_evidence == unnamed.log_evidence


def test_a_frame_of_one_column_of_texts_is_its_texts() -> None:
    one, other = (estimators.TopicModel(2, random_state=0).fit(texts) for texts in (TEXTS, TEXTS["text"]))
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.transform(TEXTS[:2]), other.transform(TEXTS["text"][:2]))


@pytest.mark.parametrize(
    ("model", "steps"),
    [(estimators.GaussianHMM(2, random_state=0), STEPS), (estimators.PoissonHMM(2, random_state=0), STEPS)],
    ids=["gaussian", "poisson"],
)
def test_series_keep_the_names_of_their_columns(model: Any, steps: pd.DataFrame) -> None:
    found = model.fit(steps)
    assert list(found.feature_names_in_) == ["a", "b"]
    assert len(set(found.predict(steps)[:20])) == 1
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(steps[["b", "a"]])
    assert not hasattr(found.fit(steps.to_numpy()), "feature_names_in_")


MISTAKES = {
    "no states": lambda: estimators.GaussianHMM(0).fit(STEPS),
    "no factors": lambda: estimators.FactorAnalysis(0).fit(STEPS),
    "no topics": lambda: estimators.LatentDirichletAllocation(0).fit(COUNTS),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_by_the_name_that_was_written(name: str) -> None:
    with pytest.raises(InvalidParameter, match="n_components must be a whole number of at least 1, got 0"):
        MISTAKES[name]()


def test_more_factors_than_columns_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="n_components must be at most the number of columns, 2, got 3"):
        estimators.FactorAnalysis(3).fit(STEPS)


@pytest.mark.parametrize("kind", [estimators.PCA, estimators.LogisticRegression])
def test_sparse_rows_are_taken_where_scikit_learn_takes_them(kind: Any) -> None:
    rows, classes = STEPS.to_numpy(), np.repeat([0, 1], 20)
    whole, thin = kind().fit(rows, classes), kind().fit(sparse.csr_matrix(rows), classes)
    answer = "transform" if kind is estimators.PCA else "predict_proba"
    np.testing.assert_allclose(getattr(thin, answer)(sparse.csc_matrix(rows)), getattr(whole, answer)(rows), rtol=1e-10)


@pytest.mark.parametrize("inference", ["evidence", "vb"])
def test_weights_below_zero_are_refused_in_a_sentence(inference: str) -> None:
    with pytest.raises(InvalidData, match="weights must be finite and not negative, got -1 for row 0"):
        estimators.BayesianRidge(inference=inference).fit(STEPS, STEPS["a"], sample_weight=-np.ones(40))


def test_weighted_counts_have_topics_too() -> None:
    """As after scikit-learn's TfidfTransformer."""
    weighted = TfidfTransformer().fit_transform(COUNTS.to_numpy())
    shares = estimators.TopicModel(2, random_state=0).fit(weighted).transform(weighted)
    assert len(set(shares.argmax(axis=1)[:6])) == len(set(shares.argmax(axis=1)[6:])) == 1
    assert shares[0].argmax() != shares[-1].argmax()


@pytest.mark.parametrize("kind", ["JAX", "pandas", "polars"])
def test_rows_of_any_library_are_the_same_rows(kind: str) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2))
    if kind == "polars":
        polars = pytest.importorskip("polars")
        given = polars.DataFrame(rows, schema=["a", "b"])
    else:
        given = jnp.asarray(rows) if kind == "JAX" else pd.DataFrame(rows, columns=["a", "b"])
    found, same = (estimators.PCA(1, random_state=0).fit(each) for each in (given, rows))
    np.testing.assert_allclose(found.transform(given), same.transform(rows), rtol=1e-12)
    if kind != "JAX":
        assert list(found.feature_names_in_) == ["a", "b"]
        frame = found.set_output(transform=kind).transform(given)
        assert type(frame) is type(given) and list(frame.columns) == ["pca0"]


def test_weights_reach_the_estimator_through_a_pipeline() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2))
    targets, weights = rows @ [1.0, -2.0] + np.sin(9.0 * rows[:, 0]), np.arange(30.0)
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        ridge = estimators.BayesianRidge().set_fit_request(sample_weight=True)
        found = make_pipeline(scaler, ridge).fit(rows, targets, sample_weight=weights)
    scaled = StandardScaler().fit_transform(rows)
    same = estimators.BayesianRidge().fit(scaled, targets, sample_weight=weights)
    np.testing.assert_array_equal(found[-1].coef_, same.coef_)
    assert np.abs(estimators.BayesianRidge().fit(scaled, targets).coef_ - same.coef_).max() > 1e-3
