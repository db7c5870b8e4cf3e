"""The kind of a column, recognised by its values and its name, and the reason, which is printed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import InvalidData, InvalidParameter
from ._patterns import pattern
from .codes import odd_codes, plain
from .dates import parse_dates
from .gate import LARGEST
from .levels import EMPTY, code, ordered_levels, same_words
from .schema import LEFT_OUT, USED, Column
from .text import MISSING, NO_ANSWER, Dialect, without_unit

_ID = pattern(
    r"(.*[ _.-])?(ids?|uuid|guid|rownames?|subject|respondent)|index|idx|key|row|nr|no|case"
    r"|(.*[ _.-])?(zip([ _-]?code)?|post(al)?[ _-]?code|plz|phone|telephone|mobile|fax)",
    re.IGNORECASE,
)
_CAMEL_ID = pattern(r".*[a-z](Id|ID)")
_NUMBERING = pattern(r"(?i:.*[ _.-](key|index|idx|row|nr|no|case))\.?|.*[a-z](Nr|No)")  # else a measurement
_WEIGHT = pattern(r"(.*[ _.-])?(weights?|wts?|wgt|pweight)", re.IGNORECASE)
_TIME = pattern(r".*(year|time|date|month|day|week|hour|minute|second|age).*|t", re.IGNORECASE)
_SCALE_CODES = (8, 9, 77, 88, 98, 99, 888, 999)  # stand for a missing value beside a scale from 1 to at most 7
_LARGEST_SCALE, _LARGEST_COUNT, _MOST_LEVELS, _MOST_IDS = 7, 1000, 1000, 12
_SUMS = ("total", "totals", "sum", "grand total", "average", "mean", "summe", "gesamt", "total general")
_DISPERSED = 10.0  # numbers whose variance exceeds this many means are not counts, even of several groups


class Raw(NamedTuple):
    """A column as it was read: cells (None where missing) or numbers (NaN where missing), and its levels if
    declared."""

    name: str
    cells: list[str | None] | None = None
    numbers: np.ndarray | None = None
    levels: tuple[str, ...] | None = None
    ordered: bool = False
    first: bool = False
    dated: bool = False  # the numbers are days since 1970
    said: str = ""  # how the cells were read, if that is not obvious


def from_cells(name: str, cells: Sequence[str], dialect: Dialect, words: frozenset[str], first: bool) -> Raw:
    """A column of a text file: of numbers if all its cells are numbers. `words` are further cells that mean a missing
    value."""
    words = words_for(name, words)
    numbers, said = numbers_of(cells, dialect, words)
    found = [number for number in numbers if number is not None and number == number]
    if None not in numbers and found:
        return Raw(name, numbers=np.array(numbers, dtype=np.float64), first=first, said=said)
    texts = [None if cell.lower() in MISSING | words else cell for cell in cells]
    values = [cell for cell in texts if cell is not None]
    if len(set(found)) > 10 and len(found) > len(values) / 2:
        row = next(row for row, number in enumerate(numbers) if number is None)
        raise InvalidData(
            f"column {name!r} holds numbers in {len(found)} of {len(values)} rows, but {cells[row][:40]!r} in row "
            f"{row + 1}: {_gap(cells[row][:40])} makes it a missing value; {_kind(name, 'category')} reads words"
        )
    return Raw(name, cells=texts, first=first)


def numbers_of(
    cells: Sequence[str], dialect: Dialect, words: frozenset[str] = frozenset()
) -> tuple[list[float | None], str]:
    """The numbers in cells as in `Dialect.numbers`, and how they were read. Among numbers, "unknown" and the like and
    `words` mean missing values; a unit that all cells share is left out."""
    kept = ["" if cell.lower() in words else cell for cell in cells]
    numbers = dialect.numbers(kept)
    codes = {dialect.number(word) for word in words} - {None}
    if codes.intersection(numbers):  # -99.0 for -99
        kept = ["" if number in codes else cell for cell, number in zip(kept, numbers, strict=True)]
        numbers = dialect.numbers(kept)
    odd = {cell for cell, number in zip(kept, numbers, strict=True) if number is None}
    if not odd:
        return numbers, ""
    silent = {cell for cell in odd if cell.lower() in NO_ANSWER}
    said = [f"{shown} is missing" for shown in sorted(map(repr, silent))]
    if silent:
        kept = ["" if cell in silent else cell for cell in kept]
        numbers = dialect.numbers(kept)
    if odd - silent:
        bare = without_unit(["" if number is not None and number != number else cell
                             for cell, number in zip(kept, numbers, strict=True)])  # fmt: skip
        if bare is not None:
            numbers = dialect.numbers(bare[0])
            said.append(f"in {bare[1]}")
    return numbers, "; ".join(said)


def words_for(name: str, words: frozenset[str]) -> frozenset[str]:
    """The words that stand for missing values in this column: "sex=9" says that of 9 in the column sex alone."""
    start = f"{name.lower()}="
    return words | {word.removeprefix(start) for word in words if word.startswith(start)}


def without_gaps(raw: Raw, words: frozenset[str]) -> Raw:
    """The column with the cells or numbers that stand for missing values removed."""
    words = words_for(raw.name, words)
    if raw.numbers is not None:
        codes = [number for word in words if (number := Dialect(",").number(word)) is not None]
        return raw._replace(numbers=np.where(np.isin(raw.numbers, codes), np.nan, raw.numbers)) if codes else raw
    words = words if raw.levels is not None else words | MISSING
    return raw._replace(cells=[None if cell is None or cell.lower() in words else cell for cell in raw.cells or ()])


def _gap(*words: str) -> str:
    """The argument that declares words as missing values, as written on the command line and in Python."""
    return f"--na {','.join(words)!r} (missing={list(words)!r} in Python)"


def _kind(name: str, kind: str) -> str:
    """The argument that declares the kind of a column, as written on the command line and in Python."""
    return f"--as {name}={kind} (kinds={{{name!r}: {kind!r}}} in Python)"


def recognise(raw: Raw, kind: str | None = None) -> tuple[Column, np.ndarray]:
    """The description of a column, of the recognised or given `kind`, and its values: numbers, places of levels, days,
    or texts."""
    if raw.numbers is not None and np.isinf(raw.numbers).any():
        raise InvalidData(f"column {raw.name!r} is infinite in row {int(np.argmax(np.isinf(raw.numbers))) + 1}")
    if raw.numbers is not None and (np.abs(raw.numbers) > LARGEST).any():
        row = int(np.argmax(np.abs(raw.numbers) > LARGEST))
        raise InvalidData(
            f"column {raw.name!r} has {raw.numbers[row]:g} in row {row + 1}; rescale what exceeds {LARGEST:g}"
        )
    if raw.cells is not None and raw.levels is None and kind in (None, "binary", "category", "ordered"):
        raw = _with_same_words(raw)
    if kind is not None:
        return _as_kind(raw, kind, f"as asked; {raw.said}" if raw.said else "as asked")
    if raw.levels is not None:
        kind = "ordered" if raw.ordered else "binary" if len(raw.levels) == 2 else "category"
        return _as_kind(raw, kind, "levels as declared")
    if raw.dated:
        return _as_kind(raw, "date", "dates")
    kind, reason, question = _of_numbers(raw) if raw.numbers is not None else _of_texts(raw)
    if raw.cells is not None and kind in ("category", "text"):  # perhaps a scale with some answers missing
        rest = raw._replace(cells=[None if c is None or c.lower() in NO_ANSWER else c for c in raw.cells])
        if _of_texts(rest)[0] == "ordered":
            silent = sorted({c for c in raw.cells if c is not None} - {c for c in rest.cells or () if c is not None})
            raw, (kind, reason, question) = rest, _of_texts(rest)
            reason += f"; {', '.join(map(repr, silent))} is missing"
    column, values = _as_kind(raw, kind, reason + (f"; {raw.said}" if raw.said else ""))
    return dataclasses.replace(column, question=question or _sum_below(raw)), values


def _with_same_words(raw: Raw) -> Raw:
    """The column with one spelling for each word."""
    assert raw.cells is not None
    stands_for = same_words(raw.cells)
    if not stands_for:
        return raw
    spelt: dict[str, list[str]] = {}
    for text, main in sorted(stands_for.items()):
        spelt.setdefault(main, []).append(repr(text))
    said = "; ".join(f"{', '.join(texts)} read as {main!r}" for main, texts in spelt.items())
    cells = [None if cell is None else stands_for.get(cell, cell) for cell in raw.cells]
    return raw._replace(cells=cells, said="; ".join(filter(None, (raw.said, said))))


def parts_of_a_date(columns: Sequence[Column]) -> list[Column]:
    """The columns, with adjacent columns of years, months and days declared dates, not measurements."""
    numbers = {column.name.lower(): column for column in columns if column.kind in ("real", "count")}
    here = numbers.keys() & {"year", "month", "day"}
    if len(here) < 2 or "month" not in here:
        return list(columns)
    reason = "a part of a date, as is the column beside it"
    return [
        dataclasses.replace(column, kind="date", reason=reason, question="")
        if column is numbers.get(name := column.name.lower()) and name in here
        else column
        for column in columns
    ]


def _is_id_name(name: str) -> bool:
    return bool(_ID.fullmatch(name) or _CAMEL_ID.fullmatch(name))


def _may_be_id_name(name: str) -> bool:
    return _is_id_name(name) or bool(_NUMBERING.fullmatch(name))


def _of_numbers(raw: Raw) -> tuple[str, str, str]:
    """Kind, reason and question of a column of numbers."""
    assert raw.numbers is not None
    seen = raw.numbers[~np.isnan(raw.numbers)]
    distinct, name = np.unique(seen), raw.name
    if len(distinct) < 2:
        what = f"all values are {plain(distinct[0])}" if len(distinct) else "no value at all"
        return "constant", what, _tick(name, _texts_of(raw))
    whole = bool((seen == np.round(seen)).all())
    unique = whole and len(distinct) == len(seen) > 2
    if unique and _may_be_id_name(name):
        return "id", "named like an id, and all values differ", ""
    if unique and raw.first and (np.diff(seen) == 1).all() and not _TIME.fullmatch(name):
        return "id", f"counts the rows from {plain(seen[0])}", ""
    if _counts_blocks(raw.numbers, whole, name):
        return "id", "counts the rows of each block", ""
    question = (
        _code_question(name, seen, odd_codes(seen))
        or _many_zeros(name, seen)
        or (
            f"{name!r} has another whole number in every row: if it is an id, say so with {_kind(name, 'id')}"
            if unique and len(seen) >= 20 and _looks_like_ids(distinct)
            else ""
        )
    )
    low, high = distinct[0], distinct[-1]
    if len(distinct) == 2 and (whole or len(seen) >= 20):
        return "binary", "two values", question
    if whole and _is_id_name(name) and len(distinct) <= len(seen) / 2:
        few = len(distinct) <= _MOST_IDS
        return "category" if few else "id", "named like an id, though values repeat", question
    steps = int((distinct == np.arange(1, len(distinct) + 1)).sum())  # 1, 2, … up to here
    coded = 1 < steps < len(distinct) <= len(seen) / 3
    if whole and coded and steps <= _LARGEST_SCALE and np.isin(distinct[steps:], _SCALE_CODES).all():
        codes = " and ".join(plain(value) for value in distinct[steps:])
        return (
            "ordered",
            f"1 to {steps} and {codes}, as on a scale with codes for no answer",
            _code_question(name, seen, distinct[steps:].tolist()),
        )
    if whole and low == 1 and high <= _LARGEST_SCALE and len(distinct) == high and len(seen) >= 3 * high:
        return "ordered", f"whole numbers from 1 to {plain(high)}, as on a scale", question
    if whole and 0 <= low <= 1 and high <= _LARGEST_COUNT and seen.var() <= _DISPERSED * seen.mean():
        return "count", f"whole numbers from {plain(low)} to {plain(high)}", question
    between = f"from {low:.6g} to {high:.6g}"
    if len(distinct) <= _LARGEST_SCALE and len(seen) >= 10 * len(distinct):
        return "ordered", f"only {len(distinct)} different numbers, {between}", question
    if low > 0 and high > 10 * low and len(seen) >= 20 and _is_lopsided(seen):
        return "positive", f"{between}, skewed: by the logarithm", question
    if _WEIGHT.fullmatch(name) and low > 0 and 0.5 < seen.mean() < 2:
        question = f"{name!r} may be survey weights: if so, say {_kind(name, 'weight')}"
    return "real", between, question


def _counts_blocks(numbers: np.ndarray, whole: bool, name: str) -> bool:
    """Whether the numbers count 1, 2, … again and again, as people count within each town or clinic."""
    starts = numbers == 1
    counts = whole and starts[0] and bool((starts[1:] | (np.diff(numbers) == 1)).all())
    return counts and starts.sum() > 1 and numbers.max() > _LARGEST_SCALE and not _TIME.fullmatch(name)


def _looks_like_ids(distinct: np.ndarray) -> bool:
    """Whether whole numbers are close to each other, or have equally many digits."""
    digits = len(plain(distinct[0])) == len(plain(distinct[-1]))
    return digits or bool(distinct[-1] - distinct[0] <= 20 * len(distinct))


def _is_lopsided(seen: np.ndarray) -> bool:
    """Whether the logarithms of positive numbers are much nearer to symmetric than the numbers."""

    def skewness(values: np.ndarray) -> float:
        return abs(float(np.mean(((values - values.mean()) / values.std()) ** 3)))

    return skewness(seen) > max(1.0, 2 * skewness(np.log(seen)))


def _code_question(name: str, seen: np.ndarray, values: Sequence[float]) -> str:
    """The question whether these values stand for missing ones; empty if there are none."""
    if not values:
        return ""
    times = [int((seen == value).sum()) for value in values]
    rows = ["1 row" if count == 1 else f"{count} rows" for count in times]
    found = ", ".join(f"{plain(value)} in {row}" for value, row in zip(values, rows, strict=True))
    stands = "that stands for a missing value" if len(values) == 1 else "these stand for missing values"
    return f"{name!r} is {found}: if {stands}, say {_gap(*(f'{name}={plain(value)}' for value in values))}"


def _many_zeros(name: str, seen: np.ndarray) -> str:
    """A question about a measurement that is exactly 0 so often that its zeros can look like a group; else empty."""
    zeros, above = int((seen == 0).sum()), seen[seen > 0]
    measured = len(np.unique(above)) > 20 and seen.var() > _DISPERSED * seen.mean()
    if not measured or (seen < 0).any() or zeros < 0.05 * len(seen):
        return ""
    return (
        f"{name!r} is 0 in {zeros} of {len(seen)} rows, which can make a group by that alone: if it should not, use "
        "one column for whether it is above 0 and one for how much"
    )


def _of_texts(raw: Raw) -> tuple[str, str, str]:
    """Kind, reason and question of a column of words."""
    seen = [cell for cell in raw.cells or () if cell is not None]
    distinct = set(seen)
    if len(distinct) < 2:
        return (
            "constant",
            f"all values are {seen[0]!r}" if seen else "no value at all",
            _tick(raw.name, raw.cells or ()),
        )
    if (dates := parse_dates(raw.cells or ())) is not None:
        return "date", dates[1], ""
    if len(distinct) == len(seen) > 2:
        spaced = sum(" " in cell for cell in seen) > len(seen) / 2
        if _is_id_name(raw.name) or raw.first or not spaced:
            return "id", "all values differ", ""
    if len(distinct) == 2:
        return "binary", "two values", ""
    if len(distinct) > min(_MOST_LEVELS, max(10, len(seen) / 5)) or len(distinct) == len(seen):
        often = len(distinct) <= min(_MOST_LEVELS, len(seen) / 2)
        hint = f"; if they are categories, say {_kind(raw.name, 'category')}" if often else ""
        return "text", f"{len(distinct)} different texts in {len(seen)} rows{hint}", ""
    levels, ordered = ordered_levels(distinct)
    if ordered:
        return "ordered", f"{len(levels)} values in order", ""
    return "category", f"{len(levels)} values", ""


def _sum_below(raw: Raw) -> str:
    """The question whether the last row is the sum of the rows above it, if it looks so."""
    last = raw.cells[-1] if raw.cells else None
    if last is None or last.lower().rstrip(":") not in _SUMS or raw.cells.count(last) > 1:  # type: ignore[union-attr]
        return ""
    return f"the last row says {last!r} in {raw.name!r}: if it sums up the others, delete it"


def _tick(name: str, cells: Sequence[str | None]) -> str:
    """The question whether a column of one value and gaps is a column of ticks, if it may be."""
    seen = [cell for cell in cells if cell is not None]
    if not 2 < len(seen) < len(cells) - 2:
        return ""
    said = f"if an empty cell means no, say {_kind(name, 'binary')}"
    return f"{name!r} is {seen[0]!r} in {len(seen)} of {len(cells)} rows and empty in the others: {said}"


def _as_kind(raw: Raw, kind: str, reason: str) -> tuple[Column, np.ndarray]:
    """The column read as of this kind, or an error that says why it cannot be."""
    if kind not in (*USED, *LEFT_OUT):
        raise InvalidParameter(f"column {raw.name!r} must be one of {', '.join((*USED, *LEFT_OUT))}, got {kind!r}")
    levels: tuple[str, ...] = ()
    if kind in ("real", "positive", "count"):
        values = _numbers_of(raw, kind)
    elif kind in ("binary", "category", "ordered"):
        texts = _texts_of(raw)
        levels = raw.levels or _levels_of(raw, texts)
        if kind == "binary" and len(levels) == 1 and None in texts:
            levels = (EMPTY, *levels)
        if kind == "binary" and len(levels) > 2:
            raise InvalidData(f"column {raw.name!r} is to be binary, but has the {len(levels)} values {levels[:4]}")
        values = code(raw.name, texts, levels)
    elif kind == "date":
        values = _days_of(raw)
    elif kind == "weight":
        values = _numbers_of(raw, "real")
        if not (values >= 0).all() or not values.sum() > 0:
            raise InvalidData(f"column {raw.name!r} is to be weights, which are numbers from 0 up without gaps")
    else:
        values = np.array(_texts_of(raw), dtype=object)
    missing = values != values if values.dtype != object else np.array([value is None for value in values])
    return Column(raw.name, kind, reason, levels, int(missing.sum())), values


def _levels_of(raw: Raw, texts: Sequence[str | None]) -> tuple[str, ...]:
    if raw.numbers is not None:
        return tuple(plain(value) for value in np.unique(raw.numbers[~np.isnan(raw.numbers)]))
    return ordered_levels({text for text in texts if text is not None})[0]


def _numbers_of(raw: Raw, kind: str) -> np.ndarray:
    if raw.numbers is None:  # no value at all, or numbers that were written as words
        numbers = Dialect(",").numbers([cell or "" for cell in raw.cells or ()])
        if None in numbers:
            raise InvalidData(f"column {raw.name!r} is to be {kind}, but holds {_first(raw)!r}")
        raw = raw._replace(numbers=np.array(numbers, dtype=np.float64))
    assert raw.numbers is not None
    low = {"real": -np.inf, "positive": 5e-324, "count": 0.0}[kind]  # the least number above 0
    wrong = (raw.numbers < low) | ((kind == "count") & (raw.numbers != np.round(raw.numbers)) & ~np.isnan(raw.numbers))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidData(f"column {raw.name!r} is to be {kind}, but is {plain(raw.numbers[row])} in row {row + 1}")
    return raw.numbers


def _days_of(raw: Raw) -> np.ndarray:
    if raw.numbers is not None:  # days since 1970, or a year, a month or a day
        return raw.numbers
    dates = parse_dates(_texts_of(raw))
    if dates is None:
        raise InvalidData(f"column {raw.name!r} is to be a date, but holds {_first(raw)!r}")
    return dates[0]


def _texts_of(raw: Raw) -> list[str | None]:
    if raw.cells is not None:
        return raw.cells
    assert raw.numbers is not None
    return [None if value != value else plain(value) for value in raw.numbers]


def _first(raw: Raw) -> str | None:
    return next((cell for cell in _texts_of(raw) if cell is not None), None)
