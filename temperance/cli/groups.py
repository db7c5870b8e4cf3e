"""`temperance groups`: which groups are there among the rows of a table, and which row is in which."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import typer

import temperance as tp

from ..data.schema import Column
from ..models._about import CLASS
from ..report.words import percent, warnings
from . import inputs
from .options import Reading
from .output import as_json, person

_SIZES, _MORE, _LARGEST = 6, 4, 30  # numbers of groups: tried at first, added at a time, tried at most
_PATIENCE = 10.0  # seconds after which no more groups are tried
_BORDER = 0.8  # a row whose group is less probable than this is near a border
_WORDS = 5  # columns that describe a group
_TELLING = 0.5  # standard deviations (or a difference of probabilities of half as much) that are worth a word


def find_groups(source: str, reading: Reading, largest: int | None, seed: int, out: Path | None, format: str) -> None:
    """Print the schema, compare sizes, describe the groups, and write groups.csv, sizes.csv, report.html and fit.tp."""
    data = inputs.columns(source, reading)
    table: tp.Table = data.values
    if person(format):
        typer.echo("\n".join(data.notes) + "\n")
    hill, extended = compare_sizes(table, largest, seed)
    found = hill.best_fit.membership(table)
    shares = np.array([values for name, values in found.items() if name.startswith("probability of ")]).T
    heeded = [said for said in warnings(hill) if not (extended and "largest that was tried" in said)]
    sentences = [*describe(hill, table, shares), *extended, *heeded]
    criteria = hill.publication()
    folder = out or Path(f"{Path(data.name).stem}-groups")
    folder.mkdir(parents=True, exist_ok=True)
    write_groups(folder / "groups.csv", table, found)
    hill.best_fit.save(folder / "fit.tp")
    (folder / "sizes.csv").write_text(criteria.to_csv(), "utf-8")
    tp.report(hill, folder / "report.html", title=f"{data.name}: groups", names=data.columns, also=[criteria],
              lead=sentences[1:], code=_again(data.name, reading))  # fmt: skip
    if person(format):
        typer.echo("\n".join([*sentences, f"groups.csv, sizes.csv, report.html and fit.tp are in {folder}"]))
    else:
        who = hill.best_fit.profiles()
        sizes = [{"group": g, "share": s, "low": a, "high": b}
                 for g, s, a, b in zip(who.labels, who.share, who.low, who.high, strict=True)]  # fmt: skip
        record = {"groups": shares.shape[1], "sizes": sizes, "sentences": sentences}
        typer.echo(as_json({"schema": data.notes, **record, "out": str(folder)}))


def compare_sizes(table: tp.Table, largest: int | None, seed: int) -> tuple[tp.Comparison, list[str]]:
    """1 to `largest` groups; unless that was given, more of them while the largest number wins, all are in use and
    there is patience left."""
    top, hill, began = min(largest or _SIZES, len(table)), None, time.monotonic()
    while True:
        models = [tp.ClassMixture(k) for k in range(1, top + 1)]
        hill = tp.compare(models, table, tp.VB(restarts=10), seed, resume=hill)
        most = min(top + _MORE, _LARGEST, len(table))
        if largest is not None or hill.best != top or len(hill.best_fit.order) < top or most == top:
            break
        if time.monotonic() - began > _PATIENCE:
            return hill, [f"More groups than {top} may be better still: see with --most {2 * top}."]
        top = most
    more = f"{_SIZES} groups, the largest number tried at first, were better than fewer: 1 to {top} were compared."
    return hill, [more] if top > _SIZES and largest is None else []


def _again(name: str, reading: Reading) -> str:
    """A program that does the same."""
    kinds = f", kinds={reading.kinds!r}" if reading.kinds else ""
    return "\n".join([
        "import temperance as tp", "", f"table = tp.read_table({name!r}{kinds})",
        "hill = tp.compare([tp.ClassMixture(k) for k in range(1, 7)], table, tp.VB(restarts=10))",
        "hill.summary()", "fit = hill.best_fit", "fit.profiles().to_frame()  # who they are",
        "fit.membership(table)  # which row is in which", "hill.publication()  # for a paper",
    ])  # fmt: skip


def describe(hill: tp.Comparison, table: tp.Table, shares: np.ndarray) -> list[str]:
    """How many groups there are and how sure that is; who they are; how many rows are near a border."""
    count, probability = shares.shape[1], float(hill.probabilities.max())
    noun = "group" if count == 1 else "groups"
    lines = [f"{count} {noun} (probability {percent(probability)} among 1 to {hill.models[-1]})."]
    if count == 1:
        return [*lines, "The rows are best described without dividing them."]
    who = hill.best_fit.profiles()
    for group, weights in enumerate(shares.T):
        told = [found for column in table.schema.used if (found := _word(column, table[column.name], weights))]
        most = sorted(sorted(told, reverse=True)[:_WORDS], key=told.index)
        more = f" and {len(told) - len(most)} more" if len(told) > len(most) else ""
        said = ", ".join(word for _, word in most) + more if told else "near the average in every column"
        share, low, high = (_share(values[group]) for values in (who.share, who.low, who.high))
        size = f"{share} ({low} to {high})"
        lines.append(f"Group {CLASS.label(group)}, {size}: {said}")
    near = int((shares.max(axis=1) < _BORDER).sum())
    certain = f"{near} of {len(shares)} rows are" if near != 1 else f"1 of {len(shares)} rows is"
    return [*lines, f"{certain} near a border: the probability of the group is below {_BORDER:.0%}."]


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.095 else f"{value:.1%}"


def _number(value: float) -> str:
    """Three digits, and no power of ten where a plain number is as short."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _word(column: Column, values: np.ndarray, weights: np.ndarray) -> tuple[float, str] | None:
    """How a group differs from all rows in one column, by how many standard deviations; None where it hardly does."""
    seen = ~np.isnan(values)
    values, weights = values[seen], weights[seen]
    if weights.sum() < 0.5:
        return None
    if column.kind in ("category", "binary"):
        places = values[:, None] == np.arange(len(column.levels))
        here, there = weights @ places / weights.sum(), places.mean(axis=0)
        most = int(np.argmax(here - there))
        apart = float(here[most] - there[most])
        if apart < (_TELLING / 4 if column.kind == "binary" else 0.15):
            return None
        spread = np.sqrt(there[most] * (1 - there[most]))
        return apart / spread, f"{column.name} {column.levels[most]} ({here[most]:.0%})"
    here = float(weights @ values / weights.sum())
    apart = (here - values.mean()) / max(values.std(), 1e-300)
    if abs(apart) < _TELLING:
        return None
    shown = column.levels[round(here)] if column.levels else _number(here)
    return abs(apart), f"{'high' if apart > 0 else 'low'} {column.name} (mean {shown})"


def write_groups(path: Path, table: tp.Table, found: dict[str, list[Any]]) -> None:
    """Every row of the table in its order: its number, its id, its group and the probabilities of all groups."""
    columns = {"row": found["row"], "id": table.ids.tolist(), "group": found["class"]}
    columns |= {name: values for name, values in found.items() if name.startswith("probability of ")}
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
