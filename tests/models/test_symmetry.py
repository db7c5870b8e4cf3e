"""What a model says of its exchangeable parts is true of its joint density."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.graph import Graph
from temperance.models import Data, Model
from temperance.models.mixture.tied import TiedMixture, TiedProcessMixture
from tests.graph import models

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(5, 2))
WISHART = tp.NormalWishart([0.0, 0.0], 0.5, 3.0, np.eye(2))
DOCUMENTS = [[0, 1, 1], [2, 3], [0, 3, 3, 3]]
Make = Callable[[], tuple[Model, Any]]


def two_values() -> Graph:
    """A Bernoulli latent: its values change places where the probability becomes its complement."""
    g = Graph()
    mean = g.normal("mean", 0.0, 0.1, plates=g.plate("k", 2))
    z = g.bernoulli("z", g.beta("share", 2.0, 2.0), plates="n")
    g.normal("x", mean[z], 1.0, observed=True)
    return g


ALIKE: dict[str, Make] = {
    "mixture": lambda: (tp.GaussianMixture(3, prior=WISHART), ROWS),
    "mixture, columns": lambda: (tp.Mixture(3, "diagonal"), ROWS),
    "mixture, known weights": lambda: (tp.GaussianMixture(3, prior=WISHART, weights=[1 / 3] * 3), ROWS),
    "mixture, one precision": lambda: (TiedMixture(3, prior=WISHART), ROWS),
    "hidden Markov": lambda: (tp.HMM(3, prior=WISHART, sticky=2.0), ROWS),
    "topics": lambda: (tp.LDA(3, 4), DOCUMENTS),
    "factorial": lambda: (tp.FactorialMixture(3, noise=0.5), ROWS),
    "factorial, unknown noise": lambda: (tp.FactorialMixture(3, noise=tp.Gamma(2.0, 1.0)), ROWS),
    "factors": lambda: (tp.FactorAnalysis(2), ROWS),
    "states": lambda: (tp.StateSpace(2), ROWS),
    "graph, mixture": lambda: (models.mixture(3).model(), ROWS),
    "graph, hidden Markov": lambda: (models.hidden_markov().model(), ROWS[None, :, 0]),
    "graph, two values": lambda: (two_values().model(), ROWS[:, 0]),
}
APART: dict[str, Make] = {
    "mixture, weights": lambda: (tp.GaussianMixture(2, prior=WISHART, concentration=[1.0, 2.0]), ROWS),
    "mixture, known weights": lambda: (tp.GaussianMixture(2, prior=WISHART, weights=[0.4, 0.6]), ROWS),
    "hidden Markov": lambda: (tp.HMM(2, prior=WISHART, concentration=[[1.0, 2.0], [1.0, 2.0]]), ROWS),
    "topics": lambda: (tp.LDA(2, 4, document_prior=[1.0, 2.0]), DOCUMENTS),
    "factorial": lambda: (tp.FactorialMixture(2, noise=0.5, probability=[0.2, 0.3]), ROWS),
    "factors, all rotations": lambda: (tp.FactorAnalysis(2, relevance=1.0), ROWS),
    "factors, relevance": lambda: (tp.FactorAnalysis(2, relevance=tp.Gamma([1.0, 2.0], 1.0)), ROWS),
    "states, start": lambda: (tp.StateSpace(2, start=[1.0, 2.0]), ROWS),
}
NONE: dict[str, Make] = {
    "process": lambda: (tp.DirichletProcessMixture(3, prior=WISHART), ROWS),
    "process, one precision": lambda: (TiedProcessMixture(3, prior=WISHART), ROWS),
    "known matrices": lambda: (tp.StateSpace.local_trend(), ROWS[:, :1]),
    "regression": lambda: (tp.LinearRegression(), (ROWS, ROWS[:, 0])),
}


def log_joint(model: Model, data: Data, both: dict[str, Any]) -> Any:
    """log p(x, θ, local blocks)."""
    draws = {name: both[name] for name in model.prior}
    local = {name: value for name, value in both.items() if name not in draws}
    m = model.statistics(draws)
    m = m | model._local_statistics(m, data, local)
    rows = model._datum(m, data.values, tp.models.Powers(), None)
    return jnp.sum(data.weights * rows) + model.log_prior(m)


@pytest.mark.parametrize("name", ALIKE)
def test_joint_density_is_the_same_for_every_order_and_sign(name: str) -> None:
    given, x = ALIKE[name]()
    model, data = given.prepare(x)
    symmetry = model.symmetry
    assert symmetry is not None and symmetry.alike == symmetry
    key = jax.random.key(1)
    draws = model.sample_prior(key)
    both = draws | model.sample_local_prior(key, data.values, draws)
    before = float(log_joint(model, data, both))
    orders = [jnp.roll(jnp.arange(parts.size), 1) for parts in symmetry.parts]
    after = symmetry.rearranged(both, orders)
    assert float(log_joint(model, data, after)) == pytest.approx(before, rel=1e-10)
    moved = [not np.allclose(a, b) for a, b in zip(jax.tree.leaves(both), jax.tree.leaves(after), strict=True)]
    assert any(moved)
    for parts in symmetry.parts:
        if parts.signs:
            signs = jnp.asarray([-1.0, 1.0])
            turned = parts.rearranged(both, jnp.arange(parts.size), signs)
            assert float(log_joint(model, data, turned)) == pytest.approx(before, rel=1e-10)


@pytest.mark.parametrize("name", APART)
def test_a_prior_that_tells_parts_apart_is_found_out(name: str) -> None:
    given, x = APART[name]()
    symmetry = given.prepare(x)[0].symmetry
    assert symmetry is not None and symmetry.alike is None


@pytest.mark.parametrize("name", NONE)
def test_models_without_exchangeable_parts(name: str) -> None:
    given, x = NONE[name]()
    assert given.prepare(x)[0].symmetry is None
