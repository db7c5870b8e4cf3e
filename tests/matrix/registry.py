"""One line for each model: a random problem. Every generic test (monotone bound, Geweke) runs over all of them.

`problem(rng)` gives a model with a proper prior and data as a user has them. All draws of one entry have the same
shapes, so that a hundred problems are one compilation. Keep them tiny.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import temperance as tp
from tests.exact.pairs import PAIRS, Pair
from tests.matrix.effects import Effects, problem

ROWS, COMPONENTS = 6, 3


@dataclass(frozen=True)
class Entry:
    name: str
    problem: Callable[[np.random.Generator], tuple[tp.models.Model, Any]]
    weighted: bool = True  # whether a row may have a weight of its own

    def __repr__(self) -> str:
        return self.name


def mixture(pair: Pair) -> Entry:
    def problem(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
        concentration = 10 ** rng.uniform(-1, 1, COMPONENTS)
        model = pair.mixture(COMPONENTS, pair.hyper(rng), concentration=concentration)
        return model, pair.data(rng, ROWS)

    return Entry(f"mixture, {pair}", problem)


def regression(ard: bool) -> Entry:
    def problem(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
        alpha, beta = (tp.Gamma(rng.uniform(2, 5), rng.uniform(1, 3)) for _ in range(2))
        x = rng.normal(size=(ROWS, 2)) * 10 ** rng.uniform(-1, 1, 2) + rng.normal(size=2)
        x[:, 1] = x[:, 0] if rng.uniform() < 0.2 else x[:, 1]  # collinear
        return tp.LinearRegression(prior=alpha, noise=beta, ard=ard), (x, rng.normal(size=ROWS) + rng.normal())

    return Entry(f"regression, {'a precision for each weight' if ard else 'one precision'}", problem)


def generalised(kind: Any, **given: Any) -> Entry:
    def problem(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
        # Narrow weights: the test of the joint needs the moments of counts whose rate is exp(w · φ).
        model = kind(prior=tp.Gamma(rng.uniform(12, 16), 1.0), intercept="shared", **given)
        return model, (rng.normal(size=(ROWS, 2)), rng.integers(2, size=ROWS).astype(float))

    return Entry(kind.__name__, problem)


def process(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    alpha = tp.Gamma(rng.uniform(2, 5), rng.uniform(1, 3))
    prior = tp.Beta(*rng.uniform(0.5, 3, 2))
    model = tp.DirichletProcessMixture(COMPONENTS, "bernoulli", prior=prior, concentration=alpha)
    return model, rng.integers(2, size=(ROWS, 2))


def outliers(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    # Enough degrees of freedom for fourth moments, as the test of the joint needs them.
    prior = tp.NormalWishart(rng.normal(size=1), rng.uniform(0.5, 2), rng.uniform(12, 16), [[rng.uniform(5, 15)]])
    return tp.StudentMixture(2, degrees=(10.0, 30.0), prior=prior), rng.normal(size=(ROWS, 1)) * 3


def factors(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    # Shapes of at least five: the test of the joint needs the loadings' fourth moments.
    relevance, noise = (tp.Gamma(rng.uniform(5, 8, size), rng.uniform(2, 6)) for size in (2, 3))
    x = rng.normal(size=(ROWS, 3)) * 10 ** rng.uniform(-1, 1, 3) + rng.normal(size=3)
    x[0, 1] = x[2, 0] = np.nan
    return tp.FactorAnalysis(2, relevance=relevance, noise=noise, missing="marginalise"), x


def states(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    """Two series of unequal length with a hole and a control."""
    relevance, noise = (tp.Gamma(rng.uniform(5, 8, 2), rng.uniform(2, 6)) for _ in range(2))
    model = tp.StateSpace(2, relevance=relevance, noise=noise, n_controls=1, missing="marginalise")
    x = [rng.normal(size=(length, 2)) + rng.normal(size=2) for length in (4, 2)]
    x[0][1, 0] = np.nan
    return model, (x, [rng.normal(size=(length, 1)) for length in (4, 2)])


def switches(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    """Two series that follow one of two laws, with a hole."""
    law = tp.MatrixNormalWishart(
        0.3 * rng.normal(size=(1, 1)), [[rng.uniform(3, 5)]], rng.uniform(12, 16), [[rng.uniform(4, 9)]]
    )
    noise, delta = tp.Gamma(rng.uniform(6, 8), rng.uniform(2, 6)), rng.uniform(0.5, 3, (2, 2))
    model = tp.SwitchingStateSpace(2, 1, dynamics=law, noise=noise, concentration=delta, missing="marginalise")
    x = [rng.normal(size=(4, 1)) for _ in range(2)]
    x[0][2] = np.nan
    return model, x


def chain(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    """A sequence with a step and an entry that were not seen."""
    prior = tp.Beta(*rng.uniform(0.5, 3, 2))
    delta = rng.uniform(0.5, 3, (2, 2))
    x = rng.integers(2, size=(ROWS, 2)).astype(float)
    x[2], x[4, 0] = np.nan, np.nan
    model = tp.HMM(
        2, "bernoulli", prior=prior, concentration=delta, initial_concentration=delta[0], missing="marginalise"
    )
    return model, x


def lines(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    """A graph: a mixture of two regressions, with targets that were not seen."""
    g = tp.Graph()
    share = g.dirichlet("share", rng.uniform(0.5, 3, 2))
    weights = g.normal("weights", 0.0, g.gamma("width", rng.uniform(6, 8), 5.0), dim=2, plates=g.plate("k", 2))
    noise = g.gamma("noise", rng.uniform(6, 8), rng.uniform(2, 6), plates="k")
    inputs = g.input("inputs", 2, plates="n")
    z = g.categorical("z", share, plates="n")
    g.normal("y", g.dot(weights[z], inputs), noise[z], observed=True)
    y = 2 * rng.normal(size=ROWS)
    y[3] = np.nan
    return g.model(), {"inputs": rng.normal(size=(ROWS, 2)), "y": y}


def walks(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
    """A graph: a chain of Normal numbers whose dynamics are learnt, with steps that were not seen."""
    g = tp.Graph()
    pull = g.normal("pull", 0.5, rng.uniform(4, 8))
    walk = g.gamma("walk", rng.uniform(6, 8), rng.uniform(2, 6))
    z = g.gaussian_chain("z", g.normal("first", 0.0, 2.0), 1.0, pull, walk, time="t", plates="n")
    g.normal("x", z, g.gamma("noise", rng.uniform(6, 8), rng.uniform(2, 6)), observed=True)
    x = 2 * rng.normal(size=(3, 4))
    x[0, 1] = x[1, 2:] = np.nan
    return g.model(), x


ENTRIES = [
    Entry("two effects", partial(problem, Effects)),
    *map(mixture, PAIRS),
    *map(regression, (False, True)),
    *map(generalised, (tp.LogisticRegression, tp.ProbitRegression, tp.PoissonRegression)),
    generalised(tp.OrderedRegression, cuts=[-0.3, 0.8]),
    generalised(tp.CensoredRegression, lower=0.0, noise=2.0),
    generalised(tp.TruncatedRegression, lower=-1.0, upper=6.0, noise=2.0),
    Entry("Dirichlet process, a prior on the concentration", process),
    Entry("mixture with outliers", outliers),
    Entry("factor analysis with holes", factors),
    Entry("state space", states),
    Entry("switching state space with a hole", switches),
    Entry("hidden Markov model with holes", chain, weighted=False),
    Entry("graph, two regressions with holes", lines),
    Entry("graph, Gaussian chain with holes", walks),
]
