"""Hot minibatch steps of topics in single precision, against the same step written out in double precision."""

import numpy as np
import pytest
from scipy.special import digamma, logsumexp, softmax

from temperance.data import as_corpus
from temperance.data.corpus import Corpus
from temperance.kernels.topics_documents import Found
from temperance.kernels.topics_energy import energies_of
from temperance.kernels.topics_entries import Ascent, Rows, rows_of_corpus
from temperance.kernels.topics_minibatches import Online
from temperance.kernels.topics_walk import walk_documents

STEPS, RATE = 25, 0.3


def problem(n_topics: int = 21, n_words: int = 45) -> tuple[Corpus, np.ndarray]:
    """Documents of different lengths, one of them empty, and concentrations from forgotten to certain."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(n_words, 0.1), n_topics)
    mixed = rng.dirichlet(np.full(n_topics, 0.1), 70) @ topics
    counts = rng.poisson(np.linspace(0, 90, 70)[:, None] * mixed)
    return as_corpus(counts), 0.02 + 300.0 * topics * (topics > 1e-3)


def documents_of(corpus: Corpus, powers: np.ndarray) -> Rows:
    return rows_of_corpus(corpus, np.arange(70), np.linspace(0.5, 3.0, 70), powers, powers)


def written_out(
    corpus: Corpus, lam: np.ndarray, alpha: np.ndarray, eta: float, powers: np.ndarray
) -> tuple[np.ndarray, ...]:
    """γ, λ after the step, Σ n φ E log β and the energy of the means."""
    log_beta = digamma(lam) - digamma(lam.sum(axis=1))[:, None]
    statistics, gammas, observed, energies = np.zeros_like(lam), [], [], []
    for row, (weight, power) in enumerate(zip(np.linspace(0.5, 3.0, 70), powers, strict=True)):
        entries = slice(corpus.starts[row], corpus.starts[row + 1])
        words, counts = corpus.words[entries], corpus.counts[entries]
        gamma = alpha + counts.sum() / len(lam)
        for _ in range(STEPS):
            phi = softmax(power * (digamma(gamma)[:, None] + log_beta[:, words]), axis=0)
            gamma = alpha + power * phi @ counts
        phi = softmax(power * (digamma(gamma)[:, None] + log_beta[:, words]), axis=0)
        np.add.at(statistics.T, words, weight * power * (phi * counts).T)
        gammas.append(gamma)
        observed.append(np.sum(phi * counts * log_beta[:, words]))
        means = (gamma / gamma.sum()) @ (lam / lam.sum(axis=1, keepdims=True))[:, words]
        energies.append(np.sum(counts * np.log(means)))
    return np.array(gammas), (1 - RATE) * lam + RATE * (eta + statistics), np.array(observed), np.array(energies)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [0.3, 0.004])
def test_a_power_for_all(sparse: float) -> None:
    """With a prior of 0.004 a topic that a document does not have is e⁻²⁰⁰ as likely: nothing may be lost by that."""
    corpus, lam = problem()
    alpha, power = np.full(21, sparse), 0.8
    rows = documents_of(corpus, np.full(70, power))
    hot = Online(lam, np.full((1, 45), 0.02), power)
    gamma, wanted, _, energies = written_out(corpus, lam, alpha, 0.02, np.full(70, power))
    ascent = Ascent(alpha, STEPS, 0.0)
    found = hot.documents(rows, ascent).gamma
    np.testing.assert_allclose(found, gamma, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), gamma.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(energies_of(rows, gamma, hot.stored, hot.totals), energies, rtol=1e-12)
    told = []
    hot.step(rows, RATE, ascent, lambda found: told.append(hot.energy(rows, found)) or (power, 0.9))
    np.testing.assert_allclose(hot.concentrations(), wanted, rtol=1e-4, atol=1e-4)
    assert np.isclose(told[0], rows.weights @ energies, rtol=1e-5)
    # The next step is at the power it was told of.
    fresh = hot.concentrations()
    gamma, wanted, _, _ = written_out(corpus, fresh, alpha, 0.02, np.full(70, 0.9))
    hot.step(documents_of(corpus, np.full(70, 0.9)), RATE, ascent)
    np.testing.assert_allclose(hot.concentrations(), wanted, rtol=1e-4, atol=1e-4)
    assert np.allclose(hot.totals, hot.stored.sum(axis=0), rtol=1e-6)


def test_a_power_for_each_document() -> None:
    corpus, lam = problem()
    alpha, powers = np.full(21, 0.05), np.random.default_rng(1).uniform(0.1, 1.0, 70)
    gamma, wanted, observed, _ = written_out(corpus, lam, alpha, 0.02, powers)
    hot = Online(lam, np.full((1, 45), 0.02), None)
    told = []

    def respond(found: Found) -> tuple[np.ndarray, None]:
        told.append(found)
        return powers, None

    hot.step(documents_of(corpus, powers), RATE, Ascent(alpha, STEPS, 0.0), respond)
    np.testing.assert_allclose(told[0].observed, observed, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        (told[0].gamma - alpha) / powers[:, None], (gamma - alpha) / powers[:, None], rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(hot.concentrations(), wanted, rtol=1e-4, atol=1e-4)


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, lam = problem()
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TEMPERANCE_THREADS", threads)
        hot = Online(lam, np.full((1, 45), 0.02), 0.7)
        hot.step(documents_of(corpus, np.full(70, 0.7)), RATE, Ascent(np.full(21, 0.1), 5, 1e-3))
        found.append(hot.concentrations())
    assert np.array_equal(*found)


def test_a_walk_with_a_power_for_each_document() -> None:
    """γ, messages and Σ_v n_v log Σ_k …, the power of topics other than that of words."""
    corpus, lam = problem()
    rng = np.random.default_rng(2)
    observation, latent, alpha = rng.uniform(0.1, 1.0, 70), rng.uniform(0.1, 1.0, 70), np.full(21, 0.05)
    weights = np.linspace(0.5, 3.0, 70)
    log_beta = digamma(lam) - digamma(lam.sum(axis=1))[:, None]
    gammas, messages, evidence = [], np.zeros_like(lam), []
    for row in range(70):
        entries = slice(corpus.starts[row], corpus.starts[row + 1])
        words, counts = corpus.words[entries], corpus.counts[entries]
        gamma = alpha + 1.0
        for step in range(STEPS + 1):
            log_theta = digamma(gamma) - digamma(gamma.sum())
            logits = latent[row] * log_theta[:, None] + observation[row] * log_beta[:, words]
            phi = softmax(logits, axis=0)
            if step < STEPS:
                gamma = alpha + latent[row] * phi @ counts
        gammas.append(gamma)
        evidence.append(counts @ logsumexp(logits, axis=0))
        np.add.at(messages.T, words, weights[row] * observation[row] * (phi * counts).T)
    start = np.broadcast_to(alpha + 1.0, (70, 21)).copy()
    found = walk_documents(
        log_beta,
        observation,
        lambda part: rows_of_corpus(corpus, np.arange(70)[part], weights[part], observation[part], latent[part]),
        Ascent(alpha, STEPS, 0.0), start,
    )  # fmt: skip
    for got, wanted in zip(found, (np.array(gammas), messages, np.array(evidence)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)
