"""Data and hyperparameters at the edge of what floats can hold, and beyond what models accept.

Shapes are few: every new one is a compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import temperance as tp

ROWS, COLUMNS = 8, 2

# Ordinary, tiny, huge, and what is no number at all.
NUMBERS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 3.5, 1e-8, 1e8, 1e-150, -1e-150, 1e-300, 5e-324, 1e100, 1e139, -1e139, 1e145, 1e154, -1e200,
     1e308, np.pi, 1.0 + 2**-52, np.nan, np.inf, -np.inf]
)  # fmt: skip
SCALES = st.sampled_from([1.0, 1e-3, 1e3, 1e-12, 1e12, 1e-100, 1e100, 1e-160, 1e-300, 1e130, 1e139, 0.0])


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """A table: noise of any scale far from anywhere, repeated or constant, with a few odd cells."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.normal(size=(ROWS, COLUMNS))
    kind = draw(st.sampled_from(["noise", "groups", "equal rows", "constant column", "collinear", "heavy", "whole"]))
    if kind == "groups":
        x = x + 10.0 * rng.integers(0, 2, size=(ROWS, 1))
    elif kind == "equal rows":
        x[:] = x[0]
    elif kind == "constant column":
        x[:, 1] = x[0, 1]
    elif kind == "collinear":
        x[:, 1] = -2.0 * x[:, 0]
    elif kind == "heavy":
        x = rng.standard_cauchy(size=x.shape) ** 3
    elif kind == "whole":
        x = rng.integers(-3, 4, size=x.shape).astype(float)
    with np.errstate(over="ignore"):
        x = x * draw(SCALES) + draw(SCALES)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        x[draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1))] = draw(NUMBERS)
    return x


@st.composite
def counts(draw: st.DrawFn) -> np.ndarray:
    """Counts: few, many, none, or not counts at all."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.poisson(draw(st.sampled_from([0.0, 0.1, 1.0, 30.0, 1e6])), size=(ROWS, COLUMNS)).astype(float)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        x[draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1))] = draw(NUMBERS)
    return x


def weights() -> st.SearchStrategy[Any]:
    lists = st.lists(NUMBERS | st.floats(0.0, 3.0), min_size=ROWS, max_size=ROWS)
    return st.none() | st.none() | lists.map(np.asarray)


POSITIVE = st.sampled_from([1.0, 0.5, 1e-3, 1e3, 1e-10, 1e10, 1e-100, 1e100, 1e-300, 1e300]) | NUMBERS


@st.composite
def normal_wisharts(draw: st.DrawFn) -> tp.Family:
    scale = draw(POSITIVE)
    return tp.NormalWishart(
        [draw(NUMBERS), draw(NUMBERS)], draw(POSITIVE), draw(POSITIVE), [[scale, 0.3 * scale], [0.3 * scale, scale]]
    )


def no_prior(draw: Any) -> dict[str, Any]:
    return {}


def wishart(draw: Any) -> dict[str, Any]:
    return {"prior": draw(normal_wisharts())} if draw(st.booleans()) else {}


def gammas(*names: str) -> Callable[[Any], dict[str, Any]]:
    def priors(draw: Any) -> dict[str, Any]:
        return {name: tp.Gamma(draw(POSITIVE), draw(POSITIVE)) for name in names if draw(st.booleans())}

    return priors
