"""Where texts come from: lists, folders, and columns of files and frames, read one after the other."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import DamagedFile, InvalidData, InvalidParameter
from .parquet import parquet_errors, require_pyarrow
from .text import DELIMITERS, Dialect, decode, find_encoding, split_line
from .tokenise import is_missing, split_words

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json")
_LOOK = 200  # rows that are inspected to find the column of texts
_HEAD = 1 << 16  # bytes that are inspected to find the encoding
_PROSE = 4  # fewest words of a cell that looks like text
_NONE = "\x1f"  # a delimiter that occurs in no text
_SUFFIXES = ((".txt",), (".md", ".rst", ".html", ".htm"))  # of a folder's files: the first group that occurs


class Texts(NamedTuple):
    """Texts, which can be read once, and notes about their source."""

    texts: Iterable[Any]
    notes: tuple[str, ...] = ()


class Columns(NamedTuple):
    """A table one of whose columns holds texts."""

    name: str
    sample: Mapping[str, Sequence[Any]]  # the first cells of each column
    texts: Callable[[str], Iterator[Any]]  # name of a column → all its cells


def open_texts(source: Any, column: str | None = None) -> Texts:
    """Texts from any source that `read_texts` accepts."""
    if isinstance(source, str | Path):
        return _open_path(Path(source), column)
    if isinstance(source, Mapping) or (hasattr(source, "columns") and hasattr(source, "dtypes")):
        return _choose(_frame(source), column)
    if column is not None:
        raise InvalidParameter(f"column is for files and frames, and the texts are {type(source).__name__}")
    if len(getattr(source, "shape", (0,))) != 1 or hasattr(source, "tocsr"):
        raise InvalidData(f"texts must be a list of strings, got an array of shape {source.shape}")
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise InvalidData(f"texts must be a list of strings, a folder or a file, got {type(source).__name__}")
    return Texts(source)


def values_beside(path: Path, column: str | None = None) -> dict[str, list[Any]]:
    """The cells of all columns of a file except the column of texts, in the order of the texts; as numbers if all cells
    of a column are. Columns with lists or records for cells are left out."""
    if path.is_dir() or _kind(path) not in TABLES:
        return {}
    columns = _columns(path, _kind(path))
    chosen = _text_column(columns) if column is None else column
    beside = {str(name): _as_numbers(list(columns.texts(name))) for name in columns.sample if name != chosen}
    return {name: cells for name, cells in beside.items() if not any(isinstance(cell, list | dict) for cell in cells)}


def _as_numbers(cells: list[Any]) -> list[Any]:
    """The cells as numbers if all of them are numbers, else as they are."""
    if not all(isinstance(cell, str) for cell in cells):
        return cells
    numbers = Dialect(",").numbers(cells)
    return cells if None in numbers or all(number != number for number in numbers) else numbers


def has_text(source: Any) -> bool:
    """Whether a frame has a column of texts."""
    if not (hasattr(source, "columns") and hasattr(source, "dtypes")):
        return False
    return any(_is_text(cells) for cells in _frame(source).sample.values())


def looks_like_texts(path: Path) -> bool:
    """Whether a file or folder holds texts and not counts of words; one that holds neither is refused."""
    if path.is_dir():
        return not (path / "corpus.json").is_file()
    kind = _kind(path)
    if kind in (".csv", ".tsv", ".parquet"):
        columns = _columns(path, kind)
        if any(_is_text(cells) for cells in columns.sample.values()):
            return True
        if all(_is_number(cell) for cells in columns.sample.values() for cell in cells):
            return False
        return bool(_text_column(columns))
    if kind == ".txt":
        with _lines(path) as file:
            first = next((line for line in file if line.strip()), "")
        return not (first[:1].isdigit() or first.startswith("%%MatrixMarket"))
    return kind in TABLES


def _open_path(path: Path, column: str | None) -> Texts:
    if path.is_dir():
        return _folder(path)
    texts = _open_file(path, column)
    return texts._replace(notes=(*texts.notes, *_of_encoding(path)))


def _open_file(path: Path, column: str | None) -> Texts:
    if not path.is_file():
        raise InvalidData(f"there is no file or folder {str(path)[:80]!r}; a text by itself must be in a list")
    kind = _kind(path)
    if kind in TABLES:
        return _choose(_columns(path, kind), column)
    if column is not None:
        raise InvalidParameter(f"{path.name} has no columns: it is not a csv, parquet or JSON-lines file")
    if kind not in (".txt", ""):
        raise InvalidData(
            f"{path.name} is not a file of texts: these end in .txt, {', '.join(TABLES)}, or .gz after that"
        )
    with _lines(path) as file:  # before the first text is asked for
        next(file, None)
    return Texts(_plain_lines(path), (f"each line of {path.name} is a document",))


def _of_encoding(path: Path) -> Iterator[str]:
    if _kind(path) == ".parquet":
        return
    with _binary(path) as file:
        piece = file.read(_HEAD)
        decoder = codecs.getincrementaldecoder(find_encoding(piece))()
        try:
            while piece:
                decoder.decode(piece)
                piece = file.read(_HEAD)
        except UnicodeDecodeError:
            yield f"{path.name} is not UTF-8: it was read as Windows' Latin alphabet (cp1252)"


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return (suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:] or [""])[0] if suffixes else ""


def _folder(path: Path) -> Texts:
    for suffixes in _SUFFIXES:
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in suffixes and file.is_file())
        if files:
            kinds = " and ".join(dict.fromkeys(file.suffix.lower() for file in files))
            return Texts(
                map(_whole, files), (f"{len(files):,} {kinds} files of {path.name}, in the order of their names",)
            )
    raise InvalidData(f"the folder {str(path)!r} has no .txt files, and no .md, .rst or .html either")


def _whole(path: Path) -> str:
    content = path.read_bytes()
    return decode(content, path.name) if content.strip() else ""


def _plain_lines(path: Path) -> Iterator[str]:
    with _lines(path) as file:
        yield from (line for line in file if line.strip())


# ---- one of several columns -------------------------------------------------------------------------------------


def _choose(columns: Columns, column: str | None) -> Texts:
    chosen = _text_column(columns) if column is None else column
    if chosen not in columns.sample:
        raise InvalidParameter(
            f"column {chosen!r} is not in {columns.name}; its columns are {', '.join(map(str, columns.sample))}"
        )
    cells = [cell for cell in columns.sample[chosen] if not is_missing(cell) and cell != ""]
    if cells and all(_is_number(cell) for cell in cells):
        raise InvalidData(f"column {chosen!r} of {columns.name} holds numbers, not texts")
    note = f"texts are the column {chosen!r} of {columns.name}"
    return Texts(columns.texts(chosen), (note,) if len(columns.sample) > 1 else ())


def _text_column(columns: Columns) -> str:
    """The only column that looks like text, or the only column of all if it holds words."""
    names = list(columns.sample)
    found = [name for name, cells in columns.sample.items() if _is_text(cells)]
    if len(names) == 1 and not all(_is_number(cell) for cell in columns.sample[names[0]]):
        return names[0]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(map(str, found or names))
    what = f"{len(found)} columns of {columns.name} look" if found else f"no column of {columns.name} looks"
    raise InvalidData(f"{what} like text: name the one to be read with --text (in Python, column=…), one of {listed}")


def _is_text(cells: Sequence[Any]) -> bool:
    """Whether most cells are several words, and most of these differ."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    long = sum(sum(any(map(str.isalpha, word)) for word in split_words(text[:400])) >= _PROSE for text in texts)
    return bool(texts) and long * 2 > len(texts) and len(set(texts)) * 2 > len(texts)


def _is_number(cell: Any) -> bool:
    if isinstance(cell, list | dict):
        return False
    return not isinstance(cell, str) or Dialect(",").number(cell) is not None


# ---- files and frames -------------------------------------------------------------------------------------------


def _columns(path: Path, kind: str) -> Columns:
    if kind == ".parquet":
        return _parquet(path)
    return _delimited(path, kind) if kind in (".csv", ".tsv") else _json(path)


def _frame(source: Any) -> Columns:
    def cells(name: str) -> Iterator[Any]:
        return iter(source[name])

    names = list(source) if isinstance(source, Mapping) else list(source.columns)
    return Columns("the frame", {name: list(itertools.islice(cells(name), _LOOK)) for name in names}, cells)


def _delimited(path: Path, kind: str) -> Columns:
    with _lines(path) as file:
        first = next((line for line in file if line.strip()), "").rstrip("\r\n")
    if not first:
        raise InvalidData(f"{path.name} is empty")
    counts = {mark: len(split_line(first, mark)) for mark in DELIMITERS}
    best = max(reversed(DELIMITERS), key=counts.__getitem__)
    mark = "\t" if kind == ".tsv" else best if counts[best] > 1 else _NONE
    names = [cell.strip() for cell in split_line(first, mark)]
    headed = not any(_is_number(name) and name for name in names) and not _is_text([name for name in names if name])
    names = [n if headed and n else f"column {place}" for place, n in enumerate(names, 1)]

    def rows() -> Iterator[list[str]]:
        with _lines(path) as file:
            largest = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # texts may be long
            try:
                reader = csv.reader(file, delimiter=mark, skipinitialspace=True)
                filled = (row for row in reader if len(row) > 1 or any(cell.strip() for cell in row))
                for row in itertools.islice(filled, 1 if headed else 0, None):
                    if len(row) != len(names):
                        raise InvalidData(
                            f"line {reader.line_num} of {path.name} has {len(row)} cells where the first line has "
                            f"{len(names)}; a text that holds {mark!r} must be in quotation marks"
                        )
                    yield row
            except csv.Error as error:
                raise DamagedFile(f"line {reader.line_num} of {path.name} cannot be read: {error}") from error
            finally:
                csv.field_size_limit(largest)

    sample = list(itertools.islice(rows(), _LOOK))
    if not sample:
        raise InvalidData(f"{path.name} has a header and no rows")
    cells = dict(zip(names, zip(*sample, strict=True), strict=True))
    return Columns(path.name, cells, lambda column: (row[names.index(column)] for row in rows()))


def _json(path: Path) -> Columns:
    """Read one record (or text) per line, or a list of records; nested fields become columns such as "content.body"."""

    def records() -> Iterator[Any]:
        with _lines(path) as file:
            number = 1
            try:
                first, second = (next((line for line in file if line.strip()), "") for _ in range(2))
                if first and not (second and _is_json(first)):
                    yield from map(_flat, _records_of(json.loads("".join([first, second, *file]))))
                    return
                for number, line in enumerate(itertools.chain([first, second], file), 1):  # noqa: B007
                    if line.strip():
                        yield _flat(json.loads(line))
            except (json.JSONDecodeError, RecursionError) as error:
                why = error.msg if isinstance(error, json.JSONDecodeError) else "its lists are nested too deeply"
                raise DamagedFile(f"record {number} of {path.name} is damaged or no JSON: {why}") from error

    sample = list(itertools.islice(records(), _LOOK))
    if not sample:
        raise InvalidData(f"{path.name} is empty")
    if not all(isinstance(record, dict) for record in sample):
        return Columns(path.name, {"text": sample}, lambda column: records())
    names = dict.fromkeys(name for record in sample for name in record)
    cells = {name: [record.get(name) for record in sample] for name in names}
    return Columns(path.name, cells, lambda column: (record.get(column) for record in records()))


def _records_of(value: Any) -> list[Any]:
    """The records of a list, or of an object that holds one list of records among other things."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    lists = [each for each in value.values() if isinstance(each, list) and each and isinstance(each[0], dict)]
    return lists[0] if len(lists) == 1 else [value]


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return False
    return True


def _flat(record: Any) -> Any:
    """A record with nested fields made flat, with names such as "content.body"."""
    if not isinstance(record, dict) or not any(isinstance(value, dict) for value in record.values()):
        return record
    found: dict[str, Any] = {}
    for name, value in record.items():
        inner = _flat(value)
        found |= {f"{name}.{key}": each for key, each in inner.items()} if isinstance(inner, dict) else {name: value}
    return found


def _parquet(path: Path) -> Columns:
    with parquet_errors(path.name):
        file = require_pyarrow(path.name).parquet.ParquetFile(path)

    def cells(column: str) -> Iterator[Any]:
        with parquet_errors(path.name):
            for batch in file.iter_batches(batch_size=1024, columns=[column]):
                batch.validate(full=True)
                yield from batch.column(0).to_pylist()

    names = file.schema_arrow.names
    return Columns(path.name, {name: list(itertools.islice(cells(name), _LOOK)) for name in names}, cells)


@contextlib.contextmanager
def _lines(path: Path) -> Iterator[IO[str]]:
    """The text of a file, plain or .gz, line by line. Bytes that are not UTF-8 are read as Windows' Latin alphabet."""
    try:
        with _binary(path) as file:
            head = file.read(_HEAD)
        if head.strip():
            decode(head[: len(head) // 4 * 4] if len(head) == _HEAD else head, path.name)  # refuses binary files
        with io.TextIOWrapper(_binary(path), find_encoding(head), errors=_LATIN, newline="") as text:
            yield text
    except UnicodeError as error:
        raise InvalidData(f"{path.name} is neither text nor a known kind of file: its bytes are no letters") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedFile(f"{path.name} is damaged or cut short: {error}") from error


def _binary(path: Path) -> Any:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _as_latin(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError) or error.encoding != "utf-8":
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


_LATIN = "temperance-latin"
codecs.register_error(_LATIN, _as_latin)
