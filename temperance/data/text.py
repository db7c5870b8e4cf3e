"""Text files as people have them: how they are encoded, what separates their cells, how they write numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import InvalidData
from ._patterns import pattern

# Cells that mean a missing value. "none" is not among them, because in a column of words it is a word.
MISSING = frozenset({
    "", "na", "n/a", "#n/a", "<na>", "nan", "null", "?", "-", ".", "--", "..", "#value!", "#ref!", "#div/0!",
})  # fmt: skip
MISSING_NUMBERS = MISSING | {"none"}
# Answers without a value: gaps among numbers and in scales, and a category among categories.
NO_ANSWER = frozenset({
    "don't know", "dont know", "do not know", "no answer", "no response", "not applicable", "not available",
    "not stated", "refused", "prefer not to say", "unknown", "missing", "n.a.", "n. a.", "n.d.", "nd", "n/d", "s/d",
    "k.a.", "k. a.", "keine angabe", "weiß nicht", "nil",
})  # fmt: skip
DELIMITERS = ("\t", ";", "|", ",")  # the comma is last, because it may be a decimal point
LOOK = 20  # lines that are inspected to find the delimiter
_CONTROLS = pattern(r"[\x00-\x08\x0e-\x1f]")
_STRAY, _SOME = 1e-3, 100_000  # largest share of stray characters in texts; characters that are inspected
_NUMBER = pattern(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE | re.ASCII)
_MONEY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF)"
_MARKED = pattern(rf"([+-]?)\s?{_MONEY}?\s?([+-]?[\d.,'\u2019\u00a0\u202f ]*\d\.?)\s?(?:{_MONEY}|%)?", re.ASCII)
_WITH_UNIT = pattern(r"([+-]?[\d.,]*\d)\s?([^\W\d_°‰][^\s\d]{0,7}|[°‰][^\s\d]{0,7})")
_SPACED = pattern(r'"([^"]*+(?:""[^"]*+)*)"|(\S+)')  # without a choice at each letter, which would be remembered
_MARKS = " \u00a0\u202f'\u2019"  # marks between groups of three digits, besides the point and the comma
_GROUPS = pattern(rf"[+-]?\d{{1,3}}([{_MARKS}]\d{{3}})+([.,]\d*)?", re.ASCII)
_COMMA = pattern(rf"[+-]?(\d*|\d{{1,3}}([.{_MARKS}]\d{{3}})+),\d+([eE][+-]?\d+)?", re.ASCII)


class Dialect(NamedTuple):
    """The delimiter of cells (a space stands for any run of spaces), and the decimal point."""

    delimiter: str
    decimal: str = "."

    def number(self, cell: str) -> float | None:
        """The number in a cell: NaN where it has no value, None where it holds something else."""
        cell = cell.strip()
        if cell.lower() in MISSING_NUMBERS:
            return float("nan")
        if _NUMBER.fullmatch(cell) and self.decimal == ".":
            return float(cell)
        cell = bare(cell)
        if _GROUPS.fullmatch(cell):
            cell = re.sub(f"[{_MARKS}]", "", cell)
        grouped, plain = (r"\.", ",") if self.decimal == "," else (",", r"\.")
        if re.fullmatch(rf"[+-]?\d{{1,3}}({grouped}\d{{3}})+({plain}\d*)?", cell, re.ASCII):
            cell = re.sub(grouped, "", cell)
        if self.decimal == ",":
            if "." in cell:
                return None
            cell = cell.replace(",", ".")
        return float(cell) if _NUMBER.fullmatch(cell) else None

    def numbers(self, cells: Sequence[str]) -> list[float | None]:
        """The numbers in many cells."""
        filled = [cell or "nan" for cell in cells]
        if self.decimal == "." and not any("_" in cell for cell in filled):  # Python would read underscores
            try:
                return np.array(filled, dtype=np.float64).tolist()  # fast, and right if every cell is a number
            except ValueError:
                pass
        distinct = {cell: self.number(cell) for cell in set(cells)}
        return [distinct[cell] for cell in cells]


def bare(cell: str) -> str:
    """The number in a cell without a currency or per cent sign: "1,234.50" for "$1,234.50"."""
    found = _MARKED.fullmatch(cell.strip())
    return found[1] + found[2] if found else cell


def without_unit(cells: Sequence[str]) -> tuple[list[str], str] | None:
    """Cells such as "12.5 kg" without the unit, and the unit, if all cells that are not empty share one; else None."""
    found = [_WITH_UNIT.fullmatch(cell) if cell else None for cell in cells]
    units = {match[2] for match in found if match}
    whole = all(match or not cell for cell, match in zip(cells, found, strict=True))
    if len(units) != 1 or len(set(cells)) <= 10 or not whole:
        return None
    return [match[1] if match else "" for match in found], units.pop()


def decode(content: bytes, name: str) -> str:
    """The text of a file, decoded as UTF-8, UTF-16 or else, if it looks like a Western language, as Windows-1252. Stray
    control characters in prose become spaces."""
    encoding = find_encoding(content)
    tried = (encoding,) if encoding != "utf-8-sig" else (encoding, "cp1252", "latin-1")
    for encoding in tried:
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError as error:
            failure = error
    else:
        raise InvalidData(f"{name} is neither text nor a known kind of file (byte {failure.start} is no {encoding})")
    if not text.strip('\ufeff" \t\r\n\f\v'):
        raise InvalidData(f"{name} is empty")
    if (odd := _CONTROLS.search(text)) and _is_prose(text):
        text = _CONTROLS.sub(" ", text)
    elif odd:
        line = text.count("\n", 0, odd.start()) + 1
        raise InvalidData(
            f"{name} is neither text nor a known kind of file (line {line} holds the character {ord(odd[0])})"
        )
    if encoding in ("cp1252", "latin-1") and not _is_western(content):
        raise InvalidData(f"the encoding of {name} is neither UTF-8 nor that of a Western language: save it as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_prose(text: str) -> bool:
    """Whether the control characters are few enough to be strays in prose, as texts that were copied have them."""
    some = text[:_SOME]
    odd = len(_CONTROLS.findall(text))
    return "\0" not in text and odd <= _STRAY * len(text) and 2 * sum(map(str.isalpha, some)) > len(some)


def _is_western(content: bytes) -> bool:
    """Whether plain Latin letters outnumber the others; a text in another alphabet has hardly any plain ones."""
    letters = np.frombuffer(content, np.uint8)
    return int((letters >= 128).sum()) <= int(np.isin(letters | 32, np.arange(97, 123)).sum())


def find_encoding(content: bytes) -> str:
    """UTF-16, by its mark or by the zeros between Latin letters, or else UTF-8."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if content[1:40:2].count(0) > len(content[1:40:2]) // 2:
        return "utf-16-le"
    return "utf-16-be" if content[0:40:2].count(0) > len(content[0:40:2]) // 2 else "utf-8-sig"


def find_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that splits all lines into equally many cells, and into the most; if there is none, the one that
    splits the first line into the most."""
    lines = [line for line in lines if line.strip()]
    sizes = {mark: [len(split_line(line, mark)) for line in lines] for mark in DELIMITERS}
    even = {mark: found[-1] for mark, found in sizes.items() if found and _is_even(found)}
    plain = {mark: size for mark, size in even.items() if mark != ","} or even
    if plain:
        return max(plain, key=lambda mark: plain[mark])
    if lines and _is_even([len(split_line(line, " ")) for line in lines]):
        return " "
    first = {mark: found[0] for mark, found in sizes.items() if found and found[0] > 1}
    return max(first, key=lambda mark: first[mark]) if first else ","


def titles(lines: Sequence[str], delimiter: str = "") -> int:
    """How many of the first lines stand above the table: comments, and titles in a single cell."""
    for count in range(min(LOOK, len(lines) - 2)):
        below = lines[count : count + LOOK]
        mark = delimiter or find_delimiter(below)
        cells = [split_line(line, mark) for line in below]
        if not below[0].startswith(("# ", "##")) and not _is_title(cells, below[0].startswith("#")):
            return count if _is_even([len(row) for row in cells[:5]]) else 0
    return 0


def _is_title(cells: Sequence[Sequence[str]], comment: bool) -> bool:
    """Whether the first of these rows is a title and not a row of the table: it has one cell, and the table has several
    columns."""
    filled, width = [cell for cell in cells[0] if cell], len(cells[-1])
    if comment and len(cells[0]) != width:
        return True
    if len(filled) != 1 or Dialect(",").number(filled[0]) is not None:
        return False
    named = all(Dialect(",").number(cell) is None for cell in cells[1])  # or the header lacks one for the row names
    return len(cells[0]) != width - 1 or named


def _is_even(sizes: Sequence[int]) -> bool:
    """Whether all lines have equally many cells, at least two; the first line may lack a name for the column of row
    names."""
    return len(set(sizes[1:] or sizes)) == 1 and sizes[-1] > 1 and sizes[0] in (sizes[-1], sizes[-1] - 1)


def split_line(line: str, delimiter: str) -> list[str]:
    """The cells of one line."""
    if delimiter == " ":
        return [quoted.replace('""', '"') or plain for quoted, plain in _SPACED.findall(line)]
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter)]
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # raised for more than 131,072 characters between quotes
        return [line]


def rows(text: str, delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, from 1, and its cells; empty lines are left out."""
    if '"' not in text or delimiter == " ":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield number, split_line(line, delimiter)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if len(row) > 1 or any(cell.strip() for cell in row):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        hint = "; is a quotation mark left open?" if "limit" in str(error) else ""
        raise InvalidData(f"line {reader.line_num} of {name} cannot be read: {error}{hint}") from error


def find_decimal(cells: Sequence[str], delimiter: str) -> str:
    """The decimal mark of numbers, point or comma, decided by the cells that can be read in only one way."""
    cells = [bare(cell) for cell in cells]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell.strip())]
    if not commas or any(re.fullmatch(r"[+-]?\d+(,\d{3})*\.\d+", cell.strip(), re.ASCII) for cell in cells):
        return "."
    # 1,234 may be either; 1,5 and 0,123 and 1.234,5 may not.
    certain = any(not re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", cell.strip(), re.ASCII) for cell in commas)
    return "," if certain or delimiter == ";" else "."
