"""Simulated tables with classes: 300 rows, three real columns, a count, a yes/no and one of four levels, a tenth of the
cells missing; one to four classes of equal or unequal size, clear (a Bayes error of at most 5%), medium (5–15%) or hard
(15–30%)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

ERRORS = {"clear": (0.0, 0.05), "medium": (0.05, 0.15), "hard": (0.15, 0.30)}
SHARES = {2: (0.7, 0.3), 3: (0.6, 0.3, 0.1), 4: (0.5, 0.25, 0.15, 0.1)}
DESIGNS = tuple(itertools.product((1, 2, 3, 4), (True, False), ERRORS))
ROWS, MISSING = 300, 0.1


class Truth:
    """Parameters of the classes, `apart` from each other by a factor."""

    def __init__(self, rng: np.random.Generator, shares: np.ndarray, apart: float = 1.0):
        k = len(shares)
        self.shares, self.apart = shares, apart
        self.means, self.spreads = rng.normal(size=(k, 3)), rng.uniform(0.7, 1.3, size=(k, 3))
        self.rates, self.odds = rng.normal(size=k), rng.normal(size=k)
        self.levels = rng.normal(size=(k, 4))

    def parameters(self) -> tuple[np.ndarray, ...]:
        levels = np.exp(self.apart * self.levels)
        return (self.apart * self.means, np.exp(1.0 + 0.4 * self.apart * self.rates),
                1.0 / (1.0 + np.exp(-self.apart * self.odds)), levels / levels.sum(axis=1, keepdims=True))  # fmt: skip

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Classes and a matrix of three numbers, a count, a yes/no and a level, NaN where missing."""
        means, rates, chance, levels = self.parameters()
        z = rng.choice(len(self.shares), size=n, p=self.shares)
        x = np.empty((n, 6))
        x[:, :3] = rng.normal(means[z], self.spreads[z])
        x[:, 3] = rng.poisson(rates[z])
        x[:, 4] = rng.uniform(size=n) < chance[z]
        x[:, 5] = (rng.uniform(size=n)[:, None] > levels[z].cumsum(axis=1)).sum(axis=1)
        x[rng.uniform(size=x.shape) < MISSING] = np.nan
        return z, x

    def error(self, x: np.ndarray) -> float:
        """The expected share of rows that the best rule puts into a wrong class."""
        from scipy import stats

        means, rates, chance, levels = self.parameters()
        log = np.tile(np.log(self.shares), (len(x), 1))
        known = np.where(np.isnan(x), 0.0, x)[:, :, None]
        numbers = stats.norm.logpdf(known[:, :3], means.T[None], self.spreads.T[None])
        log += np.where(np.isnan(x[:, :3, None]), 0.0, numbers).sum(axis=1)
        each = (stats.poisson.logpmf(known[:, 3], rates), stats.bernoulli.logpmf(known[:, 4], chance),
                np.log(levels).T[known[:, 5, 0].astype(int)])  # fmt: skip
        for column, part in zip((3, 4, 5), each, strict=True):
            log += np.where(np.isnan(x[:, column, None]), 0.0, part)
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        return float(np.mean(1.0 - shares.max(axis=1) / shares.sum(axis=1)))


def drawn_truth(rng: np.random.Generator, k: int, equal: bool, regime: str) -> Truth:
    """Classes whose Bayes error is uniform within the regime, by bisection of how far apart they are."""
    shares = np.full(k, 1.0 / k) if equal or k == 1 else np.array(SHARES[k])
    truth = Truth(rng, shares)
    if k == 1:
        return truth
    low, high = ERRORS[regime]
    wanted, near, far = rng.uniform(max(low, 0.005), high), 0.02, 8.0
    seed = int(rng.integers(2**31))
    for _ in range(18):
        truth.apart = 0.5 * (near + far)
        found = truth.error(truth.draw(np.random.default_rng(seed), 4000)[1])
        near, far = (truth.apart, far) if found > wanted else (near, truth.apart)
    return truth


def as_columns(x: np.ndarray) -> dict[str, Any]:
    words = [[None if np.isnan(v) else names[int(v)] for v in column]
             for column, names in ((x[:, 4], ("no", "yes")), (x[:, 5], "abcd"))]  # fmt: skip
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "visits": x[:, 3], "smokes": words[0], "region": words[1]}


KINDS = {"a": "real", "b": "real", "c": "real", "visits": "count", "smokes": "binary", "region": "category"}


def simulated(number: int) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """What a table is like, its true classes and its matrix."""
    k, equal, regime = DESIGNS[number % len(DESIGNS)]
    rng = np.random.default_rng([25, number])
    z, x = drawn_truth(rng, k, equal, regime).draw(rng, ROWS)
    return {"table": number, "classes": k, "equal": equal, "regime": regime}, z, x
