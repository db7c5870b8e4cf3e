"""Values of the documents (or rows) as groups: categories as they are, numbers and dates in round intervals."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidData, InvalidParameter
from .schema import Column
from .tables import read_table

_FEW = 12  # most distinct numbers that each form a group
_MOST = 50  # groups
_BINS = 12  # intervals, at most
_EPOCH = date(1970, 1, 1)


class Grouping(NamedTuple):
    """The group of each row (−1 for none, where the value is missing), and the names of the groups."""

    name: str
    codes: np.ndarray  # (rows,)
    labels: tuple[str, ...]
    positions: np.ndarray | None  # the centres of groups that are intervals of numbers or of time


def group_values(values: Any, n: int, name: str | None = None) -> Grouping:
    """Groups of n rows by one value each; a row whose value is missing is in none."""
    name = name or str(getattr(values, "name", None) or "value")
    if isinstance(values, str) or len(values) != n:
        raise InvalidParameter(f"values must be one for each of {n:,} documents, got {len(values):,}")
    table = read_table({name: values})
    if table.schema[name].kind == "id" and all(isinstance(value, int | float | np.number) for value in values):
        table = read_table({name: values}, kinds={name: "real"})  # so that years, for one, stay numbers
    return _groups_of(table.schema[name], table[name])


def _groups_of(column: Column, values: np.ndarray) -> Grouping:
    if column.levels:
        codes = np.where(np.isnan(values), -1, values).astype(np.int64)
        return _met(column.name, codes, column.levels, None)
    if column.kind in ("text", "constant", "id"):
        what = {"text": "free text", "id": "ids", "constant": "the same in every row"}[column.kind]
        raise InvalidData(f"values of {column.name!r} are {what}: groups need categories, numbers or dates")
    values = np.asarray(values, dtype=np.float64)
    seen = ~np.isnan(values)
    if column.kind == "date":
        units, step, label, centre = _time(values[seen])
    else:
        units, step, label, centre = _numbers(values[seen])
    first = np.floor(units / step).astype(np.int64)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[seen] = first - first.min()
    starts = step * np.arange(first.min(), first.max() + 1)
    found = _met(column.name, codes, tuple(label(start) for start in starts), None)
    kept = starts[np.unique(codes[codes >= 0])]
    return found._replace(positions=np.array([centre(start) for start in kept]))


def _met(name: str, codes: np.ndarray, labels: tuple[str, ...], positions: Any) -> Grouping:
    """Only the groups that have a row."""
    met = np.unique(codes[codes >= 0])
    if len(met) > _MOST:
        raise InvalidData(f"values of {name!r} make {len(met):,} groups; at most {_MOST} can be told apart")
    if not len(met):
        raise InvalidData(f"values of {name!r} are all missing")
    place = np.full(len(labels) + 1, -1, dtype=np.int64)
    place[met] = np.arange(len(met))
    return Grouping(name, place[codes], tuple(labels[code] for code in met), positions)


def _round(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below this."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(size * power for size in (1.0, 2.0, 2.5, 5.0, 10.0) if size * power >= least * (1 - 1e-12)))


def _numbers(values: np.ndarray) -> tuple[np.ndarray, float, Any, Any]:
    """Values, the width of their intervals, and the label and centre of an interval that starts at a value."""
    whole = bool((values == np.round(values)).all())
    distinct = np.unique(values)
    if len(distinct) <= _FEW and whole:
        return values, 1.0, lambda start: f"{start:.0f}", float
    step = _round((distinct[-1] - distinct[0]) / _BINS)
    step = max(step, 1.0) if whole else step
    step = 3.0 if whole and step == 2.5 else step
    if whole and step > 1:
        return values, step, lambda start: f"{start:.0f}–{start + step - 1:.0f}", lambda start: start + (step - 1) / 2
    return values, step, lambda start: f"{start:.6g} to {start + step:.6g}", lambda start: start + step / 2


def _time(days: np.ndarray) -> tuple[np.ndarray, float, Any, Any]:
    """Days since 1970 as years, months or days, depending on the span of time; centres are in years, or days since
    1970."""
    dates = [_EPOCH + timedelta(days=float(day)) for day in days]
    years = np.array([day.year for day in dates], dtype=np.float64)
    if np.ptp(years) >= 4:
        return _numbers(years)
    months = np.array([12 * day.year + day.month - 1 for day in dates], dtype=np.float64)
    if np.ptp(months) >= 4:
        step = next(size for size in (1.0, 3.0, 6.0) if np.ptp(months) / size <= 2 * _BINS)

        def month(number: float) -> str:
            return f"{int(number) // 12}-{int(number) % 12 + 1:02d}"

        def months_label(start: float) -> str:
            return month(start) if step == 1 else f"{month(start)} to {month(start + step - 1)}"

        return months, step, months_label, lambda start: (start + step / 2) / 12
    step = next(size for size in (1.0, 7.0, 14.0) if np.ptp(days) / size <= 2 * _BINS)
    return (
        np.floor(days),
        step,
        lambda start: str(_EPOCH + timedelta(days=float(start))),
        lambda start: start + step / 2,
    )
