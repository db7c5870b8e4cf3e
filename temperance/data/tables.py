"""Tables as people have them: files in any dialect, frames and dictionaries of columns, with a schema.

Every column keeps its name, its levels and its gaps. Ids, row numbers, dates, constants and free text are set apart,
and the schema says so first.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidData, InvalidParameter
from .codes import may_be_coded, plain, said_of, shared_codes
from .levels import code
from .parquet import read_parquet
from .recognise import Raw, from_cells, parts_of_a_date, recognise, without_gaps
from .schema import LEFT_OUT, Column, Schema, nothing_used, shortened
from .text import LOOK, MISSING, NO_ANSWER, Dialect, decode, find_decimal, find_delimiter, rows, titles

_ROWS = 1000  # rows that are inspected to find how numbers are written
_BODY = 5  # rows of numbers from which the line above them is known to hold names or units
_UNIT = 12  # letters of the longest unit
_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Columns with a schema. `table["age"]` is an array: numbers, places of levels, days since 1970, or texts."""

    schema: Schema  # what each column is
    values: dict[str, np.ndarray]  # each column by its name
    name: str = "data"  # of the file, without its suffix

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[self.schema[name].name]

    def __str__(self) -> str:
        return f"{self.name}: {len(self)} rows, {len(self.schema)} columns\n{self.schema}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are used."""
        return tuple(column.name for column in self.schema.used)

    @property
    def ids(self) -> np.ndarray:
        """The name of each row: the first column of ids (a column that merely counts the rows only if there is no
        other), or the number of the row, from 1."""
        found = [self.values[column.name] for column in self.schema if column.kind == "id"]
        counts = {str(first + row) for first in (0, 1) for row in range(len(self))}
        return next((ids for ids in found if not counts.issuperset(ids)), [*found, np.arange(1, len(self) + 1)][0])

    @property
    def weights(self) -> np.ndarray | None:
        """The survey weights of the rows, scaled to a mean of 1, if a column was declared to hold weights."""
        found = [self.values[column.name] for column in self.schema if column.kind == "weight"]
        if len(found) > 1:
            raise InvalidData(f"{self.name} has {len(found)} columns of weights, where there can be one")
        return found[0] / found[0].mean() if found else None

    def choose(self, names: Sequence[str]) -> Table:
        """Only these columns, in this order."""
        columns = tuple(self.schema[name] for name in names)
        chosen = dataclasses.replace(self.schema, columns=columns)
        return Table(chosen, {column.name: self.values[column.name] for column in columns}, self.name)

    def rows(self, chosen: np.ndarray) -> Table:
        """Some of the rows, by a mask or by their places."""
        return dataclasses.replace(self, values={name: values[chosen] for name, values in self.values.items()})

    def words(self) -> dict[str, np.ndarray]:
        """The columns as they were written, with the names of levels in place of numbers."""
        found = dict(self.values)
        for column in self.schema:
            if column.levels:
                found[column.name] = np.array([None if v != v else column.levels[int(v)] for v in found[column.name]])
        return found

    def matrix(self) -> np.ndarray:
        """The used columns as (rows, columns) float64, NaN where a value is missing.

        Places of levels are not measurements, so columns of words beside columns of numbers are refused.
        """
        words = tuple(column.name for column in self.schema.used if column.kind in ("category", "ordered"))
        numbers = tuple(column.name for column in self.schema.used if column.kind in ("real", "positive", "count"))
        if words and numbers:
            raise InvalidData(
                f"{self.name} has columns of categories ({shortened(words, 6)}) beside numbers "
                f"({shortened(numbers, 6)}): choose columns of one sort with table.choose([…]), or a model of mixed "
                "columns"
            )
        if not self.columns:
            raise InvalidData(nothing_used(self.name, self.schema.left_out[0]))
        return np.stack([self.values[name] for name in self.columns], axis=1)


def read_table(
    source: Any,
    *,
    kinds: Mapping[str, str] | None = None,
    missing: Sequence[str] | None = None,
    delimiter: str | None = None,
    like: Schema | None = None,
) -> Table:
    """A table with its schema.

    `source` is the path of a csv or parquet file, a pandas, polars or pyarrow frame, or a dictionary of
    columns; `delimiter` separates the cells of a text file where that is not recognised. `kinds` says what a column is
    where that is not recognised ({"income": "positive"}), `missing` which cells stand for a missing value besides the
    usual ("sex=9": only in that column). Unless it is given, codes such as −99 that lie far outside the other numbers
    of several columns are taken for missing, and the schema says so first; with [] none are. `like` is the schema of a
    table read before: its columns are found by name, in any order, with its kinds and levels.
    """
    said = (missing,) if isinstance(missing, str) else tuple(missing or ())
    said += like.missing if like else ()
    words = frozenset(_text(word, "missing").lower() for word in said)
    if isinstance(source, Table):
        raws, notes, name = _from_frame(source.words(), words), list(source.schema.notes), source.name
    elif isinstance(source, str | Path):
        raws, notes, name = _read_file(source, words, delimiter)
    else:
        raws, notes, name = _from_frame(source, words), [], "data"
    if not raws or _length(raws[0]) == 0:
        raise InvalidData(f"{name} has no rows")
    if like is not None:
        return _like(raws, like, name)
    _require_columns("kinds", list(kinds or ()), raws, name)
    _require_columns("missing", [word.split("=")[0] for word in said if "=" in word], raws, name)
    raws, coded, codes = (raws, (), "") if missing is not None else _without_codes(raws, kinds or {})
    said += coded
    found = [recognise(raw, (kinds or {}).get(raw.name)) for raw in raws]
    columns = _with_copies(found)
    schema = Schema(tuple(columns if kinds else parts_of_a_date(columns)), tuple(notes), said, codes)
    return Table(schema, {column.name: values for column, values in found}, name)


def _without_codes(raws: list[Raw], kinds: Mapping[str, str]) -> tuple[list[Raw], tuple[str, ...], str]:
    """The columns without the codes for missing values that several columns share; these codes as words of `missing`
    (negative codes for all columns, because new rows may have them where these rows have none); and the sentence that
    says so."""
    may = [raw for raw in raws if kinds.get(raw.name) not in LEFT_OUT and may_be_coded(raw.numbers)]
    used = may if len(may) < 2 else [raw for raw in may if raw.name in kinds or recognise(raw)[0].used]
    numbers = {raw.name: raw.numbers for raw in used if raw.numbers is not None}
    codes = shared_codes(numbers)
    if not codes:
        return raws, (), ""
    below = sorted({value for values in codes.values() for value in values if value < 0})
    others = {raw.name: below for raw in raws if raw.numbers is not None and np.fmin.reduce(raw.numbers) >= 0}
    words = tuple(f"{name}={plain(value)}" for name, values in (others | codes).items() for value in values)
    small = frozenset(word.lower() for word in words)
    return [without_gaps(raw, small) if raw.name in codes else raw for raw in raws], words, said_of(codes, numbers)


def _with_copies(found: Sequence[tuple[Column, np.ndarray]]) -> list[Column]:
    """The columns, with a question about each column that repeats another one in every row."""
    seen: dict[bytes, str] = {}
    columns: list[Column] = []
    for column, values in found:
        levels = _first_met(values) if column.used and not column.question else None
        same = None if levels is None else seen.setdefault(levels.tobytes(), column.name)
        if same not in (None, column.name):
            said = f"{column.name!r} says the same as {same!r} in every row, which counts twice: leave one of them out"
            column = dataclasses.replace(column, question=said)
        columns.append(column)
    return columns


def _first_met(values: np.ndarray) -> np.ndarray | None:
    """The values numbered in the order of first occurrence; None if most of them differ, because any two such columns
    would be alike."""
    if len(values) > 10 * _ROWS and _first_met(values[: 10 * _ROWS]) is None:  # spares sorting a million values
        return None
    _, first, places = np.unique(values, return_index=True, return_inverse=True, equal_nan=True)
    if len(first) > len(values) / 4:
        return None
    return np.argsort(np.argsort(first))[places].astype(np.int32)


def _require_columns(argument: str, named: Sequence[str], raws: Sequence[Raw], name: str) -> None:
    """Refuse an argument that names a column which is not there; cells are compared without regard to case."""
    here = {raw.name.lower() if argument == "missing" else raw.name for raw in raws}
    strange = [each for each in named if (each.lower() if argument == "missing" else each) not in here]
    if strange:
        names = shortened(tuple(raw.name for raw in raws))
        raise InvalidParameter(
            f"{argument} names the column {strange[0]!r}, which {name} does not have; its columns are {names}"
        )


def _like(raws: Sequence[Raw], schema: Schema, name: str) -> Table:
    """New rows for the columns of an earlier table, given by its schema."""
    here = {raw.name: raw for raw in raws}
    lacking = tuple(column.name for column in schema.used if column.name not in here)
    if lacking:
        raise InvalidData(f"{name} lacks the column {lacking[0]!r}; its columns are {shortened(tuple(here))}")
    columns: list[Column] = []
    values: dict[str, np.ndarray] = {}
    for column in schema:
        if column.name not in here or column.kind == "constant":
            continue
        raw = here[column.name]
        if column.levels:
            texts = recognise(raw, "text")[1].tolist()
            values[column.name] = code(column.name, texts, column.levels)
        else:
            values[column.name] = recognise(raw, column.kind)[1]
        gaps = sum(value is None or value != value for value in values[column.name].tolist())
        columns.append(dataclasses.replace(column, gaps=gaps, question=""))
    return Table(Schema(tuple(columns)), values, name)


def schema_of(data: Any) -> Schema | None:
    """The schema of a table or a frame (of the inputs, if it comes with targets); None if its columns have no names."""
    if isinstance(data, tuple | list) and len(data) == 2:
        data = data[0]
    if isinstance(data, Table):
        return data.schema
    if not _is_frame(data) or not all(isinstance(name, str) for name in data.columns):
        return None
    return Schema(tuple(Column(name, "real") for name in data.columns))


def in_order(data: Any, schema: Schema | None, without: tuple[str, ...] = ()) -> Any:
    """A table or a frame with the columns of this schema, in that order, except those in `without`; other data as they
    are."""
    if schema is None or not (isinstance(data, Table) or (_is_frame(data) and schema_of(data) is not None)):
        return data
    names = [column.name for column in schema.used if column.name not in without]
    lacking = [name for name in names if name not in data.columns]
    if lacking:
        raise InvalidData(f"data lacks the column {lacking[0]!r}; its columns are {shortened(tuple(data.columns))}")
    return data.choose(names) if isinstance(data, Table) else data[names]


def _is_frame(data: Any) -> bool:
    return not isinstance(data, Table) and hasattr(data, "columns") and hasattr(data, "dtypes")


# ---- files ----------------------------------------------------------------------------------------------------


def _read_file(source: str | Path, words: frozenset[str], delimiter: str | None) -> tuple[list[Raw], list[str], str]:
    from .load import _content

    content, name = _content(source)
    if content[:4] == b"PAR1":
        return _from_frame(read_parquet(io.BytesIO(content), name), words), [], name
    if content[:4] == b"PK\x03\x04" or content.startswith((b"\x93NUMPY", b"\xd0\xcf\x11\xe0")):
        raise InvalidData(f"{name} is not a text file: save a spreadsheet as csv; arrays are read with numpy.load")
    text = decode(content, name)
    lines = [line for line in text.split("\n") if line.strip()]
    above = titles(lines, delimiter or "")
    mark = delimiter or find_delimiter(lines[above : above + LOOK])
    if len(mark) != 1:
        raise InvalidParameter(f"delimiter must be one character, got {delimiter!r}")
    numbered = list(rows(text, mark, name))[above:]
    names, cells, notes = _split_header(numbered, mark, name)
    notes += [f"left out the line {line.strip(mark + ' ')!r} above the names" for line in lines[:above]]
    dialect = Dialect(mark, find_decimal([cell for row in cells[:_ROWS] for cell in row], mark))
    notes = ([] if mark == "," else [f"cells are separated by {_NAMES.get(mark, repr(mark))}"]) + notes
    if dialect.decimal == ",":
        notes.append("numbers have a decimal comma")
    columns = zip(names, zip(*cells, strict=True), strict=True)
    return [from_cells(n, c, dialect, words, first=i == 0) for i, (n, c) in enumerate(columns)], notes, name


def _split_header(
    numbered: list[tuple[int, list[str]]], mark: str, name: str
) -> tuple[list[str], list[list[str]], list[str]]:
    """The names of the columns, the rows below them, and notes about both."""
    first, below = numbered[0][1], [row for _, row in numbered[1:]]
    if below and len(below[0]) == len(first) + 1:  # R writes no name above its row names
        first = ["", *first]
        numbered = [(numbered[0][0], first), *numbered[1:]]
    for line, row in numbered:
        if len(row) != len(first):
            many = mark == "," and len(row) > len(first)
            hint = "; a cell with a comma in it must stand in quotation marks" if many else ""
            raise InvalidData(f"line {line} of {name} has {len(row)} cells where the first line has {len(first)}{hint}")
    if not _is_header(first, below, mark):
        return [f"column {i + 1}" for i in range(len(first))], [first, *below], ["there is no line of names"]
    if not below:
        raise InvalidData(f"{name} has a header and no rows")
    names: list[str] = []
    notes: list[str] = []
    if _is_second_header(below, mark):
        first, said = _with_second_line(first, below[0])
        below, notes = below[1:], [said]
    for place, cell in enumerate(first):
        plain = cell if cell and not cell.startswith("Unnamed: ") else "row" if place == 0 else f"column {place + 1}"
        unique, again = plain, 1
        while unique in names:
            again += 1
            unique = f"{plain} ({again})"
        if unique != cell:
            what = f"is another {cell!r}" if cell in names else f"is named {cell!r}" if cell else "has no name"
            notes.append(f"column {place + 1} {what}: it is called {unique!r} here")
        names.append(unique)
    return names, below, notes


def _is_header(first: Sequence[str], below: Sequence[Sequence[str]], mark: str) -> bool:
    """Whether the first line names columns: it holds a word above numbers, or words that do not occur below it."""
    decimal = find_decimal([cell for row in below[:LOOK] for cell in row], mark)
    number = Dialect(mark, decimal).number
    worded = [place for place, cell in enumerate(first) if number(cell) is None]
    for place in worded:
        found = [number(row[place]) for row in below[:_ROWS]]
        if None not in found and any(value == value for value in found):
            return True
    return bool(worded) and not any(first[place] in {row[place] for row in below} for place in worded)


def _is_second_header(below: Sequence[Sequence[str]], mark: str) -> bool:
    """Whether the line below the names holds units or more names: words above numbers in two columns or more, and no
    number above numbers."""
    line, body = below[0], below[1 : _ROWS + 1]
    if len(body) < _BODY:
        return False
    number = Dialect(mark, find_decimal([cell for row in body[:LOOK] for cell in row], mark)).number
    words = 0
    for place, cell in enumerate(line):
        found = [number(row[place]) for row in body]
        if None in found or not any(value == value for value in found):
            continue
        here = number(cell)
        if here is not None and here == here:
            return False
        words += here is None and cell.lower() not in MISSING | NO_ANSWER
    return words >= 2


def _with_second_line(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], str]:
    """Names from two lines, and a note that says so: groups of columns above names (merged cells leave gaps), or names
    above units or longer descriptions."""
    filled = list(first)
    for place in range(1, len(filled)):
        filled[place] = filled[place] or (filled[place - 1] if second[place] else "")
    if len(set(filled)) < len(filled):
        both = [" ".join(filter(None, pair)) for pair in zip(filled, second, strict=True)]
        return both, f"the names stand in two lines: {both[-1]!r} is {first[-1] or filled[-1]!r} over {second[-1]!r}"
    if max(map(len, second)) > _UNIT:
        return list(first), f"left out the line below the names, which has no numbers: {shortened(tuple(second), 3)}"
    units = [f"{name} ({unit})" if unit else name for name, unit in zip(first, second, strict=True)]
    return units, "the line below the names holds units"


# ---- frames ---------------------------------------------------------------------------------------------------


def _from_frame(source: Any, words: frozenset[str]) -> list[Raw]:
    """The columns of a frame or of a dictionary."""
    if isinstance(source, Mapping):
        pairs = list(source.items())
    elif hasattr(source, "column_names") and hasattr(source, "schema"):  # pyarrow
        pairs = [(name, source[name]) for name in source.column_names]
    elif _is_frame(source):
        by_place = hasattr(source, "iloc")
        pairs = [(n, source.iloc[:, i] if by_place else source[n]) for i, n in enumerate(source.columns)]
    else:
        raise InvalidData(f"a table is a path, a frame or a dictionary of columns, got {type(source).__name__}")
    raws = [_from_series(str(name), series, first=place == 0) for place, (name, series) in enumerate(pairs)]
    raws = [without_gaps(raw, words) for raw in raws]
    lengths = {_length(raw) for raw in raws}
    if len(lengths) > 1:
        raise InvalidData(f"the columns must have as many values as each other, got {sorted(lengths)}")
    names = [raw.name for raw in raws]
    if len(set(names)) < len(names):
        raise InvalidData(f"two columns are called {next(n for n in names if names.count(n) > 1)!r}")
    return raws


def _from_series(name: str, series: Any, first: bool) -> Raw:
    declared = _declared(series)
    if declared is not None:
        levels = tuple(str(level) for level in declared[0])
        cells = [None if place is None or place < 0 else levels[place] for place in declared[1]]
        return Raw(name, cells=cells, levels=levels, ordered=declared[2], first=first)
    series = series.to_pylist() if hasattr(series, "to_pylist") else series
    array = np.asarray(series.to_list() if hasattr(series, "to_list") and not hasattr(series, "iloc") else series)
    if array.ndim != 1:
        raise InvalidData(f"column {name!r} must be a list of values, got shape {array.shape}")
    if array.dtype.kind == "M":
        days = array.astype("datetime64[us]").astype(np.float64) / 86400e6
        return Raw(name, numbers=np.where(np.isnat(array), np.nan, days), first=first, dated=True)
    if array.dtype.kind in "iuf":
        return Raw(name, numbers=array.astype(np.float64), first=first)
    if array.dtype.kind not in "bOUSTm":
        raise InvalidData(f"column {name!r} must hold numbers, words or dates, got {array.dtype}")
    return _from_objects(name, array.tolist(), first)


def _declared(series: Any) -> tuple[Sequence[Any], Sequence[int | None], bool] | None:
    """The levels of a categorical column, the place of each value among them, and whether they have an order."""
    kind: Any = getattr(series, "dtype", None)
    if hasattr(series, "cat") and hasattr(kind, "categories") and hasattr(series.cat, "codes"):  # pandas
        return series.cat.categories, np.asarray(series.cat.codes).tolist(), bool(series.cat.ordered)
    if type(kind).__name__ == "Enum" and hasattr(series, "to_physical"):  # polars
        return kind.categories.to_list(), series.to_physical().to_list(), True
    if hasattr(series, "unify_dictionaries") and hasattr(series.type, "ordered"):  # pyarrow
        whole = series.unify_dictionaries().combine_chunks()
        return whole.dictionary.to_pylist(), whole.indices.to_pylist(), bool(series.type.ordered)
    return None


def _from_objects(name: str, values: list[Any], first: bool) -> Raw:
    """A column of Python objects: numbers if all of them are numbers, else their texts."""
    kept = [None if value is None or _is_na(value) or value != value else value for value in values]
    seen = [value for value in kept if value is not None]
    if seen and all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in seen):
        return Raw(name, numbers=np.array([np.nan if v is None else float(v) for v in kept]), first=first)
    if seen and all(hasattr(value, "isoformat") for value in seen):
        stamps = np.array([np.datetime64("NaT") if v is None else np.datetime64(v) for v in kept])
        return _from_series(name, stamps.astype("datetime64[us]"), first)
    return Raw(name, cells=[None if value is None else str(value).strip() for value in kept], first=first)


def _is_na(value: Any) -> bool:
    return type(value).__name__ in ("NAType", "NaTType")


def _length(raw: Raw) -> int:
    return len(raw.cells) if raw.cells is not None else len(raw.numbers) if raw.numbers is not None else 0


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} must hold words, got {value!r}")
    return value
