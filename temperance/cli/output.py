"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from typing import Any


def person(format: str) -> bool:
    """Whether a person reads the output, or a program."""
    return sys.stdout.isatty() if format == "auto" else format == "text"


def as_json(value: Any) -> str:
    """Strict JSON: what is not a finite number is null."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=1)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a number of NumPy or JAX
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def numbered(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """A table for people: topics, which are places of rows in Python, are counted from 1."""
    return table | ({"topic": [int(topic) + 1 for topic in table["topic"]]} if "topic" in table else {})


def show_table(columns: dict[str, list[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name, cells in columns.items():
        number = all(cell[:1] in "–-0123456789" for cell in cells)
        table.add_column(name, justify="right" if number else "left")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    Console(markup=False).print(table)


def show_fit_table(table: dict[str, list[Any]], most: int = 20) -> None:
    from ..summary import _cell

    if table:
        show_table({name: [_cell(value) for value in values[:most]] for name, values in table.items()})
