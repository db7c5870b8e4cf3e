"""Five documented examples of BayesPy: at the posterior it ends at, the bound is the same number, and the best one."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import temperance as tp
from temperance.graph import Graph
from temperance.models import Posterior

pytestmark = pytest.mark.filterwarnings("ignore")


def gamma(node: Any) -> tp.Gamma:
    minus_rate, shape = (np.squeeze(phi) for phi in node.phi)
    return tp.Gamma(shape, -minus_rate)


def normal(node: Any, shape: tuple[int, ...] = ()) -> tp.Normal:
    """`shape` is that of the plates; a number there is a vector of one here."""
    linear, minus_half = node.phi
    size = int(np.prod(shape, dtype=int)) if shape else 1
    event = linear.size // size if linear.size >= size else 1
    precision = np.broadcast_to(-2.0 * np.reshape(minus_half, (-1, event, event)), (size, event, event))
    location = np.linalg.solve(precision, np.reshape(linear, (size, event, 1)))[..., 0]
    return tp.Normal(location.reshape((*shape, event)), precision=precision.reshape((*shape, event, event)))


def dirichlet(node: Any) -> tp.Dirichlet:
    return tp.Dirichlet(np.squeeze(node.phi[0]))


def wishart(node: Any) -> tp.Wishart:
    return tp.Wishart(2.0 * np.squeeze(node.phi[1]), -2.0 * np.squeeze(node.phi[0]))


def compare(graph: Graph, data: Any, blocks: dict[str, Any], theirs: float) -> None:
    model, arrays = graph.model().prepare(data)
    q = Posterior(blocks, {})
    bound = float(jax.jit(lambda q: model.bound(q, arrays))(q))
    assert bound == pytest.approx(theirs, rel=1e-6, abs=1e-6)
    after, _ = jax.jit(lambda q: model.sweep(q, arrays))(q)
    assert float(jax.jit(lambda q: model.bound(q, arrays))(after)) == pytest.approx(theirs, rel=1e-5, abs=1e-5)


def run(*nodes: Any, repeat: int = 500) -> float:
    from bayespy.inference import VB

    engine = VB(*nodes)
    engine.update(repeat=repeat, verbose=False, tol=1e-13)
    return float(engine.compute_lowerbound())


def test_mean_and_precision() -> None:
    from bayespy.nodes import Gamma, GaussianARD

    data = np.random.default_rng(1).normal(5, 10, size=10)
    mu, tau = GaussianARD(0, 1e-6), Gamma(1e-6, 1e-6)
    y = GaussianARD(mu, tau, plates=(10,))
    y.observe(data)
    theirs = run(mu, tau, y)
    g = Graph()
    g.normal("y", g.normal("mu", 0.0, 1e-6), g.gamma("tau", 1e-6, 1e-6), plates="n", observed=True)
    compare(g, data, {"mu": normal(mu), "tau": gamma(tau)}, theirs)


def test_linear_regression() -> None:
    from bayespy.nodes import Gamma, GaussianARD, SumMultiply

    inputs = np.column_stack([np.arange(10.0), np.ones(10)])
    target = inputs @ [2.0, 5.0] + 2.0 * np.random.default_rng(1).normal(size=10)
    b = GaussianARD(0, 1e-6, shape=(2,))
    tau = Gamma(1e-3, 1e-3)
    y = GaussianARD(SumMultiply("i,i", b, inputs), tau)
    y.observe(target)
    theirs = run(b, tau, y)
    g = Graph()
    weights = g.normal("b", 0.0, 1e-6, dim=2)
    phi = g.input("phi", 2, plates="n")
    g.normal("y", g.dot(weights, phi), g.gamma("tau", 1e-3, 1e-3), observed=True)
    compare(g, {"phi": inputs, "y": target}, {"b": normal(b), "tau": gamma(tau)}, theirs)


def test_gaussian_mixture() -> None:
    from bayespy.nodes import Categorical, Dirichlet, Gaussian, Mixture, Wishart

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(30, 2)) + 2, rng.normal(size=(30, 2)) - 2])
    alpha = Dirichlet(1e-1 * np.ones(2))
    z = Categorical(alpha, plates=(60,))
    mu = Gaussian(np.zeros(2), 1e-3 * np.identity(2), plates=(2,))
    precision = Wishart(2, 1e-1 * np.identity(2), plates=(2,))
    y = Mixture(z, Gaussian, mu, precision)
    y.observe(x)
    np.random.seed(1)
    z.initialize_from_random()
    theirs = run(y, mu, precision, z, alpha, repeat=3000)
    g = Graph()
    plate = g.plate("k", 2)
    means = g.normal("mu", 0.0, 1e-3 * np.eye(2), dim=2, plates=plate)
    widths = g.wishart("precision", 2.0, 1e-1 * np.eye(2), plates=plate)
    state = g.categorical("z", g.dirichlet("alpha", 0.1 * np.ones(2)), plates="n")
    g.normal("x", means[state], widths[state], observed=True)
    blocks = {"mu": normal(mu, (2,)), "precision": wishart(precision), "alpha": dirichlet(alpha)}
    compare(g, x, blocks, theirs)


def test_hidden_markov_model() -> None:
    from bayespy.nodes import Categorical, CategoricalMarkovChain, Dirichlet, Mixture

    activity = np.random.default_rng(3).integers(3, size=40)
    activity[10:25] = 2
    first, step = Dirichlet([0.5, 0.5]), Dirichlet(0.5 * np.ones((2, 2)))
    z = CategoricalMarkovChain(first, step, states=40)
    p = Dirichlet(0.5 * np.ones((2, 3)))
    p.initialize_from_value([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    y = Mixture(z, Categorical, p)
    y.observe(activity)
    theirs = run(z, p, first, step, y, repeat=3000)
    g = Graph()
    initial = g.dirichlet("first", 0.5 * np.ones(2))
    transition = g.dirichlet("step", 0.5 * np.ones(2), plates=g.plate("k", 2))
    emission = g.dirichlet("p", 0.5 * np.ones(3), plates="k")
    state = g.markov_chain("z", initial, transition, time="t", plates="n")
    g.categorical("y", emission[state], observed=True)
    compare(g, activity[None], {"first": dirichlet(first), "step": dirichlet(step), "p": dirichlet(p)}, theirs)


@pytest.mark.slow
def test_principal_components() -> None:
    from bayespy.nodes import Gamma, GaussianARD, SumMultiply

    rng = np.random.default_rng(2)
    y = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(12, 5))
    alpha, tau = Gamma(1e-2, 1e-2, plates=(3,)), Gamma(1e-2, 1e-2)
    loadings = GaussianARD(0, alpha, shape=(3,), plates=(1, 5))
    scores = GaussianARD(0, 1, shape=(3,), plates=(12, 1))
    seen = GaussianARD(SumMultiply("i,i", loadings, scores), tau)
    seen.observe(y)
    np.random.seed(0)
    loadings.initialize_from_random()
    theirs = run(seen, loadings, alpha, tau, scores, repeat=5000)
    g = Graph()
    relevance = g.gamma("alpha", 1e-2, 1e-2, plates=g.plate("q", 3))
    w = g.normal("w", 0.0, g.diagonal(relevance, "q"), plates="d")
    u = g.normal("u", 0.0, 1.0, dim=3, plates="n")
    g.normal("y", g.dot(u, w), g.gamma("tau", 1e-2, 1e-2), plates=("n", "d"), observed=True)
    blocks = {"alpha": gamma(alpha), "tau": gamma(tau), "w": normal(loadings, (5,))}
    compare(g, y, blocks, theirs)
