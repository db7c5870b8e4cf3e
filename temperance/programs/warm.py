"""Compile the common cases in advance, for images and servers, by tiny fits whose executables are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import InvalidParameter

CASES = ("regression", "topics")  # small mixtures, chains and factor analyses compile nothing


def warm(which: Iterable[str] = CASES) -> None:
    """Run a step of variational Bayes in each of these cases: 500 × 2 numbers, or 200 documents of 50 words."""
    import temperance as tp

    names = list(which)
    for name in names:
        if name not in CASES:
            raise InvalidParameter(f"which must name cases among {', '.join(CASES)}, got {name!r}")
    for name in names:
        for model, data in _problems(name):
            tp.fit(model, data, tp.VB(max_iter=1), seed=0)


def _problems(name: str) -> Iterator[tuple[Any, Any]]:
    import temperance as tp

    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 2))
    if name == "regression":
        yield tp.LinearRegression(), (rows[:, :1], rows[:, 1])
    else:
        yield tp.LDA(5), random.poisson(1.0, size=(200, 50))
