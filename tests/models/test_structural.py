"""Structural topics: engines against autodiff, the sampler of effects against quadrature, simulated effects found."""

import itertools

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.inference.monte_carlo.effects import _half_width
from temperance.models import Way
from temperance.models._model import means
from temperance.numerics.autocorrelation import effective_size
from tests.matrix.truths import ETA, SLOPES, TOKENS, topics
from tests.tiers import with_slow


def simulated(seed, documents=400, length=80, k=3, n_words=40):
    """Counts, covariates, coefficients and topics."""
    rng = np.random.default_rng(seed)
    beta = rng.dirichlet(np.full(n_words, 0.1), k)
    party, x = rng.choice(["D", "R"], documents), rng.normal(5.0, 2.0, documents)
    truth = np.column_stack([rng.normal(-0.5, 0.3, k), rng.normal(0.0, 1.0, k), rng.normal(0.0, 0.3, k)])
    truth[:, 0] -= 5.0 * truth[:, 2]
    alpha = np.exp(np.column_stack([np.ones(documents), party == "R", x]) @ truth.T)
    theta = np.array([rng.dirichlet(row) for row in alpha])
    counts = np.array([rng.multinomial(length, row @ beta) for row in theta])
    return counts, {"party": party.tolist(), "x": x.tolist()}, truth, beta


@pytest.fixture(scope="module")
def fitted():
    counts, columns, truth, beta = simulated(0)
    fit = tp.fit(tp.StructuralTopics(3, "~ party + x"), (counts, columns), tp.VB(restarts=2), seed=0, progress=False)
    order = (np.sqrt(fit.model.distributions(fit.state)) @ np.sqrt(beta).T).argmax(axis=1)
    assert sorted(order) == [0, 1, 2]
    return fit, (counts, columns), truth[order]


@pytest.mark.parametrize("engine", with_slow(["host", "device"], "host"))
def test_engines_walk_as_autodiff_does(engine):
    counts, columns, _, _ = simulated(1, documents=30, length=12)
    found = []
    for name in ("autodiff", engine):
        model, data = tp.StructuralTopics(3, "~ party * x", engine=name, local_tol=0.0).prepare((counts, columns))
        q = model.initial(jax.random.key(0), data)  # of so few documents: from the same noise
        found.append(model.walk(means(q.blocks), data, Way(local_steps=3), q.locals))
    expected, given = found
    assert given.value == pytest.approx(float(expected.value), rel=1e-9)
    np.testing.assert_allclose(
        given.local["proportions"].concentration, expected.local["proportions"].concentration, rtol=1e-7
    )
    for a, b in zip(jax.tree.leaves(given.messages), jax.tree.leaves(expected.messages), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_topics_start_where_a_sampler_leaves_them(monkeypatch):
    """From padded documents and from rows of a corpus alike; of fractional counts too, which have no tokens to draw."""
    monkeypatch.setattr("temperance.models.topics.variants._FEW", 1)
    rng = np.random.default_rng(2)
    beta = rng.dirichlet(np.full(40, 0.1), 3)
    counts = np.array([rng.multinomial(60, row @ beta) for row in rng.dirichlet(np.full(3, 0.2), 200)])
    columns, found = {"party": ["D", "R"] * 100}, []
    for engine, scale in (("host", 1.0), ("device", 1.0), ("host", 0.75)):
        options = {"engine": engine, "fractional": scale < 1.0, "topic_prior": 0.1}
        model, data = tp.StructuralTopics(3, "~ party", **options).prepare((scale * counts, columns))
        found.append(np.asarray(model.initial(jax.random.key(1), data).blocks["topics"].concentration))
        assert found[-1].sum() == pytest.approx(scale * counts.sum() + 3 * 40 * 0.1, rel=1e-5)
        alike = np.sqrt(found[-1] / found[-1].sum(axis=1, keepdims=True)) @ np.sqrt(beta).T
        assert sorted(alike.argmax(axis=1)) == [0, 1, 2] and alike.max(axis=1).min() > 0.9
    np.testing.assert_array_equal(found[0], found[1])


def test_few_independent_draws_make_intervals_longer():
    """Coverage of a next value by the mean and spread of four, drawn many times."""
    draws = np.random.default_rng(0).normal(size=(20_000, 5))
    half = _half_width(np.array(4.0), 0.9) * draws[:, :4].std(axis=1, ddof=1)
    assert np.mean(np.abs(draws[:, 4] - draws[:, :4].mean(axis=1)) < half) == pytest.approx(0.9, abs=0.01)
    assert _half_width(np.array(1e9), 0.95) == pytest.approx(1.95996, abs=1e-4)


@pytest.mark.slow
def test_effects_have_the_exact_posterior():
    """Of eight tokens: every assignment, and a grid of both coefficients."""
    x = np.array(SLOPES["x"]) / np.std(SLOPES["x"])
    nodes, weights = np.polynomial.hermite_e.hermegauss(16)
    pairs = list(itertools.product(range(len(nodes)), repeat=2))
    logs = np.array(
        [np.log(weights[[i, j]]).sum() + topics(TOKENS, np.exp(np.outer(x, nodes[[i, j]]))) for i, j in pairs]
    )
    posterior, first = np.exp(logs - logsumexp(logs)), nodes[[i for i, _ in pairs]]
    mean, square = posterior @ first, posterior @ first**2
    model = tp.StructuralTopics(2, "~ 0 + x", topic_prior=ETA)
    fit = tp.fit(model, (TOKENS, SLOPES), tp.VB(), seed=0, progress=False)
    draws = fit.effects(draws=20_000, warmup=100).draws
    for k in range(2):  # topics can change places: each has the same posterior
        series = draws[:, k, 0]
        error = np.sqrt(np.array([square - mean**2, posterior @ first**4 - square**2]) / effective_size(series))
        assert abs(series.mean() - mean) < 4 * error[0]
        assert abs(np.mean(series**2) - square) < 4 * error[1]


@pytest.mark.slow
def test_simulated_effects_are_found(fitted):
    fit, _, truth = fitted
    effects = fit.effects()
    assert effects.names == ("intercept", "party[R]", "x") and effects.effective > 50 and effects.accepted > 0.5
    scores = (effects.mean - truth) / effects.sd
    assert np.abs(scores).max() < 3.5 and np.sqrt(np.mean(scores**2)) < 1.6
    inside = (effects.low < truth) & (truth < effects.high)
    assert inside.mean() > 0.7
    assert len(effects.rows()) == 9 and "party[R]" in str(effects)


@pytest.mark.slow
def test_shares_follow_the_covariates(fitted):
    fit, (_, columns), truth = fitted
    effects = fit.effects(draws=100, warmup=50)
    found = effects.shares("party", at={"x": 5.0})
    alpha = np.exp([[row @ [1.0, party, 5.0] for row in truth] for party in (0, 1)])
    assert found.labels == ("D", "R")
    np.testing.assert_allclose(found.share, alpha / alpha.sum(axis=1, keepdims=True), atol=0.1)
    assert (found.low < found.share).all() and (found.share < found.high).all()
    line = effects.shares("x")
    assert line.positions is not None and line.positions[0] == pytest.approx(min(columns["x"]))
    with pytest.raises(InvalidParameter, match="only party, x"):
        effects.shares("year")


@pytest.mark.slow
def test_the_evidence_prefers_the_formula_that_is_true(fitted):
    fit, data, _ = fitted
    without = tp.fit(tp.StructuralTopics(3, "~ 1"), data, tp.VB(restarts=2), seed=0, progress=False)
    assert fit.log_evidence > without.log_evidence + 10


@pytest.mark.slow
def test_new_documents_are_seen_through_their_covariates(fitted, tmp_path):
    fit, (counts, columns), _ = fitted
    few = {name: values[:20] for name, values in columns.items()}
    swapped = few | {"party": ["D" if party == "R" else "R" for party in few["party"]]}
    short = counts[:20] * (np.cumsum(counts[:20] > 0, axis=1) == 1)  # one word each
    shares, others = fit.transform((short, few)), fit.transform((short, swapped))
    assert np.abs(shares - others).max() > 0.05
    np.testing.assert_allclose(fit.transform(short).sum(axis=1), 1.0)  # covariates as usual
    fit.save(tmp_path / "fit.tp")
    np.testing.assert_allclose(tp.load(tmp_path / "fit.tp").transform((short, few)), shares, rtol=1e-6)
    assert tp.document_completion(fit, (counts, columns)).tokens > 0
    assert len(fit.typical(0, 3)) == 3


def test_coefficients_are_in_the_units_of_the_columns(fitted):
    fit, (counts, columns), _ = fitted
    hundredth = columns | {"x": [100.0 * value for value in columns["x"]]}
    again = tp.fit(fit.model._with(coding=None), (counts, hundredth), tp.VB(restarts=2), seed=0, progress=False)
    ours, theirs = (np.asarray(f.posterior["coefficients"].location) for f in (fit, again))
    np.testing.assert_allclose(theirs[:, 2], ours[:, 2] / 100.0, rtol=1e-3)
    np.testing.assert_allclose(theirs[:, :2], ours[:, :2], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_the_largest_density_is_one_in_the_units_of_the_columns():
    """In units ten times as small a coefficient is a tenth, and its density ten times as high, for each topic."""
    counts, columns, _, _ = simulated(0, documents=60, length=40)
    small = columns | {"x": [10.0 * value for value in columns["x"]]}
    usual, tenth = (
        tp.fit(tp.StructuralTopics(3, "~ party + x"), (counts, each), tp.EM(tol=1e-10, max_iter=500), seed=0,
               progress=False)
        for each in (columns, small)
    )  # fmt: skip
    here, there = (np.asarray(fit.posterior["coefficients"].mode()) for fit in (usual, tenth))
    np.testing.assert_allclose(there[:, 2], here[:, 2] / 10.0, rtol=1e-4)
    np.testing.assert_allclose(there[:, :2], here[:, :2], rtol=1e-4)
    assert tenth.log_evidence - usual.log_evidence == pytest.approx(3 * np.log(10.0), abs=1e-4)


@pytest.mark.slow
def test_short_documents_have_no_more_than_one_together():
    """`log_predictive` is a lower bound on the density of a document: all of one word, and all of two, sum to less
    than one, and of one word to nearly one."""
    fit = tp.fit(tp.StructuralTopics(2, "~ 0 + x", topic_prior=0.6), (TOKENS, {"x": [0.5, -1.0, 2.0]}), progress=False)
    for length, least in ((1, 0.8), (2, 0.7)):
        every = [list(document) for document in itertools.product(range(3), repeat=length)]
        total = np.exp(fit.log_predictive((every, {"x": [0.3] * len(every)}))).sum()
        assert least < total < 1.0 + 1e-9
    shares = fit.transform((TOKENS, {"x": [0.5, -1.0, 2.0]}))
    np.testing.assert_allclose((shares @ fit.model.distributions(fit.state)).sum(axis=1), 1.0, atol=1e-9)


def test_mistakes_are_one_sentence():
    counts, columns, _, _ = simulated(2, documents=10)
    model = tp.StructuralTopics(2, "~ party")
    with pytest.raises(InvalidData, match="no covariates"):
        tp.fit(model, counts)
    with pytest.raises(InvalidData, match="9 values for 10 documents"):
        tp.fit(model, (counts, {"party": columns["party"][:9]}))
    with pytest.raises(InvalidParameter, match="the columns are x"):
        tp.fit(model, (counts, {"x": columns["x"]}))
    with pytest.raises(InvalidParameter, match="learn is for"):
        tp.StructuralTopics(2, "~ party", learn="document_prior")
    with pytest.raises(UnsupportedMethod, match="has no covariates"):
        tp.fit(tp.LDA(2), counts, tp.VB(max_iter=2), progress=False).effects()


@pytest.mark.slow
def test_a_fit_by_the_kernels_of_the_host_is_saved(tmp_path):
    counts, columns, _, _ = simulated(3, documents=60, length=20)
    model = tp.StructuralTopics(2, "~ party", engine="host")
    fit = tp.fit(model, (counts, columns), tp.VB(max_iter=5), seed=0, progress=False)
    fit.save(tmp_path / "fit.tp")
    again = tp.load(tmp_path / "fit.tp")
    np.testing.assert_allclose(again.transform((counts, columns)), fit.transform((counts, columns)), rtol=1e-9)


def test_figures(fitted):
    fit, _, _ = fitted
    effects = fit.effects(draws=20, warmup=5)
    assert [axes.get_title(loc="left") for axes in tp.plot.effects(effects).axes] == ["party[R]", "x"]
    assert "worth only" in str(effects)
    with pytest.raises(InvalidParameter, match="no coefficient 'year'"):
        tp.plot.effects(effects, ["year"])
