"""The likelihood of a table: every column has its own conjugate pair, independent of the others given the class.

    real       Normal-Gamma (or one Normal-Wishart for all of them: `covariance="full"`) positive   as real, for the
    logarithm, with the Jacobian −log x in the density count      Gamma–Poisson            binary     Beta–Bernoulli
    category   Dirichlet–categorical    ordered    as category, its levels in order

In the matrix of the model, columns of one kind stand side by side, columns of numbers first; missing values (NaN) add
nothing, which is exact. The end of this file has the profiles of classes: the posterior of each column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice
from ..._module import rebuilt
from ...data.arrays import as_array
from ...data.schema import Column, Schema, nothing_used
from ...data.tables import Table, read_table
from ...errors import InvalidData, InvalidParameter
from ...families import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    GaussianWithMissing,
    Independent,
    IndependentPair,
    NormalGamma,
    NormalWishart,
    Pair,
    Poisson,
    Product,
    ProductPair,
    ScalarGaussian,
)
from ...families.marginals import Marginal, marginal
from ...families.translate import REAL
from ...numerics.place import on_device
from .._about import Words


@cache
def layout(schema: Schema) -> dict[str, tuple[Column, ...]]:
    """The columns of each factor, in the order of the matrix."""
    groups: dict[str, list[Column]] = {}
    for column in schema.used:
        name = {"real": REAL, "positive": REAL, "count": "count", "binary": "binary"}.get(column.kind)
        groups.setdefault(name or f"category_{len(column.levels)}", []).append(column)
    first = [REAL] if REAL in groups else []
    return {name: tuple(groups[name]) for name in [*first, *sorted(set(groups) - {REAL})]}


class ColumnsPair(ProductPair):
    """A likelihood for every column of a table, by the kind of the column.

    `kinds` gives kinds that are not recognised, as in `tp.read_table`; `covariance="full"` lets the
    numbers (and the logarithms of positive ones) vary together within a class.
    """

    factors: dict[str, Pair]
    offset: Float[Array, " d"]  # the shift subtracted from the logarithms of positive columns
    schema: Schema | None = eqx.field(static=True)  # names, kinds and levels of the columns that are used
    kinds: tuple[tuple[str, str], ...] = eqx.field(static=True)
    full: bool = eqx.field(static=True)

    def __init__(self, kinds: Mapping[str, str] | None = None, covariance: str = "diag"):
        if kinds is not None and not isinstance(kinds, Mapping):
            raise InvalidParameter(f"kinds must say what columns are, such as {{'age': 'real'}}, got {kinds!r}")
        self.kinds = tuple((kinds or {}).items())
        self.full = check_choice("covariance", covariance, {"diag": False, "diagonal": False, "full": True})
        self.factors, self.schema, self.offset = {}, None, on_device(np.zeros(0))

    # ---- tables -----------------------------------------------------------------------------------------------

    def table(self, data: Any) -> Table:
        """The data as a table. If the pair knows its columns, the table has these columns, found by their names."""
        if isinstance(data, Table) and (self.schema is None or self._fits(data)):
            return data
        if not isinstance(data, str | Path | Mapping | Table) and not hasattr(data, "columns"):
            array = as_array(data)
            if array.ndim == 2:
                data = {f"column {i + 1}": values for i, values in enumerate(array.T)}
        if self.schema is not None:
            return read_table(data, like=self.schema)
        return read_table(data, kinds=dict(self.kinds))

    def _fits(self, table: Table) -> bool:
        """Whether a table has these columns, with the same kinds and levels."""
        known = {(column.name, column.kind, column.levels) for column in table.schema.used}
        return {(column.name, column.kind, column.levels) for column in self.columns} <= known

    def opened(self, table: Table) -> Self:
        """The pair for the columns of this table."""
        bare = tuple(Column(column.name, column.kind, levels=column.levels) for column in table.schema.used)
        if not bare:
            raise InvalidData(nothing_used(table.name, table.schema.left_out[0]))
        empty = [name for name in table.columns if np.isnan(table[name]).all()]
        if empty:
            raise InvalidData(f"column {empty[0]!r} of {table.name} has no value at all")
        factors = {name: self._factor(name, columns) for name, columns in layout(Schema(bare)).items()}
        return self._with(factors=factors, schema=Schema(bare, missing=table.schema.missing))

    def _with(self, **changes: Any) -> Self:
        return rebuilt(
            type(self), {field.name: getattr(self, field.name) for field in dataclasses.fields(self)} | changes
        )

    def _factor(self, name: str, columns: tuple[Column, ...]) -> Pair:
        if name == REAL:
            return GaussianWithMissing() if self.full and len(columns) > 1 else IndependentPair(ScalarGaussian())
        if name in ("count", "binary"):
            return IndependentPair(Poisson() if name == "count" else Bernoulli())
        return IndependentPair(Categorical(len(columns[0].levels)))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in the order of the matrix."""
        assert self.schema is not None
        return tuple(column for group in layout(self.schema).values() for column in group)

    @property
    def positive(self) -> np.ndarray:
        """Which columns of the matrix are logarithms."""
        return np.array([column.kind == "positive" for column in self.columns])

    def matrix(self, table: Table) -> np.ndarray:
        """The rows of a table with these columns: logarithms of positive columns, numbers of levels from 0."""
        rows = np.stack([np.asarray(table[column.name], dtype=np.float64) for column in self.columns], axis=1)
        positive = self.positive
        rows[:, positive] = np.log(rows[:, positive])
        return rows

    def to_table(self, rows: Any) -> dict[str, np.ndarray]:
        """Rows of the matrix as the columns of a table, in their own units and words."""
        assert self.schema is not None
        found = dict(zip((column.name for column in self.columns), np.asarray(rows).T, strict=True))
        for column in self.schema:
            if column.kind == "positive":
                found[column.name] = np.exp(found[column.name])
            elif column.levels:
                found[column.name] = np.array(column.levels)[found[column.name].astype(int)]
        return {column.name: found[column.name] for column in self.schema}

    def profile(self, components: Any, level: float = 0.95) -> list[Item] | None:
        """The items of the profile, in the order of the columns; None without intervals (after EM)."""
        assert self.schema is not None
        if not isinstance(components, Product):
            return None
        found, names = profile(layout(self.schema), components.factors, level), self.schema.names
        return None if found is None else sorted(found, key=lambda item: names.index(item.column))

    def contributions(self, prior: Any, components: Any) -> dict[str, float] | None:
        """How many nats better the classes describe each column than one class with this prior would, given the
        membership of the rows; columns with a full covariance count together. None if the posterior is not a
        product."""
        if not isinstance(components, Product):
            return None
        from ...kernels.small_columns import log_normalisers

        found: dict[str, float] = {}
        for name, columns in layout(self.schema or Schema(())).items():
            leaves = (jax.tree.leaves(family.factors[name]) for family in (prior, components))
            before, after = (list(map(np.asarray, each)) for each in leaves)
            one = [old[:1] + (new - old).sum(axis=0, keepdims=True) for old, new in zip(before, after, strict=True)]
            start, end, whole = (log_normalisers(name, each) for each in (before, after, one))
            gain = (end - start).sum(axis=0) - (whole - start)[0]
            names = [column.name for column in columns]
            found |= dict(zip(names if len(gain) == len(names) else [", ".join(names)], gain.tolist(), strict=True))
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def described(self, components: Any) -> dict[str, Any]:
        """Readable numbers of each class, by the names of the columns."""
        found = self.profile(components)
        if found is None:
            return components.described() if isinstance(components, Product) else {}
        columns: dict[str, Any] = {}
        for item in found:
            columns[item.name] = item.estimate
            columns |= {} if item.spread is None else {f"sd of {item.column}": item.spread}
        return columns

    # ---- the pair: sums over factors, each of its own columns ---------------------------------------------------

    def _split(self, x: Any) -> dict[str, Any]:
        assert self.schema is not None, "opened() has to be called first"
        parts, start = {}, 0
        for name, columns in layout(self.schema).items():
            parts[name] = x[:, start : start + len(columns)]
            start += len(columns)
        return parts

    @property
    def has_latents(self) -> bool:  # type: ignore[override]
        return any(pair.has_latents for pair in self.factors.values())

    def complete(self, x: np.ndarray) -> Self:
        parts = self._split(x)
        factors = {name: pair.complete(parts[name]) for name, pair in self.factors.items()}
        return self._with(factors=factors, offset=on_device(np.zeros(x.shape[1])))

    def shifted(self, shift: Float[Array, " d"]) -> Self:
        return self._with(offset=shift)

    def statistics(self, x: Any) -> Any:
        return super().statistics(self._split(x))

    def log_base(self, x: Any) -> Float[Array, " n"]:
        base = super().log_base(self._split(x))
        if not self.positive.any():
            return base
        logs = jnp.where(jnp.isnan(x), 0.0, x + self.offset[None])
        return base - jnp.sum(logs * self.positive[None], axis=1)

    def coordinates(self, x: Float[Array, "n d"]) -> Float[Array, "n c"]:
        """Numbers as they are (missing ones at their mean), square roots of counts, levels one by one."""
        parts = self._split(x)
        rows = [jnp.nan_to_num(parts[REAL])] if REAL in parts else []
        for name, pair in self.factors.items():
            if name == "count":
                rows.append(jnp.sqrt(jnp.nan_to_num(parts[name])))
            elif name != REAL:
                rows.append(pair.statistics(parts[name]).features())
        return jnp.concatenate(rows, axis=1)

    def packed(self, m: Any) -> Any:
        return m if self.has_latents else super().packed(m)

    def tempered_log_likelihood(
        self, m: Any, x: Any, observation: ArrayLike, latent: ArrayLike, key: Key[Array, ""] | None
    ) -> Float[Array, "n k"]:
        if not self.has_latents:
            return super().tempered_log_likelihood(m, x, observation, latent, key)
        parts = self._split(x)
        each = [
            pair.tempered_log_likelihood(m.factors[name], parts[name], observation, latent, key)
            for name, pair in self.factors.items()
        ]
        jacobian = self.log_base(x) - ProductPair.log_base(self, parts)
        return sum(each[1:], start=each[0]) + jnp.asarray(observation) * jacobian[:, None]

    def log_predictive(self, family: Any, x: Any, power: ArrayLike = 1.0) -> Float[Array, "n k"]:
        parts = self._split(x)
        each = [pair.log_predictive(family.factors[name], parts[name], power) for name, pair in self.factors.items()]
        jacobian = self.log_base(x) - ProductPair.log_base(self, parts)
        return sum(each[1:], start=each[0]) + jnp.asarray(power) * jacobian[:, None]

    def sample(self, key: Key[Array, ""], draw: dict[str, Any]) -> Any:
        rows = super().sample(key, draw)
        assert self.schema is not None
        return jnp.concatenate([rows[name] for name in layout(self.schema)], axis=-1)

    def default_prior(self, x: Any, size: int) -> Product:
        """A weak prior from the data's scale: for numbers as in Gaussian mixtures (with all columns as dimensions), for
        counts exponential with their mean, for probabilities uniform."""
        parts = self._split(x)
        priors = {name: pair.default_prior(parts[name], size) for name, pair in self.factors.items() if name != REAL}
        if REAL in parts:
            priors[REAL] = _numbers_prior(
                parts[REAL], size, x.shape[1], isinstance(self.factors[REAL], IndependentPair)
            )
        return Product(**priors)


def _numbers_prior(x: np.ndarray, size: int, columns: int, independent: bool) -> Any:
    """A prior for numbers under which classes are narrower than all data, so that together they fill the volume of the
    data."""
    mean, variance = np.mean(x, axis=0), np.var(x, axis=0)
    scatter = np.where(variance > 0, variance, 1.0) / size ** (2.0 / columns)
    d = len(mean)
    if independent:
        return Independent(
            NormalGamma(np.broadcast_to(mean, (size, d)), 0.01, 3.0, np.broadcast_to(scatter, (size, d)))
        )
    return NormalWishart(
        mean=np.broadcast_to(mean, (size, d)),
        pseudo_count=np.full(size, 0.01),
        dof=np.full(size, d + 2.0),
        scatter=np.broadcast_to(np.diag(scatter), (size, d, d)),
    )


_KINDS: dict[Any, str] = {
    Gamma: "count",
    Beta: "binary",
    Dirichlet: "category",
}  # for columns with this family; the others hold numbers


def profile_of(pair: Pair, components: Any, level: float, names: Sequence[str] = ()) -> list[Item] | None:
    """The profile of each column within each component, for a table, or for a matrix whose columns have `names`."""
    if isinstance(pair, ColumnsPair):
        return pair.profile(components, level)
    family = components.inner if isinstance(components, Independent) else components
    known = marginal(family)
    if known is None:
        return None
    kind, shape = _KINDS.get(type(family), "real"), known.estimate.shape
    levels = tuple(map(str, range(shape[2]))) if len(shape) == 3 else ()
    called = names if len(names) == shape[1] else [f"column {i + 1}" for i in range(shape[1])]
    return profile({"all": tuple(Column(name, kind, levels=levels) for name in called)}, {"all": family}, level)


# ---- profiles: the posterior of each column ----------------------------------------------------------------


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
    scale: np.ndarray | None = None  # the spread of any column of numbers: of its logarithm, if `what` is a median

    @property
    def name(self) -> str:
        return f"{self.column} = {self.level}" if self.level else self.column

    def at(self, places: np.ndarray) -> Item:
        """The item for some of the classes."""
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
    """The components (or classes) that hold data, the largest first: their shares, and their items."""

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
    """The profiles of the components in this `order`, with intervals of their shares from the posterior of the weights.

    Shares are those among the components that hold data, so that they sum to one; of a Dirichlet posterior they are
    Dirichlet with the same concentrations.
    """
    share = shares[order] / shares[order].sum()
    low = high = np.full(len(order), np.nan)
    if isinstance(weights, Dirichlet) and len(order) > 1:
        known = marginal(weights.with_natural(jax.tree.map(lambda leaf: np.asarray(leaf)[order], weights.natural)))
        assert known is not None
        low, high = (known.quantile((1.0 + side * level) / 2.0) for side in (-1.0, 1.0))
    labels = tuple(words.label(place) for place in range(len(order)))
    return Profiles(words.part, labels, share, low, high, tuple(item.at(order) for item in items), level)


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
        limits = known.quantile(tail), known.quantile(1.0 - tail)
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
