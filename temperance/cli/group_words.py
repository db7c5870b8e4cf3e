"""The sentences of `temperance groups`: how many groups there are, their profiles, and how certain both are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import temperance as tp

from ..data.schema import Column
from ..models._about import GROUP
from ..report.words import join, near_border, percent

_WORDS = 5  # columns that describe a group
_TELLING = 0.5  # standard deviations (or a difference of probabilities of half as much) that are worth a word
_SURE = 0.95  # probability of the best number of groups above which the second best is not mentioned
_TOGETHER, _ROWS = 0.5, 30  # least correlation within groups that is mentioned, and least rows for it


def describe(hill: tp.Comparison, table: tp.Table, shares: np.ndarray, full: bool = False) -> list[str]:
    """How many groups there are and how certain that is; who they are; how many rows are near a border. With `full`
    numbers vary together within a group."""
    count, by_number = shares.shape[1], _by_number(hill)
    lines = [f"{_groups(count)} (probability {percent(by_number[count])} among 1 to {hill.models[-1]})."]
    second = max((each for each in by_number if each != count), key=lambda each: by_number[each], default=count)
    if by_number[count] < _SURE and second != count:
        lines.append(f"{_groups(second)} {'comes' if second == 1 else 'come'} next, with {percent(by_number[second])}.")
    if count == 1:
        return [*lines, "The rows are best described without dividing them."]
    fit = hill.best_fit
    idle = [name for name, nats in fit.contributions().items() if nats < 0]
    telling = [column for column in table.schema.used if column.name not in idle]
    who = fit.profiles()
    weights = np.ones(len(shares)) if table.weights is None else table.weights
    for group, each in enumerate(shares.T):
        words = [_word(column, table[column.name], each, weights) for column in telling]
        share, low, high = (_share(values[group]) for values in (who.share, who.low, who.high))
        lines.append(f"Group {GROUP.label(group)}, {share} ({low} to {high}): {_said(words)}")
    if idle:
        named = idle if len(idle) <= 8 else [*idle[:7], f"{len(idle) - 7} other columns"]
        lines.append(f"The groups do not differ in {join(named)}.")
    certainty = np.where(weights > 0, shares.max(axis=1) / np.maximum(weights, 1e-300), 1.0)
    border = near_border(certainty, "group", "groups")
    return [*lines, border, *([] if full else _together(table, shares))]


def _groups(count: int) -> str:
    return f"{count} {'group' if count == 1 else 'groups'}"


def _by_number(hill: tp.Comparison) -> dict[int, float]:
    """The probability of each number of groups in use: of six groups one may stay empty."""
    (cells,), found = hill.cells, dict[int, float]()
    for probability, cell in zip(hill.probabilities, cells, strict=True):
        used = cell.in_use or int(cell.model)
        found[used] = found.get(used, 0.0) + float(probability)
    return found


class Word(NamedTuple):
    """How a group differs from the other rows in one column."""

    apart: float  # in standard deviations
    enough: float  # least difference that is mentioned
    text: str
    plain: str  # without "high" or "low"


def _said(words: list[Word | None]) -> str:
    """The words that best distinguish a group from the others."""
    known = [word for word in words if word is not None]
    told = [word for word in known if word.apart >= word.enough]
    if not told:
        most = sorted(known, key=lambda word: word.apart, reverse=True)[:2]
        return ": ".join(["near the average", *filter(None, [", ".join(w.plain for w in known if w in most)])])
    most = sorted(told, key=lambda word: word.apart, reverse=True)[:_WORDS]
    rest = len(told) - len(most)
    more = f" and {rest} more {'column' if rest == 1 else 'columns'}" if rest else ""
    return ", ".join(word.text for word in told if word in most) + more


def _word(column: Column, values: np.ndarray, share: np.ndarray, weights: np.ndarray) -> Word | None:
    seen = ~np.isnan(values)
    values, share, weights = values[seen], share[seen], weights[seen]
    others = weights - share
    if share.sum() < 0.5 or others.sum() < 0.5:
        return None
    if column.levels and column.kind != "ordered":
        places = values[:, None] == np.arange(len(column.levels))
        here, there, all_rows = (w @ places / w.sum() for w in (share, others, weights))
        most = int(np.argmax(here - there))
        spread = np.sqrt(all_rows[most] * (1 - all_rows[most]))
        enough = (_TELLING / 4 if column.kind == "binary" else 0.15) / spread
        text = _most_frequent(column, values, share, others)
        return Word(float(here[most] - there[most]) / spread, enough, text, text)
    numbers = _level_numbers(column)
    measured = values if numbers is None else numbers[values.astype(int)]
    turned = np.log(measured) if column.kind == "positive" else measured
    here, there, centre = (float(w @ turned / w.sum()) for w in (share, others, weights))
    spread = max(float(np.sqrt(weights @ np.square(turned - centre) / weights.sum())), 1e-300)
    name, unit = _with_unit(column)
    shown = f"median {_number(np.exp(here))}{unit}" if column.kind == "positive" else f"mean {_number(here)}{unit}"
    if column.kind == "ordered" and not _is_numeric(column):  # 3rd class is no "high" class
        text = _most_frequent(column, values, share, others)
        return Word(abs(here - there) / spread, _TELLING, text, text)
    plain = f"{name} ({shown})"
    return Word(abs(here - there) / spread, _TELLING, f"{'high' if here > there else 'low'} {plain}", plain)


def _most_frequent(column: Column, values: np.ndarray, share: np.ndarray, others: np.ndarray) -> str:
    """The level whose frequency in the group exceeds that in the other groups most, and this frequency."""
    places = values[:, None] == np.arange(len(column.levels))
    here, there = share @ places / share.sum(), others @ places / others.sum()
    most = int(np.argmax(here - there))
    between = " = " if " " in column.name else " "
    return f"{column.name}{between}{column.levels[most]} ({here[most]:.0%})"


def _is_numeric(column: Column) -> bool:
    try:
        return bool([float(level) for level in column.levels])
    except ValueError:
        return False


def _level_numbers(column: Column) -> np.ndarray | None:
    """The levels of an ordered column as numbers: those in their names, or else their places."""
    if column.kind != "ordered":
        return None
    return np.array([float(each) for each in column.levels] if _is_numeric(column) else range(len(column.levels)))


def _with_unit(column: Column) -> tuple[str, str]:
    """The name of a column, and the unit that it has in brackets (a range such as 0-100 is none)."""
    unit = "" if any(letter.isdecimal() for letter in column.unit) else column.unit
    if not unit or column.kind not in ("real", "positive"):
        return column.name, ""
    return column.name[: -len(unit) - 2].rstrip(), unit if unit == "%" else f" {unit}"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.095 else f"{value:.1%}"


def _number(value: float) -> str:
    """Three digits, and no power of ten where a plain number is as short."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _together(table: tp.Table, shares: np.ndarray) -> list[str]:
    """Sentences on numbers that are correlated within groups, although the model treats them as independent."""
    columns = [column for column in table.schema.used if column.kind in ("real", "positive", "count")]
    if len(columns) < 2 or len(table) < _ROWS:
        return []
    rest = np.stack([_residuals(column, table[column.name], shares) for column in columns])
    products = rest @ rest.T
    squares = np.square(rest) @ (rest != 0).T  # over the rows where both are seen
    both = (rest != 0).astype(float) @ (rest != 0).T >= _ROWS
    correlation = np.where(both, products / np.sqrt(np.maximum(squares * squares.T, 1e-300)), 0.0)
    correlation[np.tril_indices(len(columns))] = 0.0
    i, j = np.unravel_index(np.argmax(np.abs(correlation)), correlation.shape)
    if abs(correlation[i, j]) < _TOGETHER:
        return []
    others = int((np.abs(correlation) >= _TOGETHER).sum()) - 1
    more = f", and so {'is 1 other pair' if others == 1 else f'are {others} other pairs'} of columns" if others else ""
    return [
        f"Within groups {columns[i].name} and {columns[j].name} are correlated ({correlation[i, j]:.2f}){more}, which "
        "these groups do not allow for: some may be steps along a line. Try --covariance full, or leave columns out."
    ]


def _residuals(column: Column, values: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The residuals of a column given the groups, in units of its standard deviation; 0 where the value is missing."""
    seen = ~np.isnan(values)
    turned = np.log(np.where(seen, values, 1.0)) if column.kind == "positive" else np.where(seen, values, 0.0)
    part = np.where(seen[:, None], shares, 0.0)
    means = turned @ part / np.maximum(part.sum(axis=0), 1e-300)
    expected = shares @ means / np.maximum(shares.sum(axis=1), 1e-300)
    return np.where(seen, turned - expected, 0.0)
