"""A fit in plain text: a few sentences and a table."""

from __future__ import annotations

import html
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .cards import card, printable, trace
from .evidence.optima import distinct

if TYPE_CHECKING:
    from .fit import Fit

_ROWS = 20  # a longer table is cut
_LETTERS = 60  # of a name or a cell of a table


class Summary(str):
    """A result in a few sentences and a table. `print` shows its text, and so do consoles; notebooks show a card."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The card as HTML. It sets no colours, so the notebook's theme, light or dark, applies."""
        title, _, rest = html.escape(self).partition("\n")
        return (
            f'<div style="max-width:60em;overflow-x:auto"><strong>{title}</strong>'
            f'<pre style="margin:0.3em 0;background:none;color:inherit">{rest}</pre></div>'
        )


def summarise(fit: Fit) -> Summary:
    table = fit.columns()
    lines = [
        f"{type(fit.model).__name__} fitted to {fit.data.size:,} data by {fit.method.name} in {fit.seconds:.2f} s",
        f"log evidence {_evidence(fit)}{_bracket(fit)}",
        _verdict(fit),
        *_heat(fit),
        *_held(fit, table),
        *(f"note: {printable(note)}" for note in fit.notes),
    ]
    if table:
        lines += ["", *_narrowed(table)]
    return Summary("\n".join(lines))


def in_one_line(fit: Fit) -> str:
    """The one line that consoles show for a fit."""
    ended = "converged" if fit.converged else "not converged"
    return f"<{type(fit.model).__name__} by {fit.method.name}: log evidence {_evidence(fit)}, {ended}; see .summary()>"


def fit_card(fit: Fit) -> str:
    """The summary as a card for notebooks."""
    title, *lines = str(summarise(fit)).split("\n\n")[0].split("\n")
    columns = cells({name: values[:_ROWS] for name, values in fit.columns().items()})
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    steps = ["fit.diagnose()", 'tp.report(fit, "fit.html")', "fit.table()"]
    return card(title, lines, trace(fit.history), rows if columns else (), steps)


def with_names(table: dict[str, list[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """A table of parts with the names of the data's columns: of features, and of the entries of vectors."""
    found: dict[str, list[Any]] = {}
    for key, values in table.items():
        features = [value for value in values if isinstance(value, str) and value.startswith("feature ")]
        if key == "largest on column":
            found[key] = [names[int(place)] for place in values]
        elif any(value == "column 1" for value in values if isinstance(value, str)):
            numbered = {f"column {place + 1}": name for place, name in enumerate(names)}
            found[key] = [numbered.get(value, value) for value in values]
        elif len(features) == len(names):
            found[key] = [names[features.index(value)] if value in features else value for value in values]
        elif values and all(np.shape(value) == (len(names),) for value in values):
            found |= {f"{key} of {name}": [float(value[j]) for value in values] for j, name in enumerate(names)}
        else:
            found[key] = values
    return found


def _evidence(fit: Fit) -> str:
    if fit.log_evidence is None:
        return "not estimated"
    error = "" if fit.standard_error is None else f" ± {fit.standard_error:.4f}"
    return f"{fit.log_evidence:.4f}{error}"


def _bracket(fit: Fit) -> str:
    return "" if fit.bracket is None else f" (between {fit.bracket[0]:.4f} and {fit.bracket[1]:.4f})"


def _heat(fit: Fit) -> list[str]:
    """Sentences about a run that was not at T = 1 throughout."""
    first = np.asarray(fit.history.get("temperature", 1.0)).flat[0]
    critical, last, own = (fit.details.get(name) for name in ("critical", "temperature", "inverse_temperature"))
    if first == 1.0:
        return []
    if last is not None:
        return [f"tempered: the expected temperature was {last:.4g} before T = 1"]
    if own is not None:
        return [f"tempered: E[1/T] of the data was between {np.min(own):.2g} and {np.max(own):.2g} before T = 1"]
    found = "" if critical is None else f"; the critical temperature is {critical:.4g}"
    return [f"cooled from T = {first:.4g} to 1{found}"]


def _held(fit: Fit, table: dict[str, list[Any]]) -> list[str]:
    words, size, held = fit.model.words, fit.model.words.size, len(table.get(fit.model.words.part, ()))
    return [f"{held} of {size} {words.parts} {words.used}"] if size is not None and 0 < held < size else []


def _verdict(fit: Fit) -> str:
    restarts = fit.history.get("restarts")
    runs = ""
    if restarts is not None and len(restarts) > 1:
        found = len(distinct(np.asarray(restarts)))
        optima = "one optimum" if found == 1 else f"{found} different optima"
        runs = f", the best of {len(restarts)} starts, which found {optima}"
    steps = len(next(iter(fit.history.values()), []))
    return f"converged after {steps} steps{runs}" if fit.converged else f"not converged after {steps} steps{runs}"


def _narrowed(table: dict[str, list[Any]]) -> list[str]:
    """The lines of the table; in a terminal, without the last columns if it is too narrow for all."""
    lines = layout(table)
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(lines[0])
    left = dict(table)
    while len(left) > 2 and len(lines[0]) > room:
        left.popitem()
        lines = layout(left)
    hidden = len(table) - len(left)
    more = f"too wide for the terminal: {hidden} more {'column' if hidden == 1 else 'columns'} in .table()"
    return [*lines, more] if hidden else lines


def layout(table: dict[str, list[Any]], most: int = _ROWS) -> list[str]:
    """Lines of a table with aligned columns, cut after `most` rows."""
    shown = cells({name: values[:most] for name, values in table.items()})
    columns = [[heading(name), *values] for name, values in shown.items()]
    widths = [max(map(len, cells)) for cells in columns]
    rows = ["  ".join(map(str.rjust, row, widths)) for row in zip(*columns, strict=True)]
    size = len(next(iter(table.values())))
    return [*rows, f"… and {size - most} more"] if size > most else rows


def heading(name: object, most: int = _LETTERS) -> str:
    """A name shortened to one line of at most `most` letters, for a table or a plot."""
    line = " ".join(printable(name).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def cells(table: dict[str, list[Any]], most: int = _LETTERS) -> dict[str, list[str]]:
    """A table as people read it: shares in per cent, and texts of at most `most` letters, which end with a word."""
    return {
        name: [f"{value:.1%}" if name == "share" else _cell(value, most) for value in values]
        for name, values in table.items()
    }


def _cell(value: Any, most: int) -> str:
    if isinstance(value, str):
        line = heading(value, most)
        start, space, last = line.rpartition(" ")
        return f"{start} …" if space and line.endswith("…") and last != "…" else line
    array = np.asarray(value)
    if array.ndim == 0:
        return str(int(array)) if array.dtype.kind in "iu" else f"{float(array):.4g}"
    shown = ", ".join(f"{item:.4g}" for item in array.ravel()[:6])
    return f"[{shown}{', …' if array.size > 6 else ''}]"
