"""Formulas such as "~ party * year": columns of a table as the columns of a design matrix, named and reproducible.

`a + b` has both columns, `a : b` their product, `a * b` is `a + b + a : b`, brackets group, `- 1` (or `+ 0`) leaves the
intercept out, and `C(year)` takes numbers for categories. Categories are coded against their first level where the rest
of their term is in the formula, else by all levels (the rule of R). Inside, numbers are in units of their spread around
their mean, so that a prior means the same for all of them; coefficients are reported in the user's units.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidData, InvalidParameter
from .schema import shortened
from .tables import Table, read_table

_TOKENS = re.compile(r"\s*(?:(C\(\s*[^()]+?\s*\))|([^\W\d][\w.]*)|`([^`]+)`|([01])|(\S))")
_MOST = 1000  # columns of a design matrix

Term = tuple[str, ...]  # the names of the factors of a product; none for the intercept


@dataclasses.dataclass(frozen=True)
class Formula:
    """Terms in the order of a table: the intercept, then single columns, then products."""

    text: str
    terms: tuple[Term, ...]
    categories: tuple[str, ...] = ()  # columns of numbers that are treated as categories

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the formula needs."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))


def parse_formula(text: str) -> Formula:
    """Parse a formula; the error says which part was not understood."""
    if not isinstance(text, str) or not text.strip().startswith("~"):
        raise InvalidParameter(f'a formula must begin with "~", as in "~ party * year", got {text!r}')
    parser = _Parser(text)
    terms = sorted(parser.sum([()]), key=len)
    if parser.tokens:
        raise parser.misread()
    if not terms:
        raise InvalidParameter(f"the formula {text!r} has no terms")
    return Formula(text.strip(), tuple(terms), tuple(sorted(parser.categories)))


class _Parser:
    """Recursive descent: a sum of products of names."""

    def __init__(self, text: str):
        self.text = text
        self.categories: set[str] = set()
        self.tokens = [match.groups() for match in _TOKENS.finditer(text.strip()[1:]) if match[0].strip()]

    def sum(self, terms: list[Term]) -> list[Term]:
        sign = "+"
        while True:
            found = self.product()
            if found == ["0"]:
                found, sign = [()], "-" if sign == "+" else "+"
            if sign == "+":
                terms = _unique([*terms, *found])
            else:
                terms = [term for term in terms if set(term) not in [set(other) for other in found]]
            if not self.tokens or self.tokens[0][4] not in ("+", "-"):
                return terms
            sign = self.tokens.pop(0)[4]

    def product(self) -> list[Any]:
        left = self.interaction()
        while self.tokens and self.tokens[0][4] == "*":
            self.tokens.pop(0)
            right = self.interaction()
            left = _unique([*left, *right, *_products(left, right)])
        return left

    def interaction(self) -> list[Any]:
        left = self.atom()
        while self.tokens and self.tokens[0][4] == ":":
            self.tokens.pop(0)
            left = _unique(_products(left, self.atom()))
        return left

    def atom(self) -> list[Any]:
        if not self.tokens:
            raise InvalidParameter(f"the formula {self.text!r} ends where a column should follow")
        category, name, quoted, digit, sign = self.tokens[0]
        if sign and sign != "(":
            raise self.misread()
        self.tokens.pop(0)
        if digit:
            return ["0"] if digit == "0" else [()]
        if sign:
            inside = self.sum([])
            if not self.tokens or self.tokens.pop(0)[4] != ")":
                raise InvalidParameter(f"a bracket is not closed in the formula {self.text!r}")
            return inside
        if category:
            name = category[2:-1].strip().strip("`")
            self.categories.add(name)
        return [(name or quoted,)]

    def misread(self) -> InvalidParameter:
        found = next(part for part in self.tokens[0] if part)
        return InvalidParameter(
            f"{found!r} is not understood in the formula {self.text!r}: it may have names of columns, "
            "C(name), + - * : and brackets"
        )


def _products(left: list[Any], right: list[Any]) -> list[Term]:
    return [tuple(dict.fromkeys([*a, *b])) for a in left for b in right if a != "0" and b != "0"]


def _unique(terms: list[Term]) -> list[Term]:
    return list({frozenset(term): term for term in reversed(terms)}.values())[::-1]


# ---- from a formula to a matrix ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Covariate:
    """How one column is coded: by its levels, or as (value − centre) / scale."""

    name: str
    levels: tuple[str, ...] = ()
    centre: float = 0.0
    scale: float = 1.0
    dated: bool = False  # numbers are years since 1970
    usual: str | float = 0.0  # the mean, or the most frequent level
    low: float = 0.0  # the least number
    high: float = 0.0


@dataclasses.dataclass(frozen=True)
class Design:
    """A formula with the levels and spreads of the columns it was completed with."""

    formula: Formula
    covariates: tuple[Covariate, ...]
    names: tuple[str, ...]  # of the coefficients

    @property
    def width(self) -> int:
        return len(self.names)

    def matrix(self, columns: Any, user: bool = False) -> np.ndarray:
        """The design matrix of a table, one row per row: in the model's coordinates, or in the user's (`user`)."""
        n, values = read_covariates(columns, self.formula, self.covariates)
        return self._matrix(n, values, user)

    def _matrix(self, n: int, values: Mapping[str, np.ndarray], user: bool) -> np.ndarray:
        coded = {}
        for covariate in self.covariates:
            value = values[covariate.name]
            if not covariate.levels:
                value = value if user else (value - covariate.centre) / covariate.scale
            coded[covariate.name] = value
        parts = [np.ones((n, 1)) if not term else self._term(term, coded) for term in self.formula.terms]
        return np.concatenate(parts, axis=1)

    def _term(self, term: Term, coded: Mapping[str, np.ndarray]) -> np.ndarray:
        levels = {covariate.name: len(covariate.levels) for covariate in self.covariates}
        product = np.ones((len(coded[term[0]]), 1))
        for name in term:
            column = coded[name][:, None]
            if levels[name]:
                column = (column == np.arange(_first(self.formula, term, name), levels[name])).astype(np.float64)
            product = (product[:, :, None] * column[:, None, :]).reshape(len(column), -1)
        return product

    @property
    def to_user(self) -> np.ndarray:
        """The matrix by which coefficients of the model's columns become those of the user's columns."""
        generator, n = np.random.default_rng(0), 20 * self.width
        made = {
            covariate.name: generator.integers(len(covariate.levels), size=n).astype(np.float64)
            if covariate.levels
            else covariate.centre + covariate.scale * generator.normal(size=n)
            for covariate in self.covariates
        }
        inner, outer = (self._matrix(n, made, user) for user in (False, True))
        return np.linalg.lstsq(outer, inner, rcond=None)[0]


def complete_design(formula: Formula, columns: Any) -> Design:
    """The levels and spreads of these columns, and the names of the coefficients."""
    _, values = read_covariates(columns, formula)
    kinds = _kinds(columns, formula)
    covariates = []
    for name in formula.names:
        levels, dated = kinds[name]
        if levels:
            common = int(np.bincount(values[name].astype(np.int64)).argmax())
            covariates.append(Covariate(name, levels, usual=levels[common]))
            continue
        # A number may be centred only if, for each term that holds it, the formula also has that term without it.
        present = {frozenset(term) for term in formula.terms}
        centred = all(frozenset(term) - {name} in present for term in formula.terms if name in term)
        spread = float(np.std(values[name]))
        if not spread > 0:
            raise InvalidData(f"the column {name!r} is the same in every row: it has no effect to find")
        mean, low, high = (float(part(values[name])) for part in (np.mean, np.min, np.max))
        covariates.append(Covariate(name, (), mean if centred else 0.0, spread, dated, mean, low, high))
    by_name = {covariate.name: covariate for covariate in covariates}
    names = [label for term in formula.terms for label in _labels(formula, term, by_name)]
    if len(names) > _MOST:
        raise InvalidParameter(f"the formula {formula.text!r} has {len(names):,} coefficients, and at most {_MOST}")
    return Design(formula, tuple(covariates), tuple(names))


def read_covariates(
    columns: Any, formula: Formula, known: Sequence[Covariate] = ()
) -> tuple[int, dict[str, np.ndarray]]:
    """The number of rows and, for each column of a formula, its numbers or the places of its levels."""
    if not formula.names:
        return _rows(columns), {}
    kinds = _kinds(columns, formula, known)
    result = {}
    for name in formula.names:
        cells, (levels, dated) = _cells(columns, name), kinds[name]
        if levels:
            place = {level: number for number, level in enumerate(levels)}
            words = [_word(cell) for cell in cells]
            strange = next((word for word in words if word is not None and word not in place), None)
            if strange is not None:
                raise InvalidData(f"{name!r} is {strange!r} in a row; the fit knows {shortened(tuple(levels))}")
            found = np.array([np.nan if word is None else float(place[word]) for word in words])
        else:
            found = _days(name, cells) / 365.25 if dated else np.array([_number(name, cell) for cell in cells])
        if (lost := int(np.isnan(found).sum())) > 0:
            raise InvalidData(f"the column {name!r} lacks a value in {lost:,} of {len(found):,} rows: leave these out")
        result[name] = found
    return len(next(iter(result.values()))), result


def _kinds(columns: Any, formula: Formula, known: Sequence[Covariate] = ()) -> dict[str, tuple[tuple[str, ...], bool]]:
    """The levels of each column (none: numbers), and whether it holds dates."""
    if known:
        return {covariate.name: (covariate.levels, covariate.dated) for covariate in known}
    result: dict[str, tuple[tuple[str, ...], bool]] = {}
    for name in formula.names:
        cells = _cells(columns, name)
        words = {word for cell in cells if (word := _word(cell)) is not None}
        numeric = all(_is_number(cell) for cell in cells if _word(cell) is not None)
        if numeric and name not in formula.categories:
            result[name] = ((), False)
        elif not numeric and name not in formula.categories and _is_dated(name, cells):
            result[name] = ((), True)
        elif len(words) < 2:
            raise InvalidData(f"the column {name!r} is the same in every row: it has no effect to find")
        else:
            result[name] = (tuple(sorted(words, key=_by_size)), False)
    return result


def _labels(formula: Formula, term: Term, covariates: Mapping[str, Covariate]) -> list[str]:
    if not term:
        return ["intercept"]
    each = []
    for name in term:
        levels = covariates[name].levels[_first(formula, term, name) :]
        each.append([f"{name}[{level}]" for level in levels] if levels else [name])
    return [":".join(parts) for parts in itertools.product(*each)]


def _first(formula: Formula, term: Term, name: str) -> int:
    """The first level that has a column: 1 if level 0 is the reference, because the rest of the term is in the formula,
    else 0."""
    return int(set(term) - {name} in [set(other) for other in formula.terms])


# ---- cells -------------------------------------------------------------------------------------------------------


def _rows(columns: Any) -> int:
    if isinstance(columns, Mapping):
        return len(next(iter(columns.values()), ()))
    return len(columns)


def _cells(columns: Any, name: str) -> list[Any]:
    source = columns.words() if isinstance(columns, Table) else columns
    names = tuple(map(str, source.keys() if isinstance(source, Mapping) else source.columns))
    if name not in names:
        raise InvalidParameter(f"the formula has {name!r}, but the columns are {shortened(names) or 'none'}")
    column = source[name]
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _word(cell: Any) -> str | None:
    """A category by its name; None where there is no value."""
    if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
        return None
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number) and not isinstance(cell, bool | np.bool_)


def _number(name: str, cell: Any) -> float:
    if _word(cell) is None:
        return float("nan")
    if not _is_number(cell) or not np.isfinite(cell):
        raise InvalidData(f"the column {name!r} holds numbers in the fit, but {str(cell)[:40]!r} in a row")
    return float(cell)


def _is_dated(name: str, cells: list[Any]) -> bool:
    return read_table({name: cells}).schema[name].kind == "date"


def _days(name: str, cells: list[Any]) -> np.ndarray:
    if all(_is_number(cell) for cell in cells):  # years since 1970
        return 365.25 * np.array(cells, dtype=np.float64)
    return np.asarray(read_table({name: cells}, kinds={name: "date"})[name], dtype=np.float64)


def _by_size(word: str) -> tuple[bool, float, str]:
    try:
        return False, float(word), word
    except ValueError:
        return True, 0.0, word
