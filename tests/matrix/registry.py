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
from tests.exact.pairs import KNOWN, PAIRS, Pair
from tests.matrix.two_effects import TwoEffects, problem

ROWS, COMPONENTS = 6, 3


@dataclass(frozen=True)
class Entry:
    name: str
    problem: Callable[[np.random.Generator], tuple[tp.models.Model, Any]]
    rare: bool = False  # its Geweke test is slow: the groups and the keys are those of another entry

    def __repr__(self) -> str:
        return self.name


def mixture(pair: Pair) -> Entry:
    def problem(rng: np.random.Generator) -> tuple[tp.models.Model, Any]:
        concentration = 10 ** rng.uniform(-1, 1, COMPONENTS)
        model = pair.mixture(COMPONENTS, pair.hyper(rng), concentration=concentration)
        return model, pair.data(rng, ROWS)

    return Entry(f"mixture, {pair}", problem, rare=pair is not KNOWN)


ENTRIES = [
    Entry("two effects", partial(problem, TwoEffects)),
    *map(mixture, PAIRS),
]
