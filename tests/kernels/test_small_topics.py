"""Topics of small corpora without Numba: held to the kernels, and chosen by size alone."""

from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.data import as_corpus
from temperance.kernels import topics_collapsed as kernel
from temperance.kernels import topics_small as small
from temperance.kernels.topics_entries import Ascent, Entries, deal, rows_of_corpus
from temperance.kernels.topics_start import add_documents

ALPHA = np.array([0.3, 0.7, 0.5])


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    matrix = np.random.default_rng(0).poisson(0.5, (30, 22))
    matrix[4] = 0  # an empty document
    return matrix


def entries(matrix: np.ndarray, weights: np.ndarray) -> Entries:
    corpus = as_corpus(matrix)
    place, bounds = deal(corpus.starts[:-1], corpus.starts[1:], corpus.words)
    return Entries(bounds, corpus.words[place], corpus.counts[place].astype(np.float64), weights)


@pytest.mark.parametrize("own_prior", [False, True], ids=["one prior", "a prior for each topic"])
def test_the_start_is_that_of_the_kernel(counts: np.ndarray, own_prior: bool) -> None:
    generator = np.random.default_rng(5)
    x = entries(counts, generator.uniform(0.5, 2.0, 30))
    eta, draws = generator.uniform(0.1, 0.5, (3 if own_prior else 1, 22)), generator.random(len(x.words))
    width = kernel.padded_width(3)
    truth = add_documents(x, width, ALPHA, kernel.as_prior(eta, width, np.dtype(np.float64)), draws)
    assert np.allclose(small.add_documents(x, ALPHA, eta, draws), truth[:, :3], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("own_prior", [False, True], ids=["one prior", "a prior for each topic"])
def test_passes_have_the_fixed_points_of_the_kernel(counts: np.ndarray, own_prior: bool) -> None:
    """Where the kernel stands still, so do these passes, with the same score; from elsewhere they get there."""
    generator = np.random.default_rng(2)
    x = entries(counts, generator.uniform(0.5, 2.0, 30))
    eta = generator.uniform(0.1, 0.5, (3 if own_prior else 1, 22))
    phi = np.zeros((len(x.words), kernel.padded_width(3)))
    phi[:, :3] = generator.dirichlet(np.ones(3), len(phi))
    begin = phi[:, :3].copy()
    sums, prior = kernel.count(x, phi, ALPHA, eta), kernel.as_prior(eta, phi.shape[1], phi.dtype)
    for _ in range(3000):
        score = kernel.collapsed_pass(x, phi, sums, prior, scored=True)
    still = small.take_passes((), x, phi[:, :3], ALPHA, eta, 1)
    assert np.abs(still[0] - phi[:, :3]).max() < 1e-7
    assert np.isclose(still[3], score, rtol=1e-9)
    for mine, theirs in zip(small.count(x, phi[:, :3], ALPHA, eta), sums, strict=True):
        assert np.allclose(mine, theirs[..., :3], rtol=1e-9)
    moved = small.take_passes((), x, begin, ALPHA, eta, 1)[0]
    settled = small.take_passes((), x, begin, ALPHA, eta, 3000)[0]
    again = small.take_passes((), x, settled, ALPHA, eta, 1)[0]
    assert np.abs(moved - begin).max() > 0.1 and np.abs(again - settled).max() < 1e-7


def test_learned_priors_are_those_of_the_kernel(counts: np.ndarray) -> None:
    x = entries(counts, np.random.default_rng(3).uniform(0.5, 2.0, 30))
    eta = np.full((1, 22), 0.2)
    phi = np.random.default_rng(1).dirichlet(np.ones(3), len(x.words))
    fresh, alpha, learned, _ = small.take_passes(("document_prior", "topic_prior"), x, phi, ALPHA, eta, 1)
    padded = np.pad(fresh, ((0, 0), (0, kernel.padded_width(3) - 3)))
    sums = kernel.count(x, padded, ALPHA, eta)
    assert np.allclose(alpha, kernel.learn_document_prior(x, padded, sums, ALPHA), rtol=1e-6)
    assert np.isclose(learned[0, 0], kernel.learn_topic_prior(x, padded, sums, 0.2, 3), rtol=1e-6)


def test_documents_given_topics_are_those_of_the_kernel(counts: np.ndarray) -> None:
    by_word = np.random.default_rng(3).dirichlet(np.ones(22), 3).T.copy()
    rows = rows_of_corpus(as_corpus(counts), np.arange(30), *3 * [np.ones(30)])
    for steps, tolerance in ((5, 0.0), (200, 1e-4)):
        ascent = Ascent(ALPHA, steps, tolerance)
        assert np.allclose(small.fold_in(rows, by_word, ascent), kernel.fold_in(rows, by_word, ascent).counts)
    assert small.folds_in(rows, 3) and not small.folds_in(rows, 10**4)


@pytest.mark.usefixtures("engines")
@pytest.mark.slow
def test_the_engine_is_chosen_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).poisson(0.5, (60, 30))
    names: dict[str, Any] = {}
    for size in ("small", "large"):
        if size == "large":
            monkeypatch.setattr(small, "_ENTRIES", 10)
        fits = [tp.fit(tp.LDA(3), x, method, seed=0) for method in (tp.CVB0(passes=40), tp.SVI(passes=2), tp.VB())]
        names[size] = [fit.details["engine"] for fit in fits]
        names[size + " bound"] = fits[2].log_evidence
    assert names["small"] == ["collapsed updates (numpy)", *2 * ["documents in closed form (xla)"]]
    assert names["large"] == ["collapsed updates (kernel)", *2 * ["documents in closed form (kernel)"]]
    assert np.isclose(names["small bound"], names["large bound"], rtol=1e-4)  # up to where documents stop
