"""The columns of a table: their kinds, each with the reason, their levels and their gaps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..errors import InvalidParameter
from ._patterns import pattern

USED = ("real", "positive", "count", "binary", "category", "ordered")
LEFT_OUT = ("date", "id", "constant", "text", "weight")
_WIDE = 36  # most letters of a list of levels
_MANY = 40  # most columns of one kind that are listed one by one
_UNIT = pattern(r".+?\s*[(\[]([^()\[\]]{1,12})[)\]]")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column: its name as in the file, its kind and the reason, its levels in order, and how many values are
    missing."""

    name: str
    kind: str
    reason: str = ""
    levels: tuple[str, ...] = ()  # of a binary, category or ordered column: value k stands for levels[k]
    gaps: int = 0
    question: str = ""  # what only the owner of the data can know

    @property
    def used(self) -> bool:
        """Whether models use the column; ids, dates, constants and free text are left out."""
        return self.kind in USED

    @property
    def unit(self) -> str:
        """The text in brackets in the name: "kg" for "weight (kg)"."""
        found = _UNIT.fullmatch(self.name)
        return found[1] if found else ""

    def __str__(self) -> str:
        shown = ", ".join(self.levels)
        shown = shown if len(shown) <= _WIDE else shown[: _WIDE - 1].rstrip(", ") + "…"
        gaps = f", {self.gaps} missing" if self.gaps else ""
        return f"{self.name}: {self.kind}{f' ({shown})' if shown else ''}{gaps}; {self.reason}"


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns of a table in order, and notes about the file."""

    columns: tuple[Column, ...]  # name, kind, levels and gaps of each
    notes: tuple[str, ...] = ()  # sentences about the file
    missing: tuple[str, ...] = ()  # cells that stand for a missing value besides the usual
    codes: str = ""  # which numbers were read as missing values, and why

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidParameter(f"there is no column {name!r}; the columns are {shortened(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def used(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.used)

    @property
    def left_out(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if not column.used)

    @property
    def questions(self) -> tuple[str, ...]:
        """Questions to settle before fitting, one sentence each."""
        return tuple(column.question for column in self.columns if column.question)

    def __str__(self) -> str:
        lines = [f"missing   {self.codes}"] if self.codes else []
        lines += [f"{'weights ' if column.kind == 'weight' else 'left out'}  {column}" for column in self.left_out]
        alike: dict[tuple[str, tuple[str, ...]], list[Column]] = {}
        for column in self.used:
            alike.setdefault((column.kind, column.levels), []).append(column)
        for column in self.used:
            same = alike[column.kind, column.levels]
            if len(same) <= _MANY:
                lines.append(f"used      {column}")
            elif column is same[0]:
                lines.append(f"used      {len(same)} columns, {same[0].name} to {same[-1].name}: {_kinds(same)}")
        lines += [f"note      {note}" for note in self.notes]
        return "\n".join(lines + [f"question  {question}" for question in self.questions])


def _kinds(columns: list[Column]) -> str:
    """A line for many columns of one kind, with the number of missing values."""
    gaps = sum(column.gaps for column in columns)
    return columns[0].kind + (f", {gaps} values missing" if gaps else "")


def shortened(names: tuple[str, ...], most: int = 12) -> str:
    """A list of names for a sentence."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def nothing_used(name: str, first: Column) -> str:
    """Why a table has no column to fit; the first column that was left out serves as the example."""
    return f"{name} has no column that can be used: {first.name!r} is left out as {first.kind} ({first.reason})"
