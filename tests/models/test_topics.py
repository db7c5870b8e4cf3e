"""LDA against enumeration, a plain reference and its own specification."""

import itertools
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

import temperance as tp
from temperance.data import as_corpus
from temperance.data.documents import Documents, as_documents
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.families.dirichlet import DirichletVector
from temperance.models import Powers, Way
from temperance.models.topics.walk import local_step

ENGINES = ("host", "device")


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    matrix = np.random.default_rng(0).poisson(0.4, (40, 25))
    matrix[7] = 0  # an empty document
    return matrix


def reference_step(log_topics, counts, prior, gamma, steps):
    """The updates of Blei, Ng and Jordan (2003), a document and a word at a time."""
    gamma, messages, evidence = gamma.copy(), np.zeros(log_topics.shape), np.zeros(len(counts))
    for d, document in enumerate(counts):
        for final in [False] * steps + [True]:
            log_theta = digamma(gamma[d]) - digamma(gamma[d].sum())
            fresh = prior.copy()
            for v in np.flatnonzero(document):
                logits = log_theta + log_topics[:, v]
                phi = np.exp(logits - logsumexp(logits))
                fresh += document[v] * phi
                if final:
                    messages[:, v] += document[v] * phi
                    evidence[d] += document[v] * logsumexp(logits)
            if not final:
                gamma[d] = fresh
    return gamma, messages, evidence


def documents(matrix: np.ndarray) -> Documents:
    corpus = as_corpus(matrix)
    return jax.tree.map(jnp.asarray, as_documents(corpus, host=True, width=int(corpus.entries.max())))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sparse", [False, True])
def test_local_step_agrees_with_a_plain_reference(counts: np.ndarray, engine: str, sparse: bool) -> None:
    generator = np.random.default_rng(1)
    # The sparse case leaves topics out along the way.
    prior = np.array([1e-3, 0.01, 0.02, 0.01]) if sparse else np.array([0.1, 0.4, 0.2, 1.3])
    concentration = generator.gamma(0.1 if sparse else 2.0, 1.0, (4, 25)) + 1e-3
    log_topics = digamma(concentration) - digamma(concentration.sum(1, keepdims=True))
    gamma = prior + counts.sum(1)[:, None] / 4
    found = local_step(
        jnp.asarray(log_topics), documents(counts), jnp.ones(40), jnp.asarray(prior), jnp.asarray(gamma),
        (1.0, 1.0), 30, 0.0, engine,
    )  # fmt: skip
    for value, truth in zip(found[:3], reference_step(log_topics, counts, prior, gamma, 30), strict=True):
        assert np.allclose(value, truth, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_engines_agree_with_the_derived_sweep(counts: np.ndarray, own: bool) -> None:
    """Weights, and powers for all or of their own for each document, against autodiff of `log_evidence`. On the host
    documents with powers of their own are in single precision."""
    generator = np.random.default_rng(2)
    weights = generator.random(40)
    powers = Powers(*(jnp.asarray(generator.random(40) if own else power) for power in (0.6, 0.3)))
    results = {}
    for engine in (*ENGINES, "autodiff"):
        model, data = tp.LDA(3, engine=engine, local_tol=0.0, learn="document_prior").prepare(counts, weights)
        results[engine] = jax.tree.leaves(two_sweeps(model, data, powers))
    for engine in ENGINES:
        error = 1e-6 if own and engine == "host" else 1e-9
        for value, truth in zip(results[engine], results["autodiff"], strict=True):
            assert np.allclose(value, truth, rtol=error, atol=error), engine


@eqx.filter_jit
def two_sweeps(model, data, powers):
    q = model.initial(jax.random.key(0), data)
    return jax.lax.fori_loop(0, 2, lambda _, q: model.sweep(q, data, Way(powers, 3))[0], q)


@pytest.mark.slow
def test_each_document_stops_when_it_has_converged(counts: np.ndarray) -> None:
    """Together or one by one, documents take the same number of steps."""
    generator = np.random.default_rng(3)
    log_topics = jnp.asarray(np.log(generator.dirichlet(np.ones(25), 4)))
    x, prior, gamma = documents(counts), jnp.full(4, 0.2), jnp.asarray(0.2 + counts.sum(1)[:, None] / 4 + np.zeros(4))
    loose = {
        engine: local_step(log_topics, x, jnp.ones(40), prior, gamma, (1.0, 1.0), 500, 1e-2, engine).gamma
        for engine in ENGINES
    }
    tight = local_step(log_topics, x, jnp.ones(40), prior, gamma, (1.0, 1.0), 500, 1e-12, "host").gamma
    assert np.allclose(loose["host"], loose["device"], atol=1e-9)
    difference = np.abs(loose["host"] - tight).mean(axis=1)
    assert 1e-3 < difference.max() < 0.3


def test_threads_do_not_change_a_bit(counts: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> list[np.ndarray]:
        log_topics = jnp.log(jnp.asarray(np.random.default_rng(4).dirichlet(np.ones(25), 4)))
        gamma = jnp.asarray(1.0 + np.zeros((40, 4)))
        found = local_step(
            log_topics, documents(counts), jnp.ones(40), jnp.full(4, 0.1), gamma, (1.0, 1.0), 20, 1e-3, "host"
        )
        return [np.asarray(value) for value in found[:3]]

    monkeypatch.setenv("TEMPERANCE_THREADS", "1")
    one = step()
    monkeypatch.setenv("TEMPERANCE_THREADS", "3")
    assert all((left == right).all() for left, right in zip(one, step(), strict=True))


@pytest.mark.slow
def test_quick_minibatch_steps_are_the_derived_ones() -> None:
    """On the host many steps are taken at once."""
    generator = np.random.default_rng(6)
    topics = generator.dirichlet(np.full(40, 0.1), 3)
    matrix = generator.poisson(30 * topics[generator.integers(0, 3, 60)])
    method = tp.SVI(batch_size=10, passes=30, local_steps=30)
    fits = {
        engine: tp.fit(tp.LDA(3, engine=engine, topic_prior=0.02, local_tol=0.0), matrix, method, seed=0)
        for engine in ENGINES
    }
    host, device = (np.asarray(fit.posterior["topics"].concentration) for fit in fits.values())
    assert (device < 0.03).mean() > 0.3
    assert np.allclose(host, device, rtol=1e-8)
    assert np.isclose(fits["host"].log_evidence, fits["device"].log_evidence, rtol=1e-10)


@pytest.mark.slow
def test_lists_of_topics_give_the_same_steps() -> None:
    """Lists of the topics a word has not forgotten, against all of them; some words die out altogether."""
    from temperance.kernels import topics_minibatches
    from temperance.kernels.topics_entries import Ascent, rows_of_corpus

    generator = np.random.default_rng(7)
    topics = generator.dirichlet(np.full(30, 0.05), 20)
    corpus = as_corpus(generator.poisson(40 * topics[generator.integers(0, 20, 200)]))
    start = 1.0 + 0.1 * generator.random((20, 30))
    results = []
    for share in (0.5, 0.0):
        online = topics_minibatches.Online(start, np.full((1, 30), 0.01))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(topics_minibatches, "_SPARSE", share)
            for step in range(60):
                rows = np.arange(20) + 20 * (step % (10 if step < 10 else 5))
                documents = rows_of_corpus(corpus, rows, np.full(20, 5.0), np.ones(20), np.ones(20))
                online.step(documents, (2.0 + step) ** -0.6, Ascent(np.full(20, 0.05), 50, 0.0))
        assert online.sparse == (share > 0)
        results.append(online.concentrations())
    assert np.allclose(*results, rtol=1e-6)


def log_beta(concentration: np.ndarray) -> np.ndarray:
    return gammaln(concentration).sum(-1) - gammaln(concentration.sum(-1))


def test_one_topic_is_the_exact_dirichlet_multinomial(counts: np.ndarray) -> None:
    fit = tp.fit(tp.LDA(1, document_prior=0.7, topic_prior=0.3), counts, seed=0)
    prior = np.full(25, 0.3)
    assert np.isclose(fit.log_evidence, log_beta(prior + counts.sum(0)) - log_beta(prior), rtol=1e-12)


TOKENS = [[0, 0, 1], [1, 2, 2], [0, 2]]
ALPHA, ETA = np.array([0.4, 0.9]), 0.6


def enumerate_topics() -> tuple[float, float]:
    """log p(w) over all 2⁸ assignments, and the probability that the first two tokens share a topic."""
    document = np.repeat(np.arange(3), [len(tokens) for tokens in TOKENS])
    words = np.concatenate(TOKENS)
    logs, same = [], []
    for z in itertools.product(range(2), repeat=8):
        of_document, of_word = np.zeros((3, 2)), np.zeros((2, 3))
        np.add.at(of_document, (document, z), 1)
        np.add.at(of_word, (z, words), 1)
        value = (log_beta(ALPHA + of_document) - log_beta(ALPHA)).sum()
        logs.append(value + (log_beta(ETA + of_word) - log_beta(np.full(3, ETA))).sum())
        same.append(z[0] == z[2])
    return float(logsumexp(logs)), float(np.exp(logsumexp(np.array(logs)[same]) - logsumexp(logs)))


def test_bound_rises_to_below_the_exact_evidence() -> None:
    exact, _ = enumerate_topics()
    fit = tp.fit(tp.LDA(2, document_prior=ALPHA, topic_prior=ETA), TOKENS, tp.VB(tol=1e-10), seed=0)
    assert fit.log_evidence < exact
    assert (np.diff(fit.history["elbo"]) >= -1e-9).all()
    assert np.isclose(fit.log_evidence, sampled_bound(fit), atol=0.02)


def sampled_bound(fit: tp.Fit, draws: int = 100_000) -> float:
    """E_q[log p(w, z, θ, β) − log q(z, θ, β)] with draws of θ and β from q, and the sum over q(z)."""
    generator = np.random.default_rng(0)
    lam = np.asarray(fit.posterior["topics"].concentration)
    gamma = np.asarray(fit.state.locals["proportions"].concentration)
    beta = np.stack([generator.dirichlet(row, draws) for row in lam], axis=1)  # (draws, topics, words)
    value = sum(_gap(beta[:, k], np.full(3, ETA), lam[k]) for k in range(2))
    for tokens, concentration in zip(TOKENS, gamma, strict=True):
        theta = generator.dirichlet(concentration, draws)
        value = value + _gap(theta, ALPHA, concentration)
        log_theta = digamma(concentration) - digamma(concentration.sum())
        for word in tokens:
            logits = log_theta + digamma(lam[:, word]) - digamma(lam.sum(1))
            phi = np.exp(logits - logsumexp(logits))
            value = value + (phi * (np.log(theta) + np.log(beta[:, :, word]) - np.log(phi))).sum(1)
    return float(value.mean())


def _gap(draw: np.ndarray, prior: np.ndarray, posterior: np.ndarray) -> np.ndarray:
    """log p − log q of Dirichlet draws."""
    return ((prior - posterior) * np.log(draw)).sum(1) - log_beta(prior) + log_beta(posterior)


@pytest.mark.slow
def test_gibbs_finds_the_exact_posterior() -> None:
    """Draws of z from the derivative of `log_evidence` with a key, counts above one included."""
    _, exact = enumerate_topics()
    model, data = tp.LDA(2, document_prior=ALPHA, topic_prior=ETA).prepare(TOKENS)
    draws = model.sample_prior(jax.random.key(1))
    local = model.sample_local_prior(jax.random.key(2), data.values, draws)

    def step(state, key):
        draws, local = model.gibbs(key, *state[:1], data, local=state[1])
        odds = local["proportions"][0][:, None] * draws["topics"][:, :2]  # of word 0 and word 1 in document 0
        share = odds / odds.sum(axis=0, keepdims=True)
        return (draws, local), jnp.sum(share[:, 0] * share[:, 1])

    _, same = jax.jit(lambda: jax.lax.scan(step, (draws, local), jax.random.split(jax.random.key(3), 20_000)))()
    batches = np.asarray(same).reshape(50, -1).mean(axis=1)
    assert abs(batches.mean() - exact) < 4 * batches.std() / np.sqrt(50)


def test_draws_with_counts_are_multinomial() -> None:
    model, data = tp.LDA(2, n_words=3).prepare(np.array([[7, 0, 2]]))
    m = {
        "topics": model.prior["topics"].mean(),
        "proportions": model.initial_local({}, data.values)["proportions"].mean(),
    }
    m["topics"] = jax.tree.map(lambda leaf: leaf + jnp.arange(6.0).reshape(2, 3) / 3, m["topics"])

    def statistics(key):
        return jax.grad(lambda m: jnp.sum(model.log_evidence(m, data.values, key=key)))(m)["topics"].log

    drawn = np.asarray(jax.jit(jax.vmap(statistics))(jax.random.split(jax.random.key(0), 2000)))
    expected = np.asarray(statistics(None))
    assert np.allclose(drawn, np.round(drawn), atol=1e-9)
    assert np.allclose(drawn.sum(axis=1), [7, 0, 2], atol=1e-9)
    share = expected[0] / np.maximum(expected.sum(0), 1)
    deviation = np.sqrt(np.array([7, 0, 2]) * share * (1 - share))
    assert np.allclose(drawn[:, 0].mean(0), expected[0], atol=4 * deviation.max() / np.sqrt(2000))
    assert np.allclose(drawn[:, 0].std(0), deviation, rtol=0.1, atol=1e-9)


@pytest.mark.slow
def test_temperature_leaves_the_prior_of_a_document_alone(counts: np.ndarray) -> None:
    """At infinite temperature nothing is learned: proportions and topics are those of their priors."""
    model, data = tp.LDA(3, document_prior=0.2, topic_prior=0.1).prepare(counts)
    q = model.initial(jax.random.key(0), data)
    q, _ = model.sweep(q, data, Way(Powers(0.0, 0.0)))
    assert np.allclose(q.locals["proportions"].concentration, 0.2)
    assert np.allclose(q.blocks["topics"].concentration, 0.1)


@pytest.mark.slow
def test_learned_priors_maximise_the_bound(counts: np.ndarray) -> None:
    model = tp.LDA(3, learn=("document_prior", "topic_prior"))
    fit = tp.fit(model, counts, tp.VB(tol=1e-10), seed=0)
    assert (np.diff(fit.history["elbo"]) >= -1e-9 * abs(fit.log_evidence)).all()
    alpha = np.asarray(fit.posterior["document_prior"].mode())
    eta = float(fit.posterior["topic_prior"].mode()[0])
    plain, data = tp.LDA(3).prepare(counts)
    fixed = fit.state._replace(blocks={"topics": fit.state.blocks["topics"]})

    @jax.jit
    def model_bound(alpha, eta):
        prior = {"topics": tp.Dirichlet.from_natural(DirichletVector(jnp.broadcast_to(eta - 1.0, (3, 25))))}
        return eqx.tree_at(lambda model: (model.prior, model.alpha), plain, (prior, alpha)).bound(fixed, data)

    def bound(alpha, eta):
        """With the single pseudo-draws that keep the learned priors away from zero."""
        extra = _pseudo(np.full(3, 1 / 3), alpha) + _pseudo(np.full(25, 1 / 3), np.full(25, eta))
        return float(model_bound(alpha, eta)) + extra

    best = bound(alpha, eta)
    for change in (0.98, 1.02):
        assert bound(alpha, eta * change) < best
        for k in range(3):
            assert bound(np.where(np.arange(3) == k, change, 1.0) * alpha, eta) < best


def _pseudo(start: np.ndarray, concentration: np.ndarray) -> float:
    return float((concentration * (digamma(start) - digamma(start.sum()))).sum() - log_beta(concentration))


@pytest.fixture(scope="module")
def two_subjects() -> tuple[tp.Fit, list[list[str]]]:
    """Documents about either cats or stars, and two about both."""
    generator = np.random.default_rng(5)
    subjects = [["cat", "purr", "paw", "tail"], ["star", "moon", "orbit", "comet"]]
    texts = [list(generator.choice(subjects[d % 2], 12)) for d in range(40)]
    texts += [[*subjects[0], *subjects[1]], []]
    model = tp.LDA(2, document_prior=0.3, topic_prior=0.1)
    return tp.fit(model, texts, tp.VB(restarts=3, local_steps=5), seed=0), texts


def test_a_fit_says_what_it_found(two_subjects: tuple[tp.Fit, list[list[str]]], tmp_path: Path) -> None:
    fit, texts = two_subjects
    topics = fit.topics(4)
    found = {frozenset(word for word, _ in topic) for topic in topics}
    assert found == {frozenset(["cat", "purr", "paw", "tail"]), frozenset(["star", "moon", "orbit", "comet"])}
    assert all(np.isclose(sum(p for _, p in topic), 1.0, atol=0.02) for topic in topics)
    theta = fit.transform(texts)
    assert np.allclose(theta.sum(axis=1), 1.0)
    assert (theta[:40].max(axis=1) > 0.95).all()
    assert np.allclose(theta[40:], 0.5, atol=0.05)
    assert fit.notes == ("1 document is empty: their topics are those of the prior",)
    fit.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    assert again.topics(4) == topics and (again.transform(texts) == theta).all()
    assert "comet" in " ".join(fit.table()["words"])


def test_completion_approaches_what_the_truth_can_do(two_subjects: tuple[tp.Fit, list[list[str]]]) -> None:
    """One of four words: log ¼ a token, if the subject is known."""
    fit, texts = two_subjects
    score = tp.document_completion(fit, texts[:40], seed=1)
    assert (score.tokens, score.by) == (240, "tokens")
    assert np.isclose(score.log_predictive, np.log(0.25), atol=0.1)
    assert np.isclose(score.perplexity, np.exp(-score.log_predictive))
    types = tp.document_completion(fit, texts[:40], seed=1, by="types")
    assert types.by == "types" and types.log_predictive < -1.2
    # A whole document also pays for saying which subject it has: log 2, over twelve tokens.
    assert 4.0 < tp.perplexity(fit, texts[:40]) < 4.0 * 2 ** (3 / 12)


@pytest.mark.slow
def test_unknown_words_are_ignored_in_new_documents(two_subjects: tuple[tp.Fit, list[list[str]]]) -> None:
    fit, _ = two_subjects
    theta = fit.transform([["cat", "yeti", "paw"], ["yeti"]])
    assert np.allclose(theta[0], fit.transform([["cat", "paw"]])[0])
    assert np.allclose(theta[1], 0.5)
    with pytest.raises(InvalidData, match="9 words"):
        fit.transform(np.ones((1, 9)))
    assert fit.sample(0, 3).sum(axis=1).tolist() == [12, 12, 12]


def test_a_corpus_of_one_document_can_be_fitted() -> None:
    fit = tp.fit(tp.LDA(2), [["a", "b", "a"]], seed=0)
    assert np.isfinite(fit.log_evidence)
    assert np.allclose(fit.transform([["a", "b", "a"]]).sum(), 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_topics": 0}, "n_topics must be a whole number of at least 1"),
        ({"n_topics": 2, "document_prior": [1.0, 2.0, 3.0]}, "document_prior must be one number or 2"),
        ({"n_topics": 2, "document_prior": -1.0}, "document_prior must be finite and positive"),
        ({"n_topics": 2, "n_words": 3, "topic_prior": [1.0, 2.0]}, "topic_prior must be one number or 3"),
        ({"n_topics": 2, "learn": "topics"}, "learn must be one of 'document_prior'"),
        ({"n_topics": 2, "learn": "topic_prior", "topic_prior": [1.0]}, "topic_prior must be one number"),
        ({"n_topics": 2, "engine": "steam"}, "engine must be one of"),
        ({"n_topics": 2, "local_tol": -1.0}, "local_tol must be at least 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.LDA(**arguments)


def test_wrong_data_are_named() -> None:
    for data, message in [
        (np.array([[1.0, 0.5]]), r"whole numbers, found 0\.5"),
        (np.array([[1.0, -1.0]]), "negative"),
        (np.zeros((2, 3)), "all 2 documents are empty"),
    ]:
        with pytest.raises(InvalidData, match=message):
            tp.LDA(2).prepare(data)
    with pytest.raises(InvalidData, match="4 words, but the vocabulary has 3"):
        tp.LDA(2, n_words=3).prepare(np.ones((2, 4)))
    _, data = tp.LDA(2, fractional=True).prepare(np.array([[1.0, 0.5]]))
    assert data.values.counts.dtype == jnp.float64


def test_only_a_topic_model_has_topics() -> None:
    fit = tp.fit(tp.GaussianMixture(1), np.array([[0.0], [1.0], [3.0]]), seed=0)
    with pytest.raises(UnsupportedMethod, match="no topics"):
        fit.topics()
    with pytest.raises(UnsupportedMethod, match=r"tp\.LDA"):
        tp.perplexity(fit, [["a"]])


def test_documents_of_the_host_are_walked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bound and topics, whether the kernel is called once or for 512 documents at a time."""
    from temperance.models import topics

    x, make, fits = np.random.default_rng(0).poisson(0.3, (3000, 60)), topics.make_data, []
    for block in (4096, 512):
        monkeypatch.setattr(
            topics,
            "make_data",
            lambda documents, weights, _, block=block, **how: make(documents, weights, block, **how),
        )
        fits.append(tp.fit(tp.LDA(3, engine="host"), x, tp.VB(max_iter=5, tol=0.0), seed=0, progress=False))
    assert [fit.data.blocks for fit in fits] == [1, 6]
    assert np.isclose(*(fit.log_evidence for fit in fits), rtol=1e-12)
    one, other = (fit.posterior["topics"].concentration for fit in fits)
    assert np.allclose(one, other, rtol=1e-9)
