"""Ready models, the graphs that say the same, and data on which every start ends at one optimum, up to labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import temperance as tp
from temperance.models.linear.state_space import _known
from tests.graph import models


class Pair(NamedTuple):
    ready: Callable[[], Any]
    data: Any
    graph: Callable[[], tp.Graph]
    graph_data: Any


RNG = np.random.default_rng(3)
APART = np.where(np.arange(16)[:, None] % 3 == 0, -3.0, 3.0) + RNG.normal(size=(16, 2))
COUNTS = RNG.poisson(np.where(np.arange(16) % 3 == 0, 2.0, 40.0)).astype(float)
LINES = models.inputs_and_targets(np.random.default_rng(1))
FLAGS = np.array([1.0, 0, 0, 1, 1, 0, 1, 1, 1])
TOKENS = [[0, 0, 1, 0, 1], [2, 2, 2, 3], [0, 1, 1], [3, 2, 3, 2, 2]]
KNOWN = np.array([[1.2, 0.3], [0.3, 0.8]])
WISHART = (np.zeros(2), 0.01, 4.0, np.eye(2))


def mixture(components: Callable[[tp.Graph], Any], observe: Callable[[tp.Graph, Any], Any]) -> Callable[[], tp.Graph]:
    def build() -> tp.Graph:
        g = tp.Graph()
        weights = g.dirichlet("weights", np.ones(2))
        g.plate("k", 2)
        both = components(g)
        observe(g, both[g.categorical("z", weights, plates="n")])
        return g

    return build


def coins() -> tp.Graph:
    g = tp.Graph()
    g.bernoulli("x", g.beta("share", 1.5, 0.5), plates="n", observed=True)
    return g


def hidden_markov() -> tp.Graph:
    g = tp.Graph()
    initial = g.dirichlet("initial", np.ones(2))
    transitions = g.dirichlet("transitions", np.ones(2), plates=g.plate("k", 2))
    emissions = g.normal_wishart("emissions", *WISHART, plates="k")
    g.normal("x", emissions[g.markov_chain("z", initial, transitions, time="t", plates="n")], observed=True)
    return g


def topics() -> tp.Graph:
    g = tp.Graph()
    topic = g.dirichlet("topics", np.full(4, 0.6), plates=g.plate("k", 2))
    shares = g.dirichlet("shares", np.full(2, 0.7), plates="document")
    g.categorical("w", topic[g.categorical("z", shares, plates=("document", "token"))], observed=True)
    return g


INPUTS = np.linspace(-2.0, 2.0, 12)
ANSWERS = (INPUTS + RNG.normal(size=12) > 0.3).astype(float)
COUNTED = RNG.poisson(np.exp(0.4 * INPUTS)).astype(float)
GRADES = np.sum((INPUTS + RNG.normal(size=12))[:, None] > [-1.0, 0.5], axis=1).astype(float)
WALKS = RNG.normal(size=(2, 6)).cumsum(axis=1)


def level() -> tp.Graph:
    g = tp.Graph()
    walk, noise = g.gamma("state_noise", 2.0, 0.5), g.gamma("noise", 2.0, 1.0)
    z = g.gaussian_chain("z", 0.0, 0.2, 1.0, walk, time="t", plates="n")
    g.normal("x", z, noise, observed=True)
    return g


def local_level() -> tp.StateSpace:
    gammas = {"state_noise": tp.Gamma(2.0, 0.5), "noise": tp.Gamma(2.0, 1.0)}
    return tp.StateSpace(1, known=_known([[1.0]], [[1.0]], [1.0], [1.0]), start=5.0, centre=0.0, scale=1.0, **gammas)


def line(kind: str, **known: Any) -> Callable[[], tp.Graph]:
    """A line behind targets that are not Normal."""

    def build() -> tp.Graph:
        g = tp.Graph()
        w = g.normal("w", 0.0, 0.5, dim=2)
        getattr(g, kind)("y", g.dot(w, g.input("phi", 2, plates="n")), **known, observed=True)
        return g

    return build


def responses(ready: Callable[[], Any], y: np.ndarray, kind: str, **known: Any) -> Pair:
    phi = np.column_stack([np.ones(12), INPUTS])
    return Pair(ready, (INPUTS[:, None], y), line(kind, **known), {"phi": phi, "y": y})


PAIRS = {
    "logistic": responses(lambda: tp.LogisticRegression(prior=0.5), ANSWERS, "logistic"),
    "probit": responses(lambda: tp.ProbitRegression(prior=0.5), ANSWERS, "probit"),
    "log rate": responses(lambda: tp.PoissonRegression(prior=0.5), COUNTED, "log_poisson"),
    "censored": responses(
        lambda: tp.CensoredRegression(lower=0.0, noise=2.0, prior=0.5),
        np.maximum(INPUTS, 0.0),
        "censored",
        precision=2.0,
        lower=0.0,
    ),
    "ordered": responses(lambda: tp.OrderedRegression([-1.0, 0.5], prior=0.5), GRADES, "ordered", cuts=[-1.0, 0.5]),
    "local level": Pair(local_level, list(WALKS[:, :, None]), level, WALKS),
    "mixture": Pair(
        lambda: tp.GaussianMixture(2, prior=tp.NormalWishart(*WISHART), concentration=1.0),
        APART,
        mixture(lambda g: g.normal_wishart("both", *WISHART, plates="k"), lambda g, z: g.normal("x", z, observed=True)),
        APART,
    ),
    "known covariance": Pair(
        lambda: tp.Mixture(
            2, tp.KnownCovarianceGaussian(KNOWN), prior=tp.Normal(np.zeros(2), 20.0 * np.eye(2)), concentration=1.0
        ),
        APART,
        mixture(
            lambda g: g.normal("both", np.zeros(2), 0.05 * np.eye(2), dim=2, plates="k"),
            lambda g, z: g.normal("x", z, np.linalg.inv(KNOWN), observed=True),
        ),
        APART,
    ),
    "Poisson mixture": Pair(
        lambda: tp.Mixture(2, "poisson", prior=tp.Gamma(1.0, 0.1), concentration=1.0),
        COUNTS[:, None],
        mixture(lambda g: g.gamma("rates", 1.0, 0.1, plates="k"), lambda g, z: g.poisson("x", z, observed=True)),
        COUNTS,
    ),
    "regression": Pair(
        lambda: tp.LinearRegression(intercept="shared", prior=tp.Gamma(2.0, 1.0), noise=tp.Gamma(2.0, 0.5)),
        (LINES["inputs"][:, 1:], LINES["y"]),
        models.regression,
        LINES,
    ),
    "coins": Pair(
        lambda: tp.Mixture(1, "bernoulli", prior=tp.Beta(1.5, 0.5), concentration=1.0), FLAGS[:, None], coins, FLAGS
    ),
    "HMM": Pair(
        lambda: tp.HMM(2, prior=tp.NormalWishart(*WISHART), concentration=1.0),
        [APART[:8], APART[8:]],
        hidden_markov,
        APART.reshape(2, 8, 2),
    ),
    "LDA": Pair(
        lambda: tp.LDA(2, 4, document_prior=0.7, topic_prior=0.6),
        TOKENS,
        topics,
        {"w": np.array([row + [np.nan] * (5 - len(row)) for row in TOKENS])},
    ),
}
