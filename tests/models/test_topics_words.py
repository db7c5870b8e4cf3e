"""What a fit says of its topics: relevant words, typical documents, coherence."""

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter

WORDS = ("common", "apple", "pear", "iron", "steel")


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    fruit = rng.multinomial(20, [0.5, 0.25, 0.25, 0.0, 0.0], 20)
    metal = rng.multinomial(20, [0.5, 0.0, 0.0, 0.25, 0.25], 20)
    return np.concatenate([fruit, metal])


@pytest.fixture(scope="module", params=["auto", "host"])
def fit(request: pytest.FixtureRequest, counts: np.ndarray) -> tp.Fit:
    model = tp.LDA(2, topic_prior=0.05, vocabulary=WORDS, engine=request.param)
    return tp.fit(model, counts, tp.CVB0(restarts=3), seed=0)


def test_relevance_is_the_weighted_sum_of_probability_and_lift(fit: tp.Fit) -> None:
    lam = np.asarray(fit.posterior["topics"].concentration)
    beta, overall = lam / lam.sum(axis=1, keepdims=True), lam.sum(axis=0) / lam.sum()
    for weight in (0.0, 0.3, 1.0):
        truth = weight * np.log(beta) + (1.0 - weight) * np.log(beta / overall)
        for row, topic in zip(truth, fit.topics(5, relevance=weight), strict=True):
            assert [word for word, _ in topic] == [WORDS[v] for v in np.argsort(-row, kind="stable")]
    # The word of all topics is the most probable and the least telling.
    assert all(topic[0][0] == "common" for topic in fit.topics(3))
    assert {frozenset(word for word, _ in topic) for topic in fit.topics(2, relevance=0.0)} == {
        frozenset(("apple", "pear")), frozenset(("iron", "steel")),
    }  # fmt: skip
    with pytest.raises(InvalidParameter, match="relevance must be a number between 0 and 1"):
        fit.topics(3, relevance=2.0)


def test_typical_documents_have_the_largest_share(fit: tp.Fit, counts: np.ndarray) -> None:
    shares = fit.transform(counts)
    for topic in range(2):
        found = fit.typical(topic, 4)
        assert np.allclose([share for _, share in found], np.sort(shares[:, topic])[::-1][:4], rtol=1e-6)
        assert len({row >= 20 for row, _ in found}) == 1  # all of fruit, or all of metal
    with pytest.raises(InvalidParameter, match="topic must be a whole number from 0 to 1"):
        fit.typical(2)


@pytest.mark.parametrize("measure", ["npmi", "umass"])
def test_coherence_is_that_of_the_leading_words(fit: tp.Fit, counts: np.ndarray, measure: str) -> None:
    truth = tp.coherence(fit.topics(3), counts, measure=measure, vocabulary=WORDS)
    assert np.allclose(fit.coherence(n_words=3, measure=measure), truth)
    assert np.allclose(fit.coherence(counts[:30], n_words=3, measure=measure),
                       tp.coherence(fit.topics(3), counts[:30], measure=measure, vocabulary=WORDS))  # fmt: skip


def test_documents_of_billions_of_words_are_drawn() -> None:
    counts = np.array([[1e9, 2e9, 0.0], [0.0, 1e9, 3e12]])
    fit = tp.fit(tp.LDA(2), counts, tp.VB(max_iter=3), seed=0)
    drawn = fit.sample(0, 2)
    np.testing.assert_array_equal(drawn.sum(axis=1), 1_502_000_000_000)
    assert (drawn >= 0).all() and (drawn == np.floor(drawn)).all()


@pytest.mark.parametrize("length", [50, 20_000])
def test_long_documents_are_drawn_as_short_ones_are(length: int) -> None:
    """Counts given the proportions are multinomial, token by token and all at once: their means and covariances."""
    model = tp.LDA(2, 3, length=length)
    topics, theta = np.array([[0.7, 0.2, 0.1], [0.1, 0.0, 0.9]]), np.array([0.25, 0.75])
    n, p = 2000, theta @ topics
    documents = model.simulate(jax.random.key(0), {"topics": topics, "proportions": np.tile(theta, (n, 1))}, n)
    words, seen = map(np.asarray, documents.padded())
    counts = np.stack([np.sum(seen * (words == word), axis=1) for word in range(3)], axis=1)
    covariance = length * (np.diag(p) - np.outer(p, p))
    np.testing.assert_array_less(np.abs(counts.mean(axis=0) - length * p), 4.0 * np.sqrt(np.diag(covariance) / n))
    np.testing.assert_allclose(np.cov(counts.T), covariance, atol=0.15 * covariance.max())
