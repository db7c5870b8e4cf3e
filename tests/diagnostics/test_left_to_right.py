"""The probability of whole documents, against sums over the topics of all tokens, for every topic model."""

from __future__ import annotations

import itertools
from math import factorial
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, gammaln, logsumexp

import temperance as tp
from temperance.errors import InvalidData
from temperance.models.topics.report import mean_topics
from tests.tiers import with_slow

WORDS, LENGTH = 3, 3
RNG = np.random.default_rng(0)
COUNTS = np.array([RNG.multinomial(6, p) for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]) * 4])
AGE = RNG.normal(size=len(COUNTS))
BAGS = np.array([bag for bag in itertools.product(range(LENGTH + 1), repeat=WORDS) if sum(bag) == LENGTH])
ORDERS = np.array([factorial(LENGTH) / np.prod([factorial(count) for count in bag]) for bag in BAGS])
NEW_AGE = 0.7
MODELS: dict[str, Any] = {
    "LDA": (tp.LDA(2), COUNTS, BAGS),
    "LDA, learned": (tp.LDA(2, learn="document_prior"), COUNTS, BAGS),
    "HDP": (tp.HDP(3), COUNTS, BAGS),
    "StructuralTopics": (
        tp.StructuralTopics(2, "~ age"),
        (COUNTS, {"age": AGE}),
        (BAGS, {"age": np.full(len(BAGS), NEW_AGE)}),
    ),
}


def exact(alpha: np.ndarray, beta: np.ndarray, words: list[int]) -> float:
    """log of the sum over the topics of all tokens."""
    found = []
    for z in itertools.product(range(len(alpha)), repeat=len(words)):
        counts = np.bincount(z, minlength=len(alpha))
        prior = gammaln(alpha + counts).sum() - gammaln(alpha).sum()
        found.append(prior + np.log([beta[k, w] for k, w in zip(z, words, strict=True)]).sum())
    return float(logsumexp(found) + gammaln(alpha.sum()) - gammaln(alpha.sum() + len(words)))


def concentrations(fit: tp.Fit, documents: Any) -> np.ndarray:
    model, q = fit.model, fit.state
    m = {name: block.mean() for name, block in q.blocks.items() if name != "topics"}
    alpha = np.atleast_2d(model.concentration(m, model.new_rows(model.new_corpus(documents))))
    return np.broadcast_to(alpha, (len(BAGS), alpha.shape[1]))


@pytest.mark.parametrize("name", with_slow(MODELS, "LDA, learned"))
def test_over_all_documents_of_one_length_it_sums_to_one_and_the_bound_to_less(name: str) -> None:
    model, data, documents = MODELS[name]
    fit = tp.fit(model, data, tp.VB(max_iter=50))
    alpha, beta = concentrations(fit, documents), mean_topics(fit.state)
    truth = [exact(a, beta, np.repeat(np.arange(WORDS), bag).tolist()) for a, bag in zip(alpha, BAGS, strict=True)]
    assert ORDERS @ np.exp(truth) == pytest.approx(1.0, abs=1e-12)
    found = tp.left_to_right(fit, documents, particles=20_000)
    np.testing.assert_allclose(found, truth, atol=0.02)
    assert ORDERS @ np.exp(found) == pytest.approx(1.0, abs=0.01)
    bound = fit.log_predictive(documents)
    assert (bound < np.array(truth) + 1e-9).all() and ORDERS @ np.exp(bound) < 1.0


def test_its_mean_over_seeds_is_the_probability_however_few_the_particles() -> None:
    model, data, documents = MODELS["LDA"]
    fit = tp.fit(model, data, tp.VB(max_iter=50))
    truth = exact(concentrations(fit, documents)[0], mean_topics(fit.state), [0, 1, 2])
    row = [[0, 1, 2]]
    found = np.exp(tp.left_to_right(fit, 4_000 * row, particles=3))
    assert np.mean(found) == pytest.approx(np.exp(truth), abs=4 * np.std(found) / np.sqrt(len(found)))
    assert np.std(found) > 0.01 * np.exp(truth)


def test_a_long_document_is_its_integral() -> None:
    fit = tp.fit(tp.LDA(2), COUNTS, tp.VB(max_iter=50))
    counts = np.array([30, 10, 60])
    (a, b), beta = concentrations(fit, BAGS)[0], mean_topics(fit.state)

    def log_density(share: float) -> float:
        prior = (a - 1) * np.log(share) + (b - 1) * np.log1p(-share) - betaln(a, b)
        return float(counts @ np.log(share * beta[0] + (1 - share) * beta[1]) + prior)

    top = max(log_density(share) for share in np.linspace(0.001, 0.999, 999))
    truth = top + np.log(quad(lambda share: np.exp(log_density(share) - top), 0, 1, limit=200)[0])
    assert tp.left_to_right(fit, counts[None], particles=5_000)[0] == pytest.approx(truth, abs=0.1)
    np.testing.assert_array_equal(tp.left_to_right(fit, np.zeros((1, 3))), [0.0])


def test_documents_that_cannot_be_read_token_by_token_are_refused() -> None:
    fit = tp.fit(tp.LDA(2), COUNTS, tp.VB(max_iter=5))
    with pytest.raises(InvalidData, match="a document has 1,000,000 tokens"):
        tp.left_to_right(fit, np.array([[1_000_000, 0, 0]]))
