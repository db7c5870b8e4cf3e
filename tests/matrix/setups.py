"""The set-ups of models and of methods whose pairs `docs/matrix.md` lists: what people write, on a few tiny rows.

A method is here as often as its arguments change what it does, a model as often as its arguments change what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import temperance as tp

ROWS = np.array([[-2.1, 0.3], [-1.7, 0.1], [-1.9, -0.2], [0.9, 1.9], [1.4, 2.2], [1.2, 1.7]])
GAPS = np.where(np.arange(12).reshape(6, 2) % 5 == 3, np.nan, ROWS)
FLAGS = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 0]], float)
CODES = np.array([[0, 2], [1, 2], [0, 1], [2, 0], [2, 1], [2, 0]], float)
COUNTS = np.array([[1, 4], [0, 6], [2, 5], [7, 1], [6, 0], [8, 2]], float)
INPUTS, TARGET = ROWS[:, :1], ROWS[:, 1]
TOKENS = [[0, 0, 1], [1, 2, 2], [0, 2]]
SERIES = np.array([5.3, 4.8, 6.0, 6.4, 5.9, 6.8])[:, None]
NOISE = np.eye(2) * 0.3


class Setup(NamedTuple):
    """A model and data it is for."""

    model: Callable[[], Any]
    data: Any


# ---- graphs -------------------------------------------------------------------------------------------------


def labelled(components: Callable[[tp.Graph], Any], observe: Callable[[tp.Graph, Any], Any]) -> Callable[[], Any]:
    """A mixture of two components, written as a graph."""

    def build() -> Any:
        g = tp.Graph()
        weights = g.dirichlet("weights", np.ones(2))
        g.plate("k", 2)
        both = components(g)
        observe(g, both[g.categorical("z", weights, plates="n")])
        return g.model()

    return build


def graph_regression() -> Any:
    g = tp.Graph()
    weights = g.normal("weights", 0.0, g.gamma("alpha", 2.0, 1.0), dim=2)
    inputs = g.input("inputs", 2, plates="n")
    g.normal("y", g.dot(weights, inputs), g.gamma("noise", 2.0, 0.5), observed=True)
    return g.model()


def graph_hidden_markov() -> Any:
    g = tp.Graph()
    first = g.dirichlet("first", np.ones(2))
    moves = g.dirichlet("moves", np.ones(2), plates=g.plate("k", 2))
    emission = g.normal_gamma("emission", 0.0, 0.3, 4.0, 2.0, plates="k")
    g.normal("x", emission[g.markov_chain("z", first, moves, time="t", plates="n")], observed=True)
    return g.model()


def graph_walk() -> Any:
    g = tp.Graph()
    pull, width = g.normal("pull", 0.5, 5.0), g.gamma("width", 6.0, 3.0)
    z = g.gaussian_chain("z", g.normal("first", 0.0, 2.0), 1.0, pull, width, time="t", plates="n")
    g.normal("x", z, g.gamma("noise", 6.0, 3.0), observed=True)
    return g.model()


def graph_coins() -> Any:
    g = tp.Graph()
    g.bernoulli("x", g.beta("share", 1.0, 1.0), plates="n", observed=True)
    return g.model()


def graph_topics() -> Any:
    g = tp.Graph()
    topic = g.dirichlet("topics", np.full(3, 0.6), plates=g.plate("k", 2))
    shares = g.dirichlet("shares", np.full(2, 0.7), plates="document")
    g.categorical("w", topic[g.categorical("z", shares, plates=("document", "token"))], observed=True)
    return g.model()


def graph_ppca() -> Any:
    g = tp.Graph()
    loadings = g.normal("loadings", 0.0, 1.0, dim=1, plates="d")
    scores = g.normal("scores", 0.0, 1.0, dim=1, plates="n")
    g.normal("x", g.dot(scores, loadings), g.gamma("noise", 2.0, 0.5), plates=("n", "d"), observed=True)
    return g.model()


LINE = ROWS[:, 0]
GRAPHS = {
    "Graph: mixture": Setup(
        labelled(
            lambda g: g.normal_gamma("both", 0.0, 0.1, 3.0, 0.5, plates="k"),
            lambda g, z: g.normal("x", z, observed=True),
        ), LINE,
    ),
    "Graph: mixture, known covariance": Setup(
        labelled(
            lambda g: g.normal("both", 0.0, 0.1, plates="k"),
            lambda g, z: g.normal("x", z, 2.0, observed=True),
        ), LINE,
    ),
    "Graph: regression": Setup(graph_regression, {"inputs": np.column_stack([np.ones(6), LINE]), "y": TARGET}),
    "Graph: HMM": Setup(graph_hidden_markov, LINE.reshape(2, 3)),
    "Graph: Gaussian chain": Setup(graph_walk, LINE.reshape(2, 3)),
    "Graph: beta–Bernoulli": Setup(graph_coins, FLAGS[:, 0]),
    "Graph: Poisson mixture": Setup(
        labelled(
            lambda g: g.gamma("rates", 1.0, 0.5, plates="k"),
            lambda g, z: g.poisson("x", z, observed=True),
        ), COUNTS[:, 0],
    ),
    "Graph: LDA": Setup(graph_topics, {"w": np.array([[0, 0, 1], [1, 2, 2], [0, 2, 2]])}),
    "Graph: PPCA": Setup(graph_ppca, ROWS),
}  # fmt: skip


# ---- all ----------------------------------------------------------------------------------------------------

MODELS = {
    "GaussianMixture: full": Setup(lambda: tp.GaussianMixture(2), ROWS),
    "GaussianMixture: diagonal": Setup(lambda: tp.GaussianMixture(2, covariance="diag"), ROWS),
    "GaussianMixture: spherical": Setup(lambda: tp.GaussianMixture(2, covariance="spherical"), ROWS),
    "GaussianMixture: tied": Setup(lambda: tp.GaussianMixture(2, covariance="tied"), ROWS),
    "Mixture: Gaussian, known covariance": Setup(
        lambda: tp.Mixture(2, tp.KnownCovarianceGaussian(NOISE), prior=tp.Normal(np.zeros(2), 0.2 * np.eye(2))), ROWS
    ),
    "GaussianMixture: with gaps": Setup(lambda: tp.GaussianMixture(2, missing="marginalise"), GAPS),
    "Mixture: Poisson": Setup(lambda: tp.Mixture(2, "poisson"), COUNTS),
    "Mixture: Bernoulli": Setup(lambda: tp.Mixture(2, "bernoulli"), FLAGS),
    "Mixture: categorical": Setup(lambda: tp.Mixture(2, "categorical"), CODES),
    "Mixture: multinomial": Setup(lambda: tp.Mixture(2, "multinomial"), COUNTS),
    "DirichletProcessMixture: fixed": Setup(lambda: tp.DirichletProcessMixture(3, concentration=1.0), ROWS),
    "DirichletProcessMixture: learned": Setup(
        lambda: tp.DirichletProcessMixture(3, concentration=tp.Gamma(2.0, 1.0)), ROWS
    ),
    "LinearRegression": Setup(lambda: tp.LinearRegression(), (INPUTS, TARGET)),
    "LinearRegression: ARD": Setup(lambda: tp.LinearRegression(ard=True), (INPUTS, TARGET)),
    "LinearRegression: known noise": Setup(
        lambda: tp.LinearRegression(prior=1.0, noise=2.0), (INPUTS, TARGET)
    ),
    "FactorialMixture": Setup(
        lambda: tp.FactorialMixture(2, noise=0.3, probability=0.4, factor_variance=2.0), ROWS[:4]
    ),
    "FactorialMixture: learned": Setup(lambda: tp.FactorialMixture(2), ROWS[:4]),
    "LDA": Setup(lambda: tp.LDA(2, document_prior=0.5, topic_prior=0.6), TOKENS),
    "HMM: Gaussian": Setup(lambda: tp.HMM(2), [ROWS[:3], ROWS[3:]]),
    "HMM: categorical": Setup(lambda: tp.HMM(2, "categorical"), [CODES[:3], CODES[3:]]),
    "FactorAnalysis": Setup(lambda: tp.FactorAnalysis(1), ROWS),
    "StateSpace": Setup(lambda: tp.StateSpace(1), SERIES),
    "StateSpace: local level": Setup(lambda: tp.StateSpace.local_level(), SERIES),
    **GRAPHS,
}  # fmt: skip

VB = tp.VB(max_iter=5)
WARM = (1.0, 1.5, 2.5)
METHODS = {
    "VB": VB,
    "VB(batches=2)": tp.VB(batches=2, max_iter=5),
    "VB(moves=True)": tp.VB(moves=True, max_iter=5),
    "SVI": tp.SVI(batch_size=2, passes=2),
    "Annealed": tp.Annealed(VB, length=3),
    "VT": tp.VT(WARM, VB, length=3),
    "LVT": tp.LVT(WARM, VB, length=3),
    "CVB0": tp.CVB0(max_iter=5),
    "EP": tp.EP(max_passes=5),
    "MessagePassing(0.5)": tp.MessagePassing(0.5, max_passes=5),
    "EP(double_loop=True)": tp.EP(double_loop=True, max_passes=5),
    "EM": tp.EM(max_iter=5),
    "EM(incremental=True)": tp.EM(incremental=True, max_iter=5),
    "Laplace": tp.Laplace(max_iter=20),
    "Gibbs": tp.Gibbs(draws=4, warmup=2),
    "CollapsedGibbs": tp.CollapsedGibbs(draws=4, warmup=2),
    "ParallelTempering": tp.ParallelTempering(draws=8, warmup=4, replicas=3),
    "AIS": tp.AIS(particles=4, temperatures=4),
    "ImportanceSampling": tp.ImportanceSampling(draws=16),
    "VariationalKernel": tp.VariationalKernel(draws=4, warmup=2),
}

# Beyond the 32 set-ups and 20 methods of the count.
ANSWERS, COUNTED = np.array([0.0, 0.0, 1.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 4.0, 3.0, 2.0])
MORE_MODELS = {
    "ClassMixture": Setup(
        lambda: tp.ClassMixture(2),
        {"height": ROWS[:, 0], "smokes": np.array(["no", "no", "yes", "yes", "no", "yes"])},
    ),
    "StudentMixture": Setup(lambda: tp.StudentMixture(2, degrees=(2.0, 10.0)), ROWS),
    "MixtureOfExperts": Setup(lambda: tp.MixtureOfExperts(2), (INPUTS, TARGET)),
    "HDP": Setup(lambda: tp.HDP(3), TOKENS),
    "StructuralTopics": Setup(
        lambda: tp.StructuralTopics(2, "~ 0 + x", topic_prior=0.6), (TOKENS, {"x": [0.5, -1.0, 2.0]})
    ),
    "LogisticRegression": Setup(lambda: tp.LogisticRegression(), (INPUTS, ANSWERS)),
    "ProbitRegression": Setup(lambda: tp.ProbitRegression(), (INPUTS, ANSWERS)),
    "PoissonRegression": Setup(lambda: tp.PoissonRegression(), (INPUTS, COUNTED)),
    "OrderedRegression": Setup(lambda: tp.OrderedRegression([0.0, 1.0]), (INPUTS, np.minimum(COUNTED, 2.0))),
    "CensoredRegression": Setup(lambda: tp.CensoredRegression(lower=0.0), (INPUTS, TARGET)),
    "TruncatedRegression": Setup(lambda: tp.TruncatedRegression(lower=-3.0), (INPUTS, TARGET)),
    "SwitchingStateSpace": Setup(lambda: tp.SwitchingStateSpace(2, 1), SERIES),
}
MORE_METHODS = {"SMC": tp.SMC(particles=8, populations=4), "EM(prior=False)": tp.EM(prior=False, max_iter=5)}

# ---- what the mathematics forbids: (methods, set-ups, why) --------------------------------------------------

_NO_LABELS = (
    "LinearRegression", "LinearRegression: ARD", "LinearRegression: known noise", "FactorAnalysis", "StateSpace",
    "StateSpace: local level", "Graph: regression", "Graph: Gaussian chain", "Graph: PPCA", "LogisticRegression",
    "ProbitRegression", "PoissonRegression", "OrderedRegression", "CensoredRegression", "TruncatedRegression",
)  # fmt: skip
_VARIANCES = (
    "GaussianMixture: full", "GaussianMixture: diagonal", "GaussianMixture: spherical", "GaussianMixture: tied",
    "GaussianMixture: with gaps", "DirichletProcessMixture: fixed", "DirichletProcessMixture: learned",
    "LinearRegression", "LinearRegression: ARD", "FactorialMixture: learned", "HMM: Gaussian", "FactorAnalysis",
    "StateSpace", "StateSpace: local level", "Graph: mixture", "Graph: regression", "Graph: HMM",
    "Graph: Gaussian chain", "Graph: PPCA", "ClassMixture", "StudentMixture", "SwitchingStateSpace",
    "MixtureOfExperts",
)  # fmt: skip
IMPOSSIBLE = (
    (
        ("VT",), _VARIANCES,
        "with a prior on a variance σ² the normaliser of the tempered joint, which contains E σ^((1 − 1/T) N d), is "
        "infinite",
    ),
    (
        ("CVB0", "CollapsedGibbs"), _NO_LABELS,
        "there are no discrete latents to visit, and given the continuous ones the parameters do not integrate out",
    ),
    (
        ("VB(moves=True)",), (*_NO_LABELS, "Graph: beta–Bernoulli"),
        "there are no components to empty, merge or split",
    ),
)  # fmt: skip
