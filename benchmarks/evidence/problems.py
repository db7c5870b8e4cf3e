"""Small problems whose log evidence is known.

The truths are those of the test suite (`tests/matrix/truths.py`, `tests/exact`), which use nothing of the package:
every assignment of data, tokens or steps enumerated with the parameters integrated out, or quadrature over what is left
after the Gaussian integrals. Here each comes with several data sets, drawn from fixed seeds, some of them well
described by the model and some not. The galaxies have two components and three under the thesis's prior; their
evidence is the average of 89 runs of parallel tempering. Old Faithful and the acidity of lakes have one component, in
closed form, and two, under the default prior.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import temperance as tp
from tests.exact import enumeration, marginals, pairs
from tests.matrix import truths

Rng = np.random.Generator
WIDE = {"mean": [0.0], "pseudo_count": 0.01, "dof": 2.0, "scatter": [[0.22]]}  # the thesis's prior
TEN = np.array([-5.0, -4.8, -5.3, -0.2, 0.1, 0.3, 4.6, 5.2, 4.9, 5.1])[:, None]
SIX = np.array([-0.6, 0.1, 0.4, -0.2, 0.9, -1.1])[:, None]
PAIRS = (
    pairs.FULL, pairs.DIAGONAL, pairs.SPHERICAL, pairs.KNOWN, pairs.POISSON, pairs.BERNOULLI, pairs.CATEGORICAL,
    pairs.MULTINOMIAL,
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    family: str  # those of one family share their compiled programs
    model: Callable[[], Any]
    data: Any
    evidence: Callable[[Any], float]
    uncertainty: float = 0.0  # of the log evidence
    slow: bool = False

    def log_evidence(self) -> float:
        return self.evidence(self.data)


@functools.cache
def problems() -> dict[str, Problem]:
    """By name: the family and a number."""
    found: dict[str, Problem] = {}
    for problem in (*_mixtures(), *_conjugate_pairs(), *_of_the_matrix(), *_galaxies(), *_default_prior()):
        number = 1 + sum(other.family == problem.family for other in found.values())
        found[f"{problem.family} {number}"] = problem
    return found


def _line(rng: Rng, n: int) -> np.ndarray:
    """Two groups, from the same to far apart."""
    apart = rng.uniform(0.0, 6.0)
    return np.round(rng.normal(size=n) * 0.7 + apart * (rng.random(n) < 0.5) - apart / 2, 2)[:, None]


def _many(count: int, draw: Callable[[Rng], Any]) -> list[Any]:
    return [draw(np.random.default_rng([7, seed])) for seed in range(count)]


def _mixtures() -> Iterator[Problem]:
    def wide(x: np.ndarray) -> float:
        return marginals.gaussian(x, **WIDE)

    for size, sets in ((2, [TEN, SIX, *_many(6, lambda rng: _line(rng, 8))]), (3, _many(4, lambda rng: _line(rng, 7)))):
        for x in sets:
            yield Problem(
                f"wide prior, {size} components",
                functools.partial(tp.GaussianMixture, size, prior=tp.NormalWishart(**WIDE)),
                x,
                lambda x, size=size: enumeration.log_evidence(x, wide, np.ones(size)),
            )


def _conjugate_pairs() -> Iterator[Problem]:
    for pair in PAIRS:
        for seed in range(3):
            rng = np.random.default_rng([11, seed])
            hyper = pair.hyper(rng)
            yield Problem(
                f"{pair.name} mixture",
                functools.partial(pair.mixture, 2, hyper),
                pair.data(rng, 6),
                lambda x, marginal=pair.marginal(hyper): enumeration.log_evidence(x, marginal, np.ones(2)),
            )


def _table(rows: slice) -> Any:
    return tp.read_table({name: values[rows] for name, values in truths.COLUMNS.items()}, like=truths.TABLE.schema)


def _tokens(rng: Rng) -> list[list[int]]:
    shares = rng.dirichlet(np.full(3, 0.5), size=3)
    return [rng.choice(3, size=size, p=share).tolist() for size, share in zip((3, 3, 2), shares, strict=True)]


def _active(rng: Rng) -> np.ndarray:
    return np.round((rng.random((4, 2)) < 0.45) @ rng.normal(size=(2, 2)) * 1.4 + 0.5 * rng.normal(size=(4, 2)), 2)


def _straight(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    x = np.sort(rng.normal(size=(5, 1)), axis=0)
    return x, rng.normal() + rng.normal() * 2 * x[:, 0] + rng.normal(size=5) * rng.uniform(0.2, 1.0)


def _answers(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    x, score = _straight(rng)
    return x, (rng.random(5) < 1 / (1 + np.exp(-2 * score))).astype(float)


def _counts(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    x, score = _straight(rng)
    return x, rng.poisson(np.exp(np.minimum(score, 2.0))).astype(float)


def _walk(rng: Rng) -> np.ndarray:
    return np.round(
        5 + np.cumsum(rng.normal(size=6))[:, None] * rng.uniform(0.1, 1.5) + 0.5 * rng.normal(size=(6, 1)), 2
    )


def _of_the_matrix() -> Iterator[Problem]:
    """The problem of every model in the tests, and the same model with other data."""
    lines = _many(4, lambda rng: _line(rng, 6))
    others: dict[str, list[Any]] = {
        "GaussianMixture": lines,
        "Mixture": _many(3, lambda rng: (rng.random((5, 3)) < rng.random(3)).astype(float)),
        "ClassMixture": [truths.MORE_TABLE, _table(slice(1, None))],
        "DirichletProcessMixture": lines,
        "StudentMixture": lines[:3],
        "HMM": _many(4, lambda rng: (rng.random((7, 1)) < np.repeat(rng.random((2, 1)), [4, 3], axis=0)).astype(float)),
        "LDA": _many(4, _tokens),
        "FactorialMixture": _many(4, _active),
        "LinearRegression": _many(4, _straight),
        "LogisticRegression": _many(3, _answers),
        "ProbitRegression": _many(3, _answers),
        "PoissonRegression": _many(3, _counts),
        "FactorAnalysis": _many(4, lambda rng: np.round(rng.normal(size=(3, 2)) @ rng.normal(size=(2, 2)), 2)),
        "StateSpace": _many(4, _walk),
        "Graph": [x[:, 0] for x in lines[:3]],
    }
    for name, problem in truths.PROBLEMS.items():
        for data in (problem.data, *others.get(name, [])):
            yield Problem(name, problem.model, data, problem.evidence, slow=name in ("LDA", "StudentMixture"))


def _one(x: np.ndarray) -> float:
    """One component under the default prior, in closed form."""
    model, data = tp.GaussianMixture(1).prepare(x)
    block, rows = model.prior["components"], np.asarray(data.values)[: data.size]
    return marginals.gaussian(
        rows, *(np.asarray(part)[0] for part in (block.location, block.pseudo_count, block.dof, block.scatter))
    )


def _galaxies() -> Iterator[Problem]:
    x, prior = tp.datasets.load("galaxy"), tp.NormalWishart(**WIDE)
    exact = marginals.gaussian(x, **WIDE)
    for size, value, uncertainty in ((1, exact, 0.0), (2, -238.43, 0.03), (3, -230.39, 0.03)):
        model = functools.partial(tp.GaussianMixture, size, prior=prior)
        yield Problem("galaxies, components:", model, x, lambda _, value=value: value, uncertainty, slow=True)


def _default_prior() -> Iterator[Problem]:
    """Real data of clear groups, which tear a path from the prior. Two components: importance sampling from the optima
    of VB and wider copies of them, 100,000 draws."""
    for name, value, uncertainty in (("faithful", -1164.090, 0.01), ("acidity", -198.511, 0.01)):
        x = tp.datasets.load(name)
        yield Problem(f"{name}, components:", functools.partial(tp.GaussianMixture, 1), x, _one, slow=True)
        two = functools.partial(tp.GaussianMixture, 2)
        yield Problem(f"{name}, components:", two, x, lambda _, value=value: value, uncertainty, slow=True)
