"""Every conjugate pair a mixture can be made of: random hyperparameters, data, and the exact marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import temperance as tp
from tests.exact import marginals
from tests.exact.enumeration import Marginal

Generator = np.random.Generator
Hyper = dict[str, Any]

COLUMNS = 2
LEVELS = 3


@dataclass(frozen=True)
class Pair:
    """`hyper(rng)` are the arguments of `marginal` after the data, and `mixture(k, hyper, …)` the same model."""

    name: str
    hyper: Callable[[Generator], Hyper]
    mixture: Callable[..., tp.Mixture]
    rows: Callable[[Generator, int], np.ndarray]
    log_marginal: Callable[..., float]
    holes: bool = False  # NaN in the data, of two problems in three
    exact: bool = True  # whether `log_marginal` takes them

    def __repr__(self) -> str:
        return self.name

    def marginal(self, hyper: Hyper) -> Marginal:
        return lambda x: self.log_marginal(x, **hyper)

    def data(self, rng: Generator, n: int) -> np.ndarray:
        x = self.rows(rng, n)
        if not self.holes or rng.random() < 1 / 3:
            return x
        holes = rng.random(x.shape) < 0.3
        holes[0] = False  # no column without a value
        return np.where(holes, np.nan, x)


def spd(rng: Generator, d: int = COLUMNS) -> np.ndarray:
    root = rng.normal(size=(d, d))
    return root @ root.T + 0.3 * np.eye(d)


def wishart(rng: Generator) -> Hyper:
    return {
        "mean": rng.normal(size=COLUMNS),
        "pseudo_count": 10 ** rng.uniform(-2, 1),
        "dof": COLUMNS - 1 + 10 ** rng.uniform(-1, 1),
        "scatter": spd(rng),
    }


def gamma(rng: Generator, columns: Any = ()) -> Hyper:
    return {
        "mean": rng.normal(size=COLUMNS),
        "pseudo_count": 10 ** rng.uniform(-2, 1, columns),
        "dof": 10 ** rng.uniform(-1, 1, columns),
        "scatter": 10 ** rng.uniform(-1, 1, columns),
    }


def normal(rng: Generator) -> Hyper:
    return {"covariance": spd(rng), "mean": rng.normal(size=COLUMNS), "spread": spd(rng)}


def clusters(rng: Generator, n: int) -> np.ndarray:
    centres = rng.normal(size=(3, COLUMNS)) * rng.uniform(0, 4)
    return centres[rng.integers(3, size=n)] + rng.normal(size=(n, COLUMNS))


def counts(rng: Generator, n: int) -> np.ndarray:
    return rng.poisson(rng.gamma(1.0, 4.0, size=(n, COLUMNS))).astype(float)


def gaussian_mixture(covariance: str, family: Any, k: int, hyper: Hyper, **options: Any) -> tp.Mixture:
    return tp.GaussianMixture(k, covariance=covariance, prior=family(**hyper), **options)


def known_mixture(k: int, hyper: Hyper, **options: Any) -> tp.Mixture:
    prior = tp.Normal(hyper["mean"], hyper["spread"])
    return tp.GaussianMixture(k, covariance=hyper["covariance"], prior=prior, **options)


def mixture(likelihood: Any, family: Any, k: int, hyper: Hyper, **options: Any) -> tp.Mixture:
    return tp.Mixture(k, likelihood, prior=family(**hyper), **options)


def with_holes(pair: Pair, exact: bool = True) -> Pair:
    return Pair(
        f"{pair.name} with holes",
        pair.hyper,
        partial(pair.mixture, missing="marginalise"),
        pair.rows,
        pair.log_marginal,
        holes=True,
        exact=exact,
    )


def scalars(low: float, *names: str) -> Callable[[Generator], Hyper]:
    return lambda rng: {name: 10 ** rng.uniform(low, 1) for name in names}


FULL = Pair("full", wishart, partial(gaussian_mixture, "full", tp.NormalWishart), clusters, marginals.gaussian)
DIAGONAL = Pair(
    "diagonal",
    partial(gamma, columns=COLUMNS),
    partial(gaussian_mixture, "diag", tp.NormalGamma),
    clusters,
    marginals.diagonal,
)
SPHERICAL = Pair(
    "spherical",
    gamma,
    partial(gaussian_mixture, "spherical", tp.IsotropicNormalGamma),
    clusters,
    marginals.spherical,
)
KNOWN = Pair("known covariance", normal, known_mixture, clusters, marginals.known)
POISSON = Pair(
    "Poisson", scalars(-1, "shape", "rate"), partial(mixture, "poisson", tp.Gamma), counts, marginals.poisson
)
BERNOULLI = Pair(
    "Bernoulli",
    scalars(-1, "a", "b"),
    partial(mixture, "bernoulli", tp.Beta),
    lambda rng, n: rng.integers(2, size=(n, COLUMNS)).astype(float),
    marginals.bernoulli,
)
CATEGORICAL = Pair(
    "categorical",
    lambda rng: {"concentration": 10 ** rng.uniform(-1, 1, LEVELS)},
    partial(mixture, tp.IndependentPair(tp.Categorical(LEVELS)), tp.Dirichlet),
    lambda rng, n: rng.integers(LEVELS, size=(n, COLUMNS)).astype(float),
    marginals.categorical,
)
MULTINOMIAL = Pair(
    "multinomial",
    lambda rng: {"concentration": 10 ** rng.uniform(-1, 1, COLUMNS)},
    # The total is needed to simulate, as the Geweke test does.
    partial(mixture, tp.Multinomial(5), tp.Dirichlet),
    lambda rng, n: rng.multinomial(5, rng.dirichlet(np.ones(COLUMNS)), size=n).astype(float),
    marginals.multinomial,
)

KNOWN_WITH_HOLES = with_holes(KNOWN)

# A third of the problems with holes has none, so these stand for complete data too: that the pairs for missing
# values give the same on them as those without is tested with the missing values.
PAIRS = (
    FULL,
    with_holes(FULL, exact=False),
    with_holes(DIAGONAL),
    with_holes(SPHERICAL),
    KNOWN_WITH_HOLES,
    with_holes(POISSON),
    BERNOULLI,
    CATEGORICAL,
    MULTINOMIAL,
)
# Where the posterior is conjugate. (With full or spherical covariance and holes q(missing) q(θ) is only a bound.)
CONJUGATE = (
    FULL,
    with_holes(DIAGONAL),
    SPHERICAL,
    KNOWN_WITH_HOLES,
    with_holes(POISSON),
    BERNOULLI,
    CATEGORICAL,
    MULTINOMIAL,
)
