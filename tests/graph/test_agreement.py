"""Graphs of the ready-made models agree with them: the bound of every sweep, and the posterior, from the same start."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest

import temperance as tp
from temperance.errors import InvalidData
from temperance.graph import Graph
from temperance.models import Model, Posterior, Powers, Way
from temperance.models._model import means
from tests.graph import models
from tests.tiers import with_slow

SWEEPS = 4


def follow(hand: Model, hand_data: Any, graph: Model, graph_data: Any, names: dict[str, str]) -> None:
    """Sweep both from the hand-written model's start; `names` are the graph's names of its blocks."""
    q = started(hand, hand_data)
    q = q._replace(locals=q.locals or hand.initial_local(means(q.blocks), hand_data.values))
    in_units = hand.units.to_user(q.blocks)
    start = Posterior(
        {names.get(name, name): block for name, block in in_units.items()},
        {names.get(name, name): block for name, block in q.locals.items()},
    )
    bounds, ours = climb(hand, q, hand_data)
    others, theirs = climb(graph, start, graph_data)
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    assert bounds[-1] > bounds[0] + 1e-3  # it moved
    for name, block in hand.units.to_user(ours.blocks).items():
        found = theirs.blocks[names.get(name, name)]
        for left, right in zip(jax.tree.leaves(block.mean()), jax.tree.leaves(found.mean()), strict=True):
            np.testing.assert_allclose(right, left, rtol=1e-8, atol=1e-8)


def started(model: Model, data: Any) -> Posterior:
    return jax.jit(lambda key: model.initial(key, data))(jax.random.key(0))


def climb(model: Model, q: Posterior, data: Any, plain: bool = False) -> tuple[np.ndarray, Posterior]:
    # At powers that are not known to be 1 nothing but coordinate ascent is done.
    sweep = jax.jit(lambda q: model.sweep(q, data, Way(Powers(jnp.ones(()), jnp.ones(()))) if plain else Way()))
    bounds = []
    for _ in range(SWEEPS):
        q, bound = sweep(q)
        bounds.append(float(bound))
    return np.array(bounds), q


def test_gaussian_mixture() -> None:
    x = models.two_clusters(np.random.default_rng(0))
    prior = tp.NormalWishart(np.zeros(2), 0.01, 4.0, np.eye(2))
    hand, hand_data = tp.GaussianMixture(3, prior=prior).prepare(x)
    graph, data = models.mixture().model().prepare(x)
    assert graph.groups == (("weights", "components"),)
    follow(hand, hand_data, graph, data, {})


def test_regression() -> None:
    data = models.inputs_and_targets(np.random.default_rng(1))
    x, y = data["inputs"][:, 1:], data["y"]
    hand, hand_data = tp.LinearRegression(
        intercept="shared", prior=tp.Gamma(2.0, 1.0), noise=tp.Gamma(2.0, 0.5)
    ).prepare((x, y))
    graph, graph_data = models.regression().model().prepare(data)
    q = started(hand, hand_data)
    assert graph.groups == (("weights",), ("alpha", "noise"))
    # The hand-written model has a row of precisions, one for all weights here; the graph a single one.
    start = hand.units.to_user(q.blocks)
    bounds, ours = climb(hand, q, hand_data)
    others, theirs = climb(graph, Posterior(start | {"alpha": start["alpha"][0]}, {}), graph_data)
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    found = hand.units.to_user(ours.blocks)
    np.testing.assert_allclose(theirs.blocks["weights"].location, found["weights"].location, rtol=1e-8)
    np.testing.assert_allclose(theirs.blocks["noise"].rate, found["noise"].rate, rtol=1e-8)
    np.testing.assert_allclose(theirs.blocks["alpha"].rate, found["alpha"].rate[0], rtol=1e-8)


METHODS = {
    "VB": tp.VB(tol=1e-14, max_iter=3000),
    "in batches": tp.VB(tol=1e-14, max_iter=3000, batches=2),
    "EM": tp.EM(tol=1e-14),
    "Laplace": tp.Laplace(),
}


@pytest.mark.parametrize("name", with_slow(METHODS, "Laplace"))
def test_regression_by_every_method_with_one_answer(name: str) -> None:
    """Methods that do not depend on the start find the same evidence, whichever way the model is written."""
    data = models.inputs_and_targets(np.random.default_rng(1))
    ready = tp.LinearRegression(intercept="shared", prior=tp.Gamma(2.0, 1.0), noise=tp.Gamma(2.0, 0.5))
    hand = tp.fit(ready, (data["inputs"][:, 1:], data["y"]), METHODS[name])
    graph = tp.fit(models.regression().model(), data, METHODS[name])
    assert hand.converged and graph.log_evidence == pytest.approx(hand.log_evidence, abs=1e-8)


def test_a_frame_of_inputs_is_enough_to_predict() -> None:
    data = models.inputs_and_targets(np.random.default_rng(1))
    g = Graph()
    slope = g.normal("slope", 0.0, 1.0)
    g.normal("y", slope * g.input("x", plates="n"), g.gamma("noise", 2.0, 0.5), observed=True)
    frame = pandas.DataFrame({"y": data["y"], "x": data["inputs"][:, 1]})
    fit = tp.fit(g.model(), frame, tp.VB())
    found = fit.predict(frame[["x"]])
    np.testing.assert_array_equal(found.mean, fit.predict(frame).mean)
    np.testing.assert_array_equal(found.mean, fit.predict({"x": frame["x"].to_numpy()}).mean)
    expected = float(fit.posterior["slope"].location.ravel()[0]) * frame["x"].to_numpy()
    np.testing.assert_allclose(found.mean, expected, atol=0.02)  # a mean over draws
    with pytest.raises(InvalidData, match="lacks the column 'x'"):
        fit.predict(frame[["y"]])


def test_topics() -> None:
    rng = np.random.default_rng(2)
    words = rng.integers(6, size=(8, 7)).astype(float)
    words[0, 4:] = np.nan
    documents = [[int(w) for w in row[~np.isnan(row)]] for row in words]
    counts = np.stack([np.bincount(row, minlength=6) for row in documents])
    hand, hand_data = tp.LDA(3, 6, document_prior=0.7, topic_prior=0.5, engine="autodiff").prepare(counts)
    graph, data = models.topics().model().prepare(words)
    follow(hand, hand_data, graph, data, {})


@pytest.mark.slow
def test_factorial_mixture() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(2, size=(10, 3)) @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(10, 4))
    hand, hand_data = tp.FactorialMixture(3, noise=0.2, probability=0.4, factor_variance=1.5).prepare(x)
    graph, data = models.factorial(3, 0.2, 0.4, 1.5).model().prepare(x)
    q = started(hand, hand_data)
    factors, z = q.blocks["factors"], q.locals["z"]
    d = x.shape[1]
    precision = np.broadcast_to(np.asarray(factors.natural.gram), (d, 3, 3))
    normal = tp.Normal(np.asarray(factors.mode()).T, precision=precision)
    odds = np.asarray(z.natural.indicator)
    states = tp.CategoricalDistribution(logits=np.stack([np.zeros_like(odds), odds], axis=-1))
    bounds, ours = climb(hand, q, hand_data)
    others, theirs = climb(graph, Posterior({"factors": normal}, {"z": states}), data)
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    assert bounds[-1] > bounds[0] + 1e-3
    np.testing.assert_allclose(theirs.blocks["factors"].location.T, ours.blocks["factors"].mode(), atol=1e-8)


@pytest.mark.slow
def test_hidden_markov_model() -> None:
    rng = np.random.default_rng(4)
    long = rng.normal(size=(2, 6, 2)) + 2 * rng.integers(2, size=(2, 6, 1))
    padded = long.copy()
    padded[1, 4:] = np.nan
    prior = tp.NormalWishart(np.zeros(2), 0.1, 4.0, np.eye(2))
    hand, hand_data = tp.HMM(2, prior=prior, concentration=0.7, engine="autodiff").prepare([long[0], long[1, :4]])
    g = Graph()
    initial = g.dirichlet("initial", np.ones(2))
    transitions = g.dirichlet("transitions", np.full(2, 0.7), plates=g.plate("k", 2))
    emissions = g.variable("emissions", prior, plates="k")
    z = g.markov_chain("z", initial, transitions, time="t", plates="n")
    g.normal("x", emissions[z], observed=True)
    follow(hand, hand_data, *g.model().prepare(padded), {})


@pytest.mark.slow
def test_factor_analysis() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(15, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(15, 4))
    noise = tp.Gamma(2.0, 0.5)
    hand, hand_data = tp.FactorAnalysis(2, noise=noise, relevance=1.5, centre=np.zeros(4), scale=np.ones(4)).prepare(x)
    precision = np.asarray(hand.prior["loadings"].natural.precision)  # type: ignore[union-attr]
    g = Graph()
    loadings = g.normal("loadings", 0.0, precision, dim=3, plates="d")
    scores = g.normal("scores", 0.0, 1.0, dim=2, plates="n")
    with_one = np.eye(3, 2) @ scores + [0.0, 0.0, 1.0]
    g.normal("x", g.dot(with_one, loadings), g.variable("noise", noise, plates="d"), plates=("n", "d"), observed=True)
    graph, data = g.model().prepare(x)
    q = started(hand, hand_data)
    # Without the rotation that the hand-written model adds to each sweep.
    bounds, ours = climb(hand, q, hand_data, plain=True)
    others, theirs = climb(graph, Posterior(q.blocks, {}), data)
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    # With a distribution of their own in place of the integral the scores give the same: there is one such block.
    apart, _ = g.model(factorised="scores").prepare(x)
    local = jax.jit(lambda blocks: apart.initial_local(means(blocks), data.values))(q.blocks)
    others, _ = climb(apart, Posterior(q.blocks, local), data)
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    assert bounds[-1] > bounds[0] + 1e-3
    np.testing.assert_allclose(theirs.blocks["loadings"].location, ours.blocks["loadings"].location, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 4])
def test_gaussian_mixture_of_other_sizes(k: int) -> None:
    x = models.two_clusters(np.random.default_rng(5), 40)
    prior = tp.NormalWishart(np.zeros(2), 0.01, 4.0, np.eye(2))
    hand, hand_data = tp.GaussianMixture(k, prior=prior).prepare(x)
    follow(hand, hand_data, *models.mixture(k).model().prepare(x), {})
