"""What distinguishes classes: the expected value of each column within each class, with credible intervals.

SciPy's distributions are imported where they are used: a fit that nobody asks for intervals does without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from ...data.schema import Column
from ...families import Beta, Dirichlet, Gamma, Independent, NormalGamma, NormalWishart
from .._about import Words


class Item(NamedTuple):
    """One line of a profile: a column (or one of its levels), and for each class an estimate between two limits.

    The estimate is a mean, the median (of a positive column), a rate (of counts) or a probability (of a level).
    """

    column: str
    level: str
    what: str
    estimate: np.ndarray  # (k,)
    low: np.ndarray
    high: np.ndarray
    spread: np.ndarray | None = None  # the standard deviation within each class, of a real column
    scale: np.ndarray | None = None  # the same for every column of numbers: of logarithms, where `what` is a median

    @property
    def name(self) -> str:
        return f"{self.column} = {self.level}" if self.level else self.column

    def at(self, places: np.ndarray) -> Item:
        """The same for some of the classes."""
        arrays = (self.estimate, self.low, self.high, self.spread, self.scale)
        return Item(self.column, self.level, self.what, *(None if v is None else v[places] for v in arrays))  # type: ignore[arg-type]

    def standardised(self, share: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Estimate and limits in standard deviations from the mean of all rows; None for a probability."""
        if self.scale is None:
            return None
        found = [np.log(v) if self.what == "median" else v for v in (self.estimate, self.low, self.high)]
        share = share / share.sum()
        centre = share @ found[0]
        whole = np.sqrt(share @ (np.square(self.scale) + np.square(found[0] - centre)))
        first, low, high = ((values - centre) / whole for values in found)
        return first, low, high


@dataclasses.dataclass(frozen=True)
class Profiles:
    """The components (or classes) that hold data, the largest first: their shares and what is expected within each."""

    part: str  # "class" or "component"
    labels: tuple[int | str, ...]
    share: np.ndarray  # (k,)
    low: np.ndarray  # of the shares; NaN where the weights have no posterior
    high: np.ndarray
    items: tuple[Item, ...]
    level: float = 0.95

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each component and item; the first ones are the shares."""
        share = Item("share", "", "share", self.share, self.low, self.high)
        return [
            {"column": item.column, "level": item.level, "what": item.what, self.part: label,
             "estimate": float(item.estimate[k]), "low": float(item.low[k]), "high": float(item.high[k])}
            for item in (share, *self.items)
            for k, label in enumerate(self.labels)
        ]  # fmt: skip

    def to_frame(self) -> Any:
        """`rows()` as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())


def profiles(
    words: Words, order: np.ndarray, shares: np.ndarray, weights: Any, items: list[Item], level: float
) -> Profiles:
    """Profiles of the components at these places, with intervals of their shares from the posterior of the weights."""
    low = high = np.full(len(shares), np.nan)
    if isinstance(weights, Dirichlet) and len(shares) > 1:
        law = marginal(weights).law  # type: ignore[union-attr]
        low, high = law.ppf((1.0 - level) / 2.0), law.ppf((1.0 + level) / 2.0)
    labels = tuple(words.label(place) for place in range(len(order)))
    return Profiles(
        words.part, labels, shares[order], low[order], high[order], tuple(item.at(order) for item in items), level
    )


class Marginal(NamedTuple):
    """Posterior means of the parameters of some columns, their distributions, and the spread of real columns."""

    estimate: np.ndarray  # (k, d) or (k, d, levels)
    law: Any
    spread: np.ndarray | None = None


def _law(name: str, *parameters: Any, **more: Any) -> Any:
    """A distribution of SciPy, which takes a while to import."""
    from scipy import stats

    return getattr(stats, name)(*parameters, **more)


@singledispatch
def marginal(family: Any) -> Marginal | None:
    """The marginal posteriors of the parameters of a factor; None for a family without intervals (a point)."""
    return None


@marginal.register
def _(family: Independent) -> Marginal | None:
    return marginal(family.inner)


@marginal.register
def _(family: NormalGamma) -> Marginal:

    location, count, dof, scatter = (
        np.asarray(v) for v in (family.location, family.pseudo_count, family.dof, family.scatter)
    )
    return Marginal(location, _law("t", dof, location, np.sqrt(scatter / (dof * count))), np.sqrt(scatter / dof))


@marginal.register
def _(family: NormalWishart) -> Marginal:

    location, scatter = np.asarray(family.location), np.diagonal(np.asarray(family.scatter), axis1=-2, axis2=-1)
    count, dof = (np.asarray(v)[..., None] for v in (family.pseudo_count, family.dof))
    degrees = dof - location.shape[-1] + 1.0
    return Marginal(
        location, _law("t", degrees, location, np.sqrt(scatter / (degrees * count))), np.sqrt(scatter / dof)
    )


@marginal.register
def _(family: Gamma) -> Marginal:

    shape, rate = np.asarray(family.shape), np.asarray(family.rate)
    return Marginal(shape / rate, _law("gamma", shape, scale=1.0 / rate))


@marginal.register
def _(family: Beta) -> Marginal:

    a, b = np.asarray(family.a), np.asarray(family.b)
    return Marginal(a / (a + b), _law("beta", a, b))


@marginal.register
def _(family: Dirichlet) -> Marginal:

    a = np.asarray(family.concentration)
    rest = a.sum(axis=-1, keepdims=True) - a
    return Marginal(a / (a + rest), _law("beta", a, rest))


def profile(
    columns: dict[str, tuple[Column, ...]], factors: Mapping[str, Any], level: float = 0.95
) -> list[Item] | None:
    """The items of all columns, factor by factor; None where a factor has no intervals."""
    found: list[Item] = []
    tail = (1.0 - level) / 2.0
    for name, group in columns.items():
        known = marginal(factors[name])
        if known is None:
            return None
        limits = known.law.ppf(tail), known.law.ppf(1.0 - tail)
        for place, column in enumerate(group):
            found += _items(column, known, limits, place)
    return found


def _items(column: Column, known: Marginal, limits: tuple[np.ndarray, np.ndarray], place: int) -> list[Item]:
    estimate, low, high = (np.asarray(values)[:, place] for values in (known.estimate, *limits))
    if estimate.ndim == 2:
        levels = enumerate(column.levels)
        return [Item(column.name, s, "probability", estimate[:, i], low[:, i], high[:, i]) for i, s in levels]
    if column.kind == "positive":
        scale = None if known.spread is None else known.spread[:, place]
        return [Item(column.name, "", "median", np.exp(estimate), np.exp(low), np.exp(high), None, scale)]
    if column.kind == "binary":
        return [Item(column.name, column.levels[1] if column.levels else "1", "probability", estimate, low, high)]
    if column.kind == "count":
        return [Item(column.name, "", "mean", estimate, low, high, None, np.sqrt(estimate))]
    spread = None if known.spread is None else known.spread[:, place]
    return [Item(column.name, "", "mean", estimate, low, high, spread, spread)]
