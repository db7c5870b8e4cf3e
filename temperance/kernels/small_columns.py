"""Small tables of mixed columns in NumPy: the families, statistics and base measures of `models/mixture/columns.py`.

`small_mixture.py` sweeps over them as over Gaussians, with all fields of all factors in one flat vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..families.translate import REAL
from ..models.mixture.columns import ColumnsPair
from ..numerics.special import LOG_2PI

if TYPE_CHECKING:
    from .small_mixture import Leaves


def _gamma(log: np.ndarray, value: np.ndarray) -> tuple[Any, Leaves]:
    from scipy.special import digamma, gammaln

    shape, rate = log + 1.0, -value
    return (gammaln(shape) - shape * np.log(rate)).sum(axis=-1), (digamma(shape) - np.log(rate), shape / rate)


def _beta(log: np.ndarray, log_complement: np.ndarray) -> tuple[Any, Leaves]:
    value, (mean,) = _levels(np.stack([log, log_complement], axis=-1))
    return value, (mean[..., 0], mean[..., 1])


def _levels(log: np.ndarray) -> tuple[Any, Leaves]:
    from .small_mixture import _dirichlet

    value, mean = _dirichlet(log)
    return value.sum(axis=-1), mean


class Columns(NamedTuple):
    """The counterpart of `small_mixture.Form` for a pair with several kinds of columns."""

    pair: ColumnsPair

    @property
    def _factors(self) -> list[str]:
        return sorted(self.pair.factors)  # in the order of the pytree

    @property
    def fields(self) -> int:
        return sum(_FIELDS.get(name, 1) for name in self._factors)

    def first(self, factor: str) -> int:
        """The place of the first field of a factor."""
        return sum(_FIELDS.get(name, 1) for name in self._factors if name < factor)

    def value_and_mean(self, *leaves: np.ndarray) -> tuple[Any, Leaves]:
        from .small_mixture import _columns

        values: Any = 0.0
        means: Leaves = ()
        for name in self._factors:
            family: Any = {REAL: _columns, "count": _gamma, "binary": _beta}.get(name, _levels)
            fields = _FIELDS.get(name, 1)
            value, mean = family(*leaves[:fields])
            values, means, leaves = values + value, means + mean, leaves[fields:]
        return values, means

    def statistics(self, x: np.ndarray) -> list[Any]:
        parts, fields = self.pair._split(x), []
        for name in self._factors:
            seen = ~np.isnan(parts[name])
            rows = np.where(seen, parts[name], 0.0)
            if name == REAL:
                fields += [rows, seen, np.square(rows), seen]
            elif name == "count":
                fields += [rows, -1.0 * seen]
            elif name == "binary":
                fields += [rows, (1.0 - rows) * seen]
            else:
                levels = self.pair.factors[name].inner.levels  # type: ignore[attr-defined]
                fields.append((rows[..., None] == np.arange(levels)) * seen[..., None])
        return fields

    def log_base(self, x: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln

        parts, base = self.pair._split(x), np.zeros(len(x))
        if REAL in parts:
            base -= 0.5 * LOG_2PI * (~np.isnan(parts[REAL])).sum(axis=1)
        if "count" in parts:
            base -= np.nansum(gammaln(parts["count"] + 1.0), axis=1)
        return base - np.nansum((x + np.asarray(self.pair.offset)) * self.pair.positive, axis=1)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """`ColumnsPair.coordinates`, without columns that never vary."""
        parts = self.pair._split(x)
        rows = [np.nan_to_num(parts[REAL])] if REAL in parts else []
        for name in self.pair.factors:
            if name == "count":
                rows.append(np.sqrt(np.nan_to_num(parts[name])))
            elif name != REAL:
                single = Columns(self.pair._with(factors={name: self.pair.factors[name]}))
                rows += [np.reshape(field, (len(x), -1)) for field in single.statistics(x)]
        return np.concatenate(rows, axis=1)


def log_normalisers(factor: str, leaves: list[np.ndarray]) -> np.ndarray:
    """A(η) of each class and column of one factor, (k, d), or (k, 1) where the columns have one family."""
    from .small_mixture import _columns, _normal_wishart

    if factor == REAL and leaves[2].ndim == 3:  # a full covariance
        return np.asarray(_normal_wishart(*leaves)[0])[:, None]
    if factor in _FIELDS:  # each column as a table of its own
        of: Any = {REAL: _columns, "count": _gamma, "binary": _beta}[factor]
        return np.asarray(of(*(leaf[..., None] for leaf in leaves))[0])
    return np.asarray(_levels(leaves[0][..., None, :])[0])


_FIELDS = {REAL: 4, "count": 2, "binary": 2}
