"""Files as users have them: csv, parquet, npy, npz, Matrix Market and corpora, from a path, standard input ("-") or
the name of a data set. The format is detected from the first bytes; the name only decides between kinds of text."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import itertools
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DamagedFile, InvalidData, InvalidParameter
from .corpus import Corpus, as_corpus
from .excel import csv_of_excel, is_excel
from .gate import check_sparse
from .memory import require_memory
from .npy import parse_npy
from .npz import BROKEN_ARCHIVE, is_sparse, listed, parse_npz, sparse_matrix
from .parquet import parquet_errors, read_parquet, require_pyarrow
from .recognise import Raw, from_cells, numbers_of, recognise, words_for
from .text import DELIMITERS, LOOK, Dialect, decode, find_decimal, find_delimiter, rows, split_line
from .text_sources import looks_like_texts, open_texts

_PIECE = 1 << 24  # bytes


class Table(NamedTuple):
    """Columns of numbers, NaN where a cell is empty."""

    values: np.ndarray  # (n, d) float64
    columns: tuple[str, ...]
    left_out: tuple[str, ...] = ()  # columns of text
    name: str = "data"
    texts: tuple[Raw, ...] = ()  # the columns of text as they were read
    written: bool = False  # read from a csv or parquet file, in which columns may be ids or constants

    def choose(self, columns: str | Sequence[str] | None) -> Table:
        """Some of the columns, by name, number (from 1) or range of numbers such as "2:4"."""
        if columns is None:
            return self
        asked = columns.split(",") if isinstance(columns, str) else list(columns)
        chosen = [index for item in asked for index in self._find(item.strip())]
        return self._replace(
            values=self.values[:, chosen], columns=tuple(self.columns[i] for i in chosen), left_out=(), texts=()
        )

    def _find(self, item: str) -> list[int]:
        if item in self.columns:
            return [self.columns.index(item)]
        first, colon, last = item.partition(":")
        if first.isdigit() and (last.isdigit() or not colon):
            low, high = int(first), int(last or first)
            if 1 <= low <= high <= len(self.columns):
                return list(range(low - 1, high))
        why = "holds text" if item in self.left_out else "is not there"
        names = ", ".join(self.columns[:12]) + (", …" if len(self.columns) > 12 else "")
        raise InvalidParameter(f"column {item!r} of {self.name} {why}; its {len(self.columns)} columns are {names}")


def load_table(
    source: str | Path,
    *,
    columns: str | Sequence[str] | None = None,
    array: str | None = None,
    delimiter: str = "",
    missing: frozenset[str] = frozenset(),
) -> Table:
    """A table of numbers. `array` names one of several arrays in an npz file, `delimiter` separates the cells of a text
    file (detected by default), `missing` holds further cells, in lower case, that stand for a missing value."""
    from .. import datasets

    if _dataset_name(source):
        values = datasets.load(str(source))
        if isinstance(values, np.ndarray):
            description = datasets.describe(str(source))
            return Table(values, description.columns, (), str(source)).choose(columns)
        return _dense(values, str(source), array).choose(columns)
    content, name = _content(source)
    return _parse(content, name, array, delimiter, missing).choose(columns)


def load_corpus(
    source: str | Path,
    *,
    vocabulary: str | Path | None = None,
    column: str | None = None,
    language: str | None = "english",
    tables: bool = True,
) -> Corpus:
    """Documents: texts (`read_texts`, with `column` and `language`), or counts of words as LDA-C, UCI, Matrix Market, a
    sparse npz, or (unless `tables` is False) a table of counts with a column for each word."""
    from .. import datasets
    from .corpus_files import read_corpus, read_vocabulary
    from .texts import count_texts, read_texts

    words = None if vocabulary is None else read_vocabulary(_existing(vocabulary))
    with documents_of(source, column) as path:
        if path is not None:
            if words is not None:
                return count_texts(open_texts(path, column).texts, words)
            return read_texts(path, column, language=language)
    if _dataset_name(source):
        name = str(source)
        if words is None and f"{name}.vocab" in datasets.names():
            words = datasets.load(f"{name}.vocab")
        return as_corpus(datasets.load(name), vocabulary=words)
    if str(source) != "-" and Path(source).is_dir():
        return read_corpus(source, vocabulary=words)
    content, name = _content(source)
    if _is_table(content, name):
        if not tables:
            raise InvalidData(_no_texts(_parse(content, name, None, "")))
        table, notes = _without_ids(_parse(content, name, None, ""))
        named = not table.columns[0].startswith("column ")
        corpus = as_corpus(table.values, vocabulary=words or (table.columns if named else None))
        taken = f"each of its {len(table.columns)} columns counts as a word, and its numbers as counts of it"
        return dataclasses.replace(corpus, report=(*notes, f"{name} holds no text: {taken}"))
    if str(source) != "-":
        return read_corpus(source, vocabulary=words)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / ("input.npz" if content[:2] == b"PK" else "input.txt")
        copy.write_bytes(content)
        return read_corpus(copy, vocabulary=words)


@contextlib.contextmanager
def in_a_file(source: str | Path) -> Iterator[str]:
    """The source; standard input is copied to a temporary file, so that it can be read more than once."""
    if str(source) != "-":
        yield str(source)
        return
    content, _ = _content(source)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"standard-input{_ending(content)}"
        copy.write_bytes(content)
        yield str(copy)


def _ending(content: bytes) -> str:
    """The kind of a file by its content: the first line of a csv file has several short names."""
    if content[:4] == b"PAR1":
        return ".parquet"
    if content[:2] == b"PK":
        return ".npz"
    if content[:1] in b"[{":
        return ".jsonl"
    first = content.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace")
    cells = max((split_line(first, mark) for mark in DELIMITERS), key=len)
    named = len(cells) > 1 and all(cell.strip() and len(cell.split()) <= 2 for cell in cells)
    return ".csv" if named else ".txt"


@contextlib.contextmanager
def documents_of(source: str | Path, column: str | None = None) -> Iterator[Path | None]:
    """The path of a source of texts (a temporary file for standard input), or None if it holds no texts."""
    if _dataset_name(source):
        yield None
    elif str(source) == "-" and column is not None:
        with in_a_file(source) as copy:
            yield Path(copy)
    elif str(source) == "-":
        yield None
    else:
        path = Path(source) if Path(source).is_dir() else _existing(source)
        yield path if column is not None or looks_like_texts(path) else None


def _no_texts(table: Table) -> str:
    gaps = np.isnan(table.values).all(axis=0)
    if gaps.any():
        empty = ", ".join(name for name, gap in zip(table.columns, gaps, strict=True) if gap)
        others = "" if gaps.all() else ", and the others hold numbers"
        return f"{table.name} has no column of text: no cell of {empty} is filled{others}"
    names = ", ".join(table.columns[:6]) + (", …" if len(table.columns) > 6 else "")
    return (
        f"{table.name} has no column of text, only numbers ({names}); if they are counts of words, one word a column, "
        "use temperance fit --model topics"
    )


def _without_ids(table: Table) -> tuple[Table, tuple[str, ...]]:
    """A table of counts without the columns that only name the rows, and a note on each column left out."""
    raws = [Raw(name, numbers=table.values[:, i], first=i == 0) for i, name in enumerate(table.columns)]
    found = {raw.name: column for raw in raws if (column := recognise(raw)[0]).kind == "id"}
    kept = [name for name in table.columns if name not in found]
    if not kept:
        raise InvalidData(f"{table.name} has no counts of words: {table.columns[0]!r} only names the rows")
    notes = tuple(f"left out the column {name!r}: {column.reason}" for name, column in found.items())
    return (table.choose(kept) if found else table), notes


def _dataset_name(source: str | Path) -> bool:
    from .. import datasets

    return str(source) != "-" and not Path(source).exists() and str(source) in datasets.names()


def _existing(source: str | Path) -> Path:
    path = Path(source)
    if path.is_dir():
        raise InvalidData(f"{str(path)!r} is a folder, not a file")
    if not path.is_file():
        from .. import datasets

        bundled = ", ".join(datasets.names()[:8])
        raise InvalidData(f"there is no file {str(path)!r}, and no data set of that name (there are {bundled})")
    return path


def _content(source: str | Path) -> tuple[bytes, str]:
    if str(source) == "-":
        content, name = sys.stdin.buffer.read(), "standard input"
    else:
        path = _existing(source)
        content, name = path.read_bytes(), path.name
    if content[:2] == b"\x1f\x8b":
        content = _unpacked(content, name)
    if not content.strip():
        raise InvalidData(f"{name} is empty")
    return csv_of_excel(content, name) if is_excel(content) else (content, name)


def _unpacked(content: bytes, name: str) -> bytes:
    """The content of a .gz file, unpacked piece by piece, because it may be a thousand times larger."""
    pieces, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while piece := file.read(_PIECE):
                pieces.append(piece)
                size += len(piece)
                require_memory(4 * size, f"{name}, unpacked,")
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFile(f"{name} is damaged or cut short: {error}") from error
    return b"".join(pieces)


def _is_table(content: bytes, name: str) -> bool:
    """Whether a file for a corpus is a table of counts instead."""
    if content[:4] in (b"PAR1", b"\x93NUM"):
        return True
    if content[:2] == b"PK" or content.startswith(b"%%MatrixMarket"):
        return False
    return name.removesuffix(".gz").endswith((".csv", ".tsv"))


def _parse(
    content: bytes, name: str, array: str | None, delimiter: str, missing: frozenset[str] = frozenset()
) -> Table:
    if content.startswith(b"\x93NUMPY"):
        return _dense(_npy(content, name), name, array)
    if content[:4] == b"PK\x03\x04":
        return _dense(_npz(content, name, array), name, array)
    if content[:4] == b"PAR1":
        return _parquet(content, name)
    if content.startswith(b"%%MatrixMarket"):
        return _dense(_market(content, name), name, array)
    return _read_csv(content, name, delimiter, missing)


def _npy(content: bytes, name: str) -> np.ndarray:
    try:
        return parse_npy(content)
    except (ValueError, EOFError) as error:
        raise DamagedFile(f"{name} is damaged or cut short: {error}") from error


def _npz(content: bytes, name: str, array: str | None) -> Any:
    try:
        arrays = parse_npz(content, array)
        return sparse_matrix(arrays, name) if is_sparse(arrays) else arrays
    except InvalidData:
        raise
    except BROKEN_ARCHIVE as error:
        raise DamagedFile(f"{name} is damaged or cut short: {error}") from error


def _market(content: bytes, name: str) -> Any:
    from scipy.io import mmread

    lines = (line.split() for line in content.split(b"\n") if line.strip() and not line.startswith(b"%"))
    sizes = [int(size) for size in next(lines, []) if size.isdigit() and len(size) < 19]
    # An entry takes two digits at least, a space and the end of a line; a value of a dense triangle half as much.
    if (len(sizes) == 3 and 4 * sizes[2] > len(content)) or (len(sizes) == 2 and sizes[0] * sizes[1] > len(content)):
        raise DamagedFile(f"{name} is damaged or cut short: it announces the sizes {sizes} in {len(content)} bytes")
    if len(sizes) == 3:
        require_memory(8 * max(sizes[0] * sizes[1], sum(sizes)), f"{name}, a table of {sizes[0]} × {sizes[1]},")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the kind of sparse matrix, which does not matter
            return mmread(io.BytesIO(content))
    except (ValueError, OverflowError, TypeError) as error:
        raise DamagedFile(f"{name} is damaged or cut short: {error}") from error


def _dense(found: Any, name: str, array: str | None) -> Table:
    """A table from the content of a binary file."""
    from .arrays import as_numbers

    if isinstance(found, dict):
        if not found:
            raise InvalidData(f"{name} holds no array")
        if array is None and len(found) > 1:
            raise InvalidParameter(f"{name} holds several arrays: name one of {listed(found)} with --array")
        if array is not None and array not in found:
            raise InvalidParameter(f"{name} holds no array {array!r}, only {listed(found)}")
        found = next(iter(found.values())) if array is None else found[array]
    if hasattr(found, "toarray"):
        check_sparse(found, name)
        require_memory(8 * found.shape[0] * found.shape[1], f"{name}, a table of {found.shape[0]} × {found.shape[1]},")
        found = found.toarray()
    values = as_numbers(found, name)
    if values.ndim > 2:
        values = values.reshape((len(values), -1))
    if values.ndim < 2:
        values = values.reshape((-1, 1))
    return Table(values, tuple(f"column {i}" for i in range(1, values.shape[1] + 1)), (), name)


def _parquet(content: bytes, name: str) -> Table:
    arrow = require_pyarrow(name)
    table = read_parquet(io.BytesIO(content), name)
    kinds = arrow.types
    numeric: list[str] = []
    text: list[str] = []
    for field in table.schema:
        number = kinds.is_integer(field.type) or kinds.is_floating(field.type) or kinds.is_boolean(field.type)
        (numeric if number else text).append(field.name)
    if not numeric:
        raise InvalidData(f"no column of {name} holds numbers")
    with parquet_errors(name):
        columns = [table[each].cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False) for each in numeric]
        words = [[None if cell is None else str(cell) for cell in table[each].to_pylist()] for each in text]
    raws = tuple(Raw(column, cells=cells) for column, cells in zip(text, words, strict=True))
    return Table(np.stack(columns, axis=1), tuple(numeric), tuple(text), name, raws, written=True)


def _read_csv(content: bytes, name: str, delimiter: str, missing: frozenset[str]) -> Table:
    text = decode(content, name)
    lines = text.split("\n")
    between = delimiter or find_delimiter(_first(lines))
    if len(between) != 1:
        raise InvalidParameter(f"delimiter must be one character, got {delimiter!r}")
    first = split_line(_first(lines)[0], between)
    dialect = Dialect(between)
    named = any(dialect.number(cell) is None for cell in first)
    try:
        # Fast, and right whenever every cell is a number.
        where = lines.index(_first(lines)[0]) + 1 if named else 0
        values = np.loadtxt(lines[where:], delimiter=None if between == " " else between, ndmin=2, comments=None,
                            quotechar='"')  # fmt: skip
        if values.shape[1] == len(first) and len(values) and not missing:
            return Table(values, _names(first, named), (), name, written=True)
    except (ValueError, UserWarning):
        pass
    return _careful_csv(text, between, name, missing)


def _first(lines: list[str]) -> list[str]:
    """The first lines that hold anything."""
    return list(itertools.islice((line for line in lines if line.strip()), LOOK))


def _names(first: Sequence[str], named: bool) -> tuple[str, ...]:
    return tuple(cell if named and cell else f"column {i + 1}" for i, cell in enumerate(first))


def _careful_csv(text: str, between: str, name: str, missing: frozenset[str]) -> Table:
    """Read a csv file cell by cell: this allows empty cells, columns of text and decimal commas, and finds the cell
    that is wrong."""
    (_, first), *numbered = rows(text, between, name)
    cells = [row for _, row in numbered]
    dialect = Dialect(between, find_decimal([cell for row in cells[:1000] for cell in row], between))
    named = any(dialect.number(cell) is None for cell in first)
    if not named:
        cells = [first, *cells]
    elif not cells:
        if len(first) == 1 and any(other in first[0] for other in DELIMITERS):
            raise InvalidData(f"{name} has a single line, {first[0]!r}, and no rows")
        raise InvalidData(f"{name} has a header and no rows")
    if named and len(cells[0]) == len(first) + 1:  # row names, as R writes them
        first = ["row", *first]
    hint = f"; is {between!r} the right delimiter?" if len(first) == 1 else ""
    for number, row in numbered:
        if len(row) != len(first):
            raise InvalidData(
                f"line {number} of {name} has {len(row)} cells where the first line has {len(first)}{hint}"
            )
    numeric, values = [], []
    texts: list[Raw] = []
    for column, entries in zip(_names(first, named), zip(*cells, strict=True), strict=True):
        numbers, _ = numbers_of(entries, dialect, words_for(column, missing))
        wrong = [index for index, number in enumerate(numbers) if number is None]
        if not wrong:
            numeric.append(column)
            values.append(numbers)
        elif any(number is not None and not np.isnan(number) for number in numbers):
            found = f"{entries[wrong[0]][:40]!r} in row {wrong[0] + 1}"
            raise InvalidData(f"column {column!r} of {name} holds numbers, but {found}{hint}")
        else:
            texts.append(from_cells(column, entries, dialect, missing, first=not numeric and not texts))
    if not numeric:
        raise InvalidData(f"no column of {name} holds numbers: the first cell is {cells[0][0][:40]!r}{hint}")
    left_out = tuple(raw.name for raw in texts)
    return Table(np.array(values, dtype=np.float64).T.copy(), tuple(numeric), left_out, name, tuple(texts), True)
