"""CVB0 against a plain reference, enumeration and exact evidence."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import temperance as tp
from temperance.data import as_corpus
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.kernels import topics_collapsed as kernel
from temperance.kernels import topics_entries as layout
from temperance.kernels import topics_start
from temperance.kernels.topics_entries import Ascent, rows_of_corpus
from temperance.kernels.topics_start import add_documents, sample_topics
from tests.tiers import with_slow

ALPHA, ETA = np.array([0.3, 0.7, 0.5]), 0.2


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    matrix = np.random.default_rng(0).poisson(0.5, (30, 22))
    matrix[4] = 0  # an empty document
    return matrix


def entries(matrix: np.ndarray, weights: np.ndarray) -> layout.Entries:
    corpus = as_corpus(matrix)
    place, bounds = layout.deal(corpus.starts[:-1], corpus.starts[1:], corpus.words)
    return layout.Entries(bounds, corpus.words[place], corpus.counts[place].astype(np.float64), weights)


def start(size: int, n_topics: int) -> np.ndarray:
    phi = np.zeros((size, kernel.padded_width(n_topics)))
    phi[:, :n_topics] = np.random.default_rng(1).dirichlet(np.ones(n_topics), size)
    return phi


def owners(x: layout.Entries) -> np.ndarray:
    """The document of each entry."""
    owner = np.full(len(x.words), -1)
    for d, g in np.ndindex(x.bounds.shape[:2]):
        owner[slice(*x.bounds[d, g])] = d
    assert (owner >= 0).all()
    return owner


def reference_pass(x: layout.Entries, phi: np.ndarray, alpha: np.ndarray, eta: np.ndarray) -> float:
    """Equation 18 of Asuncion and others (2009), an entry at a time with all sums worked out afresh."""
    owner = owners(x)
    weight, score = x.weights[owner], 0.0
    for shift in range(layout.GROUPS):
        old = (weight * x.counts) @ phi  # of all groups, as they were when the shift began
        mine = np.zeros((layout.GROUPS, phi.shape[1]))
        for group in range(layout.GROUPS):
            for d in range(group, len(x.weights), layout.GROUPS):
                before = mine[group].copy()  # as the document begins
                for i in range(*x.bounds[d, (group + shift) % layout.GROUPS]):
                    of_document = x.counts[owner == d] @ phi[owner == d]
                    same = x.words == x.words[i]
                    of_word = (weight * x.counts)[same] @ phi[same]
                    of_topic = old + before + eta.sum(axis=1)
                    own = weight[i] * phi[i]
                    value = (of_document - phi[i] + alpha) * (of_word - own + eta[:, x.words[i]]) / (of_topic - own)
                    total = x.counts[owner == d].sum() - 1 + alpha.sum()
                    score += weight[i] * x.counts[i] * np.log(value.sum() / total)
                    fresh = value / value.sum()
                    mine[group] += weight[i] * x.counts[i] * (fresh - phi[i])
                    phi[i] = fresh
    return score


@pytest.mark.parametrize("own_prior", with_slow([False, True], False), ids=["one prior", "a prior for each topic"])
def test_passes_agree_with_a_plain_reference(counts: np.ndarray, own_prior: bool) -> None:
    generator = np.random.default_rng(2)
    x = entries(counts, generator.uniform(0.5, 2.0, 30))
    eta = generator.uniform(0.1, 0.5, (3 if own_prior else 1, 22))
    phi = start(len(x.words), 3)
    plain = phi[:, :3].copy()
    sums, prior = kernel.count(x, phi, ALPHA, eta), kernel.as_prior(eta, phi.shape[1], phi.dtype)
    for _ in range(3):
        score = kernel.collapsed_pass(x, phi, sums, prior, scored=True)
        truth = reference_pass(x, plain, ALPHA, np.broadcast_to(eta, (3, 22)))
    assert np.allclose(phi[:, :3], plain, rtol=1e-8, atol=1e-8) and (phi[:, 3:] == 0).all()
    assert np.isclose(score, truth, rtol=1e-8)
    afresh = kernel.count(x, phi, ALPHA, eta)
    assert all(np.allclose(kept, new, rtol=1e-10) for kept, new in zip(sums, afresh, strict=True))


def reference_start(x: layout.Entries, alpha: np.ndarray, eta: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Documents added in turn, every sum worked out afresh; N_k is that at the beginning of a document, or after it
    was drawn."""
    owner, phi = owners(x), np.zeros((len(x.words), len(alpha)))
    weight = x.weights[owner]

    def expect(i: int, others: np.ndarray, of_topics: np.ndarray, taken: np.ndarray) -> np.ndarray:
        of_document = (x.counts * others * (owner == owner[i])) @ phi + alpha
        of_word = (weight * x.counts * others * (x.words == x.words[i])) @ phi + eta[:, x.words[i]]
        value = of_document * of_word / (of_topics + eta.sum(axis=1) - taken)
        return value / value.sum()

    def visit(d: int, new: bool) -> None:
        every = np.arange(len(x.words))
        mine = [i for g in range(layout.GROUPS) for i in range(*x.bounds[d, g])]
        of_topics = (weight * x.counts) @ phi
        for i in mine if new else []:
            phi[i, np.searchsorted(np.cumsum(expect(i, every >= 0, of_topics, np.zeros(len(alpha)))), draws[i])] = 1.0
        of_topics = (weight * x.counts) @ phi
        for i in mine:
            phi[i] = expect(i, every != i, of_topics, weight[i] * x.counts[i] * phi[i])

    n, added = len(x.weights), 0
    for last, times in ((n // 16, 8), (n // 4, 2), (n, 0)):
        for d in range(added, last):
            visit(d, True)
        for d in list(range(last)) * times:
            visit(d, False)
        added = last
    return phi


@pytest.mark.parametrize("own_prior", [False, True], ids=["one prior", "a prior for each topic"])
def test_the_start_agrees_with_a_plain_reference(counts: np.ndarray, own_prior: bool) -> None:
    generator = np.random.default_rng(5)
    x = entries(counts, generator.uniform(0.5, 2.0, 30))
    eta, draws = generator.uniform(0.1, 0.5, (3 if own_prior else 1, 22)), generator.random(len(x.words))
    width = kernel.padded_width(3)
    phi = add_documents(x, width, ALPHA, kernel.as_prior(eta, width, np.dtype(np.float64)), draws)
    truth = reference_start(x, ALPHA, np.broadcast_to(eta, (3, 22)), draws)
    assert np.allclose(phi[:, :3], truth, rtol=1e-8, atol=1e-10) and (phi[:, 3:] == 0).all()


@pytest.mark.slow
def test_documents_given_topics_agree_with_a_plain_reference(counts: np.ndarray) -> None:
    by_word = np.random.default_rng(3).dirichlet(np.ones(22), 3).T.copy()
    corpus = as_corpus(counts)
    rows = rows_of_corpus(corpus, np.arange(30), np.ones(30), np.ones(30), np.ones(30))
    found = kernel.fold_in(rows, by_word, Ascent(ALPHA, 5, 0.0))
    for d, document in enumerate(counts):
        words = np.flatnonzero(document)
        n, phi = document[words], by_word[words] / by_word[words].sum(axis=1, keepdims=True)
        for _ in range(5):
            for i in range(len(words)):
                value = (n @ phi - phi[i] + ALPHA) * by_word[words[i]]
                phi[i] = value / value.sum()
        assert np.allclose(found.counts[d], ALPHA + n @ phi, rtol=1e-10)


def test_threads_do_not_change_a_bit(counts: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TEMPERANCE_THREADS", threads)
        x, eta = entries(counts, np.ones(30)), np.full((1, 22), ETA)
        phi = start(len(x.words), 3)
        sums = kernel.count(x, phi, ALPHA, eta)
        kernel.collapsed_pass(x, phi, sums, kernel.as_prior(eta, phi.shape[1], phi.dtype))
        results.append(phi)
    assert (results[0] == results[1]).all()


def log_beta(concentration: np.ndarray) -> np.ndarray:
    return gammaln(concentration).sum(-1) - gammaln(concentration.sum(-1))


def test_one_topic_is_the_exact_dirichlet_multinomial(counts: np.ndarray) -> None:
    """And the score is the probability of each token given the others."""
    fit = tp.fit(tp.LDA(1, document_prior=0.7, topic_prior=0.3), counts, tp.CVB0(), seed=0)
    prior, total = np.full(22, 0.3), counts.sum(0)
    assert np.isclose(fit.log_evidence, log_beta(prior + total) - log_beta(prior), rtol=1e-12)
    assert np.allclose(fit.posterior["topics"].concentration, prior + total)
    left_out = total @ np.log((total - 1 + 0.3) / (total.sum() - 1 + prior.sum())) / total.sum()
    assert np.isclose(fit.history["log_predictive"][-1], left_out, rtol=1e-12)
    assert fit.converged


def test_counts_are_close_to_their_exact_expectation() -> None:
    """Against the sum over all 2¹⁰ assignments; coordinate ascent on the bound is further away."""
    documents = [[0, 0, 1], [1, 2, 2, 2], [0, 2, 0]]
    alpha, eta = np.array([0.4, 2.0]), np.array([[2.0, 0.5, 0.4], [0.3, 0.6, 1.5]])
    owner, words = np.repeat(np.arange(3), [3, 4, 3]), np.concatenate(documents)
    logs, of_words = [], []
    for z in itertools.product(range(2), repeat=10):
        of_document, of_word = np.zeros((3, 2)), np.zeros((2, 3))
        np.add.at(of_document, (owner, z), 1)
        np.add.at(of_word, (z, words), 1)
        logs.append(log_beta(alpha + of_document).sum() + log_beta(eta + of_word).sum())
        of_words.append(of_word)
    exact = np.tensordot(np.exp(logs - logsumexp(logs)), of_words, axes=1)
    model = tp.LDA(2, document_prior=alpha, topic_prior=eta)
    error = {}
    for method in (tp.CVB0(tol=0.0), tp.VB(tol=1e-10)):
        fit = tp.fit(model, documents, method, seed=0)
        error[method.name] = np.abs(np.asarray(fit.posterior["topics"].concentration) - eta - exact).max()
    assert error["CVB0"] < 0.5 * error["VB"]


@pytest.fixture(scope="module")
def subjects() -> tuple[np.ndarray, np.ndarray]:
    """Documents of 40 tokens about three subjects with words of their own, and one word of all."""
    generator = np.random.default_rng(4)
    topics = np.zeros((3, 31))
    for k in range(3):
        topics[k, 10 * k : 10 * k + 10] = generator.dirichlet(np.ones(10)) * 0.9
    topics[:, 30] = 0.1
    theta = generator.dirichlet([0.2, 0.4, 0.8], 200)
    return generator.multinomial(40, theta @ topics), topics


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "near"),
    [(tp.CVB0(passes=60), 0.15), (tp.CVB0(batch_size=40, passes=60), 0.3)],
    ids=["batch", "minibatches"],
)
def test_subjects_are_found(subjects: tuple[np.ndarray, np.ndarray], method: tp.CVB0, near: float) -> None:
    """Summed over words, topics that share none are 1.8 apart; small steps take longer than there is time for."""
    matrix, topics = subjects
    fit = tp.fit(tp.LDA(3, document_prior=0.3, topic_prior=0.1), matrix[:160], method, seed=1)
    found = np.asarray(fit.posterior["topics"].concentration)
    found = found / found.sum(axis=1, keepdims=True)
    nearest = [int(np.argmin(np.abs(found - topic).sum(axis=1))) for topic in topics]
    assert sorted(nearest) == [0, 1, 2]
    assert np.abs(found[nearest] - topics).sum(axis=1).max() < near
    assert np.allclose(fit.transform(matrix[160:]).sum(axis=1), 1.0)
    score = tp.document_completion(fit, matrix[160:])
    entropy = -(topics * np.log(np.maximum(topics, 1e-300))).sum(axis=1).mean()
    assert -entropy - 0.8 < score.log_predictive < -entropy + 0.2
    assert np.isfinite(fit.log_evidence) and tp.perplexity(fit, matrix[160:]) < 31


@pytest.mark.slow
def test_priors_are_learned(subjects: tuple[np.ndarray, np.ndarray]) -> None:
    """Near those the documents were drawn from, with or without a good start."""
    matrix, _ = subjects
    fit = tp.fit(tp.LDA(3, learn=("document_prior", "topic_prior")), matrix, tp.CVB0(tol=1e-6), seed=1)
    alpha = np.asarray(fit.posterior["document_prior"].mode())
    found = np.asarray(fit.posterior["topics"].concentration)
    order = [int(np.argmax(found[:, 10 * k : 10 * k + 10].sum(axis=1))) for k in range(3)]
    assert np.allclose(alpha[order], [0.2, 0.4, 0.8], rtol=0.3)
    assert 0.05 < float(fit.posterior["topic_prior"].mode()[0]) < 0.5


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_and_restarts_are_compared(counts: np.ndarray) -> None:
    fits = [tp.fit(tp.LDA(3, precision="single"), counts, tp.CVB0(restarts=2, passes=20), seed=3) for _ in range(2)]
    first, second = (np.asarray(fit.posterior["topics"].concentration) for fit in fits)
    assert (first == second).all()
    assert fits[0].history["log_predictive"][-1] == fits[0].history["restarts"].max()


@pytest.mark.slow
def test_a_stream_is_for_the_stochastic_form(subjects: tuple[np.ndarray, np.ndarray]) -> None:
    corpus = as_corpus(subjects[0])
    method = tp.CVB0(batch_size=40, passes=4)
    fit = tp.fit(tp.LDA(3), tp.Stream(corpus, piece_rows=96), method, seed=0)
    assert np.isfinite(fit.log_evidence)
    with pytest.raises(UnsupportedMethod, match="all data in memory"):
        tp.fit(tp.LDA(3), tp.Stream(corpus), tp.CVB0(), seed=0)


def test_wrong_use_is_named(counts: np.ndarray) -> None:
    for arguments, message in [
        ({"passes": 0.5}, "passes must be a whole number"),
        ({"step_size": 0.5}, "step_size belongs to the stochastic form"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"tol": -1.0}, "tol must be a finite number"),
    ]:
        with pytest.raises(InvalidParameter, match=message):
            tp.CVB0(**arguments)
    with pytest.raises(UnsupportedMethod, match="integrates out every parameter"):
        tp.fit(tp.FactorAnalysis(1), np.arange(12.0).reshape(4, 3) ** 2, tp.CVB0())
    with pytest.raises(UnsupportedMethod, match="learns no priors"):
        tp.fit(tp.LDA(2, learn="document_prior"), counts, tp.CVB0(batch_size=10))


@pytest.mark.slow
def test_held_out_documents_are_predicted_better_than_by_online_vb() -> None:
    """A corpus like that of the benchmark, smaller; the same priors, the same evaluation of both sets of topics."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(1000, 0.05), 20)
    matrix = np.stack([rng.multinomial(100, row @ topics) for row in rng.dirichlet(np.full(20, 0.1), 1200)])
    scores = {}
    for method in (tp.CVB0(), tp.SVI(passes=10)):
        fit = tp.fit(tp.LDA(20, document_prior=0.1, topic_prior=0.05), matrix[:1000], method, seed=0)
        theta = fit.model.as_collapsed().transform(fit.state, as_corpus(matrix[1000:]).halves(0)[0])
        rest = as_corpus(matrix[1000:]).halves(0)[1].to_sparse().toarray()
        beta = np.asarray(fit.posterior["topics"].concentration)
        probability = theta @ (beta / beta.sum(axis=1, keepdims=True))
        scores[method.name] = (rest * np.log(probability)).sum() / rest.sum()
    assert scores["CVB0"] > scores["SVI"] + 0.05


def test_draws_have_the_exact_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six tokens in two documents of one group, all assignments; one topic likes the first word."""
    matrix = np.zeros((9, 3), int)
    matrix[0], matrix[8] = [2, 0, 1], [0, 1, 2]
    alpha, eta = np.array([0.3, 0.7]), np.array([[0.9, 0.2, 0.2], [0.2, 0.2, 0.4]])
    x = entries(matrix, np.ones(9))
    owner, tokens = owners(x), np.repeat(np.arange(len(x.words)), x.counts.astype(int))
    logs, seen = [], []
    for z in itertools.product(range(2), repeat=len(tokens)):
        of_document, of_word = np.tile(alpha, (9, 1)), eta.copy()
        np.add.at(of_document, (owner[tokens], z), 1)
        np.add.at(of_word, (z, x.words[tokens]), 1)
        logs.append(gammaln(of_document).sum() + gammaln(of_word).sum() - gammaln(of_word.sum(axis=1)).sum())
        seen.append(np.bincount(tokens, z, minlength=len(x.words)) / x.counts)
    exact = np.exp(logs - logsumexp(logs)) @ np.array(seen)
    monkeypatch.setattr(topics_start, "_AVERAGED", 1000)
    found = sample_topics(x, start(len(x.words), 2), alpha, eta, 1050, np.random.default_rng(0))
    np.testing.assert_allclose(found[:, 1], exact, atol=0.06)
    assert (found[:, 2:] == 0).all() and np.ptp(exact) > 0.3


@pytest.mark.parametrize("n_topics", [1, 7, 8, 9, 40, 100])
def test_a_draw_is_where_the_levels_added_up_exceed_it(n_topics: int) -> None:
    """In blocks of eight and then one by one; padding is never drawn, nor is a topic without a share."""
    rng = np.random.default_rng(n_topics)
    level = np.zeros(-(-n_topics // 8) * 8 + 8, np.float32)
    level[:n_topics] = rng.integers(1, 50, n_topics)  # whole numbers, of which sums are exact
    level[n_topics // 2] = 0.0 if n_topics > 1 else 1.0
    ends = np.cumsum(level[:n_topics])
    for left in range(int(ends[-1])):
        found = topics_start._find(level, np.float32(left), n_topics)
        assert found == np.searchsorted(ends, left, side="right") and level[found] > 0
    assert topics_start._find(level, np.float32(ends[-1] + 1), n_topics) < n_topics  # rounding
