"""Tables for people, JSON for programs."""

from __future__ import annotations

import functools
import json
import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

_BETWEEN = 3  # spaces between two columns


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


def wrapped(lines: Sequence[str], indent: int) -> str:
    """The lines wrapped to the width of the terminal, with continuations indented; unchanged without a terminal."""
    width = shutil.get_terminal_size((100_000, 24)).columns
    fill = functools.partial(textwrap.fill, break_long_words=False, break_on_hyphens=False)
    return "\n".join(fill(line, width, subsequent_indent=" " * indent) for line in lines)


def show_table(columns: dict[str, list[str]], least: Sequence[str] = ()) -> None:
    """A table as wide as the terminal. Lines break between words only; where that is not enough, columns are left out,
    those in `least` first and then from the right, and named below."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    console, left_out = Console(markup=False), []
    while len(columns) > 2 and sum(map(_narrowest, columns.items())) + 1 > console.width:
        left_out.append(next((name for name in least if name in columns), list(columns)[-1]))
        columns = {name: cells for name, cells in columns.items() if name != left_out[-1]}
    table = Table(box=box.SIMPLE_HEAD)
    # Room for cells of several words, which is given out from the left.
    room = max(console.width - sum(map(_narrowest, columns.items())) - 1, 0)
    for name, cells in columns.items():
        number = all(cell[:1] in "–-0123456789" for cell in cells)
        longest, whole = _narrowest((name, cells)) - _BETWEEN, max(map(cell_len, (name, *cells)))
        width = min(whole, longest + room)
        room -= width - longest
        table.add_column(name, justify="right" if number else "left", width=width)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console.print(table)
    if left_out:
        console.print(f"too wide for the terminal, in JSON: {', '.join(left_out)}")


def _narrowest(column: tuple[str, Sequence[str]]) -> int:
    """The longest word of a column, and the space beside it."""
    from rich.cells import cell_len

    name, cells = column
    return max(cell_len(word) for text in (name, *cells) for word in text.split() or [""]) + _BETWEEN


def show_fit_table(table: dict[str, list[Any]], most: int = 20) -> None:
    from ..summary import cells

    if table:
        show_table(cells({name: values[:most] for name, values in table.items()}, 200))
