"""What a fit says of its topics: relevant words, typical documents, coherence."""

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


def test_documents_that_no_memory_could_hold_are_not_drawn():
    counts = np.array([[1e9, 2e9, 0.0], [0.0, 1e9, 3e12]])
    fit = tp.fit(tp.LDA(2), counts, tp.VB(max_iter=3), seed=0)
    with pytest.raises(tp.errors.InvalidData, match=r"1502000000000 words a document would take .* GB"):
        fit.sample(0, 2)
