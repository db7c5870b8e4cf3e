"""One reader for each kind of file."""

import csv
import gzip
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SPARSE = {"data", "format", "shape"}  # scipy.sparse.save_npz writes these, whatever the format
DAMAGED = (ValueError, OSError, EOFError, RuntimeError, csv.Error, zipfile.BadZipFile, zlib.error)


class MalformedDataset(ValueError):
    """A data file was found but cannot be read as what its name says it is."""


class Table(NamedTuple):
    values: NDArray[np.float64]
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]


def read_table(path: Path) -> Table:
    """The numeric columns of a csv file with a header; an empty cell is NaN, columns of text are only named.

    A column is text when none of its cells is a number. One stray word among numbers is an error instead:
    dropping the whole column for it would go unnoticed.
    """
    with _names_the_file(path):
        header, rows = _cells(path)
        text, columns, values = [], [], []
        for name, cells in zip(header, zip(*rows, strict=True), strict=True):
            numbers = [_number(cell) for cell in cells]
            words = [cell for cell, number in zip(cells, numbers, strict=True) if number is None]
            if not words:
                columns.append(name)
                values.append(numbers)
            elif len(words) == sum(bool(cell.strip()) for cell in cells):
                text.append(name)
            else:
                raise ValueError(f"column {name!r} holds numbers, but also {words[0]!r}")
        if not columns:
            raise ValueError("no column holds numbers")
    array = np.ascontiguousarray(np.array(values, dtype=np.float64).T)
    return Table(array, tuple(columns), tuple(text))


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [row for row in csv.reader(file) if row]
    if len(lines) < 2:
        raise ValueError("expected a header and at least one row")
    header, *rows = lines
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} cells, the header has {len(header)}")
    return header, rows


def _number(cell: str) -> float | None:
    """None when the cell is not a number."""
    if not cell.strip():
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None


def read_archive(path: Path) -> Any:
    """A SciPy CSR matrix if the npz file holds a sparse matrix, otherwise a dict of its arrays."""
    with _names_the_file(path):
        # Opened here, because np.load leaves the file open when it is not a zip file.
        with path.open("rb") as file, np.load(file) as archive:
            if not set(archive.files) >= SPARSE:
                return {key: archive[key] for key in archive.files}
        from scipy import sparse  # here, because only corpora need it

        return sparse.load_npz(path).tocsr()


def read_lines(path: Path) -> list[str]:
    """The lines of a compressed text file: a vocabulary, or titles."""
    with _names_the_file(path), gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


@contextmanager
def _names_the_file(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise MalformedDataset(f"cannot read {path.name}: {error}") from error


READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": lambda path: read_table(path).values,
    ".npz": read_archive,
    ".txt.gz": read_lines,
}
