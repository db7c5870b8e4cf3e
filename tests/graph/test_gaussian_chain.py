"""Gaussian chains in graphs against the ready-made state-space model, dense Gaussians and simulated joints."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.diagnostics.geweke import joint_test
from temperance.graph import Graph, NotConjugate, PlateMismatch
from temperance.models import Posterior
from temperance.models.linear.state_space import StateSpace, _known
from tests.graph.test_agreement import climb, started

ROW = np.array([[0.3, np.nan, 1.2, 2.0, 1.1], [-1.0, 0.2, 0.4, np.nan, np.nan]])


def local_level(noise: Any = None) -> Graph:
    g = Graph()
    walk = g.gamma("state_noise", 2.0, 0.5)
    level = g.gaussian_chain("level", 0.0, 0.2, 1.0, walk, time="t", plates="series")
    g.normal("x", level, g.gamma("noise", 2.0, 1.0) if noise is None else noise, observed=True)
    return g


def autoregression() -> Graph:
    """Vectors with dynamics that are learnt, seen through loadings that are learnt too, with a switch of the noise."""
    g = Graph()
    g.plate("k", 2)
    rows = g.normal("dynamics", 0.5 * np.eye(2), 8.0 * np.eye(2), plates="k")
    noise = g.diagonal(g.gamma("state_noise", 8.0, 6.0, plates="k"), "k")
    z = g.gaussian_chain("z", g.normal("first", 0.0, 2.0, dim=2), 1.0, rows, noise, time="t", plates="n")
    loadings = g.normal("loadings", 0.0, 2.0, dim=2, plates="d")
    loud = g.bernoulli("loud", g.beta("share", 2.0, 3.0), plates=("n", "t"))
    width = g.gamma("noise", 8.0, 6.0, plates=g.plate("j", 2))
    g.normal("x", g.dot(z, loadings), width[loud], plates=("n", "t", "d"), observed=True)
    return g


def dense(first: float, walk: float, noise: float, x: np.ndarray) -> float:
    """log p of a series under a level of these precisions."""
    steps = np.arange(len(x))
    covariance = 1 / first + np.minimum.outer(steps, steps) / walk + np.eye(len(x)) / noise
    seen = ~np.isnan(x)
    return float(multivariate_normal(np.zeros(seen.sum()), covariance[np.ix_(seen, seen)]).logpdf(x[seen]))


def test_at_a_draw_it_is_the_density_of_the_dense_gaussian() -> None:
    model, data = local_level().model().prepare(ROW)
    assert model.groups == (("state_noise", "noise"),)
    draw = {"state_noise": jnp.asarray(3.0), "noise": jnp.asarray(0.7)}
    found = float(jax.jit(lambda d: model.log_likelihood(d, data))(draw))
    assert found == pytest.approx(sum(dense(0.2, 3.0, 0.7, row) for row in ROW), abs=1e-10)


def test_level_agrees_with_the_ready_made_one() -> None:
    gammas = {"state_noise": tp.Gamma(2.0, 0.5), "noise": tp.Gamma(2.0, 1.0)}
    known = _known([[1.0]], [[1.0]], [1.0], [1.0])
    hand = StateSpace(1, known=known, start=5.0, centre=0.0, scale=1.0, missing="marginalise", **gammas)
    hand, hand_data = hand.prepare([ROW[0][:, None], ROW[1][:3, None]])
    graph, data = local_level().model().prepare(ROW)
    bounds, ours = climb(hand, Posterior(dict(hand.prior), {}), hand_data)  # type: ignore[arg-type]
    others, theirs = climb(graph, Posterior(dict(graph.prior), {}), data)  # type: ignore[arg-type]
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    assert bounds[-1] > bounds[0] + 1e-3
    for name, block in ours.blocks.items():
        np.testing.assert_allclose(theirs.blocks[name].rate, block.rate[0], rtol=1e-8)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_answers() -> None:
    """States from the dense Gaussian; what was not seen; the bound node by node."""
    model, data = local_level().model().prepare(ROW)
    q = Posterior({"state_noise": tp.Gamma(5.0, 2.0), "noise": tp.Gamma(6.0, 3.0)}, {})
    steps, walk, noise = np.arange(5), 2.5, 2.0
    covariance = 1 / 0.2 + np.minimum.outer(steps, steps) / walk
    smoothed = model.smooth(q, data.values)
    for row, mean, variance in zip(ROW, smoothed.mean, smoothed.variance, strict=True):
        seen = ~np.isnan(row)
        gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + np.eye(seen.sum()) / noise)
        np.testing.assert_allclose(mean, gain @ row[seen], rtol=1e-9)
        np.testing.assert_allclose(variance, np.diag(covariance - gain @ covariance[seen]), rtol=1e-9)
    filled = model.impute(q, ROW)["x"]
    np.testing.assert_allclose(filled, np.where(np.isnan(ROW), smoothed.mean, ROW), rtol=1e-10)
    terms = model.bound_terms(q, data)
    assert set(terms) == {"state_noise", "noise", "level", "x"}
    assert sum(terms.values()) == pytest.approx(float(jax.jit(lambda q: model.bound(q, data))(q)), abs=1e-8)
    drawn = tp.fit(local_level().model(), ROW, tp.Gibbs(draws=400, warmup=200))
    exact = tp.fit(local_level().model(), ROW, tp.VB())
    assert np.abs(drawn.smooth().mean - exact.smooth().mean).max() < 0.2  # each in units of a state's spread, about 0.7


@pytest.mark.slow
def test_learnt_matrices_agree_with_the_ready_made_model() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 3)).cumsum(axis=1)
    noise = tp.Gamma(2.0, 0.5)
    hand, hand_data = tp.StateSpace(2, noise=noise, relevance=1.5, centre=np.zeros(3), scale=1.0).prepare(list(x))
    g = Graph()
    rows = g.normal("dynamics", 0.5 * np.eye(2), 8.0 * np.eye(2), plates=g.plate("k", 2))
    precision = np.asarray(hand.prior["observation"].natural.precision)  # type: ignore[union-attr]
    c = g.normal("observation", 0.0, precision, dim=3, plates="d")
    z = g.gaussian_chain("z", 0.0, 1.0, rows, 1.0, time="t", plates="n")
    with_one = np.eye(3, 2) @ z + [0.0, 0.0, 1.0]
    g.normal("x", g.dot(with_one, c), g.variable("noise", noise, plates="d"), plates=("n", "t", "d"), observed=True)
    graph, data = g.model().prepare(x)
    q = started(hand, hand_data)
    bounds, ours = climb(hand, q, hand_data)
    others, theirs = climb(graph, q, data)
    np.testing.assert_allclose(others, bounds, rtol=0, atol=1e-9 * (1 + np.abs(bounds).max()))
    assert bounds[-1] > bounds[0] + 1e-3
    for name in ("dynamics", "observation"):
        np.testing.assert_allclose(theirs.blocks[name].location, ours.blocks[name].location, atol=1e-8)


@pytest.mark.slow
def test_full_precisions_and_known_dynamics_are_the_dense_gaussian() -> None:
    a, t = np.array([[0.9, 0.2], [-0.1, 0.7]]), 4
    g = Graph()
    z = g.gaussian_chain("z", [1.0, -1.0], 2.0, a, g.wishart("walk", 4.0, np.eye(2)), time="t", plates="n")
    g.normal("x", z, g.wishart("noise", 5.0, np.eye(2)), observed=True)
    x = np.random.default_rng(1).normal(size=(1, t, 2))
    model, data = g.model().prepare(x)
    draw = {"walk": np.array([[2.0, 0.5], [0.5, 1.0]]), "noise": np.array([[1.0, -0.3], [-0.3, 2.0]])}
    mean, covariance = [np.array([1.0, -1.0])], {(0, 0): np.eye(2) / 2.0}
    for s in range(1, t):
        mean.append(a @ mean[-1])
        for r in range(s):
            covariance[s, r] = a @ covariance[s - 1, r]
            covariance[r, s] = covariance[s, r].T
        covariance[s, s] = a @ covariance[s - 1, s - 1] @ a.T + np.linalg.inv(draw["walk"])
    whole = np.block([[covariance[s, r] for r in range(t)] for s in range(t)])
    whole = whole + np.kron(np.eye(t), np.linalg.inv(draw["noise"]))
    expected = multivariate_normal(np.concatenate(mean), whole).logpdf(x.ravel())
    found = jax.jit(lambda d: model.log_likelihood(d, data))(jax.tree.map(jnp.asarray, draw))
    assert float(found) == pytest.approx(expected, abs=1e-10)


@pytest.mark.slow
def test_bound_never_falls_and_gibbs_leaves_the_joint_distribution() -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 2))
    x[1, 2] = np.nan
    model, data = autoregression().model().prepare(x)
    assert any("'loud'" in remark for remark in model.remarks)

    @jax.jit
    def up(key: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda q, _: model.sweep(q, data), model.initial(key, data), None, length=12)[1]

    bounds = np.asarray(up(jax.random.key(0)))
    assert (np.diff(bounds) >= -1e-12 * (1 + np.abs(bounds[1:]))).all() and bounds[-1] > bounds[0], bounds
    scores = joint_test(jax.random.key(1), model, data)
    assert scores.worst < 5.0, scores


def test_what_a_chain_cannot_be_is_said() -> None:
    g = Graph()
    rows = g.normal("rows", 0.0, 1.0, dim=2, plates=g.plate("k", 2))
    for attempt, error, message in (
        (
            lambda: g.gaussian_chain("z", 0.0, 1.0, rows, g.wishart("full", 3.0, np.eye(2)), time="t", plates="n"),
            NotConjugate,
            r"full precision matrix 'full'.*g\.diagonal",
        ),
        (lambda: g.gaussian_chain("z", time="t"), PlateMismatch, "needs a plate of series"),
        (
            lambda: g.gaussian_chain("z", dynamics=np.ones((3, 2)), time="t", plates="n"),
            PlateMismatch,
            r"matrix 2 by 2, got \(3, 2\)",
        ),
    ):
        with pytest.raises(error, match=message):
            attempt()
    for name in ("a", "b"):
        chain = g.gaussian_chain(name, time="t", plates="n")
    g.normal("x", chain, 1.0, observed=True)
    with pytest.raises(NotConjugate, match="one Gaussian chain, found 'a' and 'b'"):
        g.model()


def test_a_chain_along_the_plate_of_the_data_is_refused() -> None:
    g = Graph()
    means = g.normal("means", 0.0, 1.0, plates=g.plate("k", 2))
    z = g.markov_chain("z", [0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], time="t")
    g.normal("x", means[z], 1.0, observed=True)
    with pytest.raises(PlateMismatch, match="runs along 't'"):
        g.model()
