"""`temperance groups`: which groups are there among the rows of a table, and which row is in which."""

from __future__ import annotations

import csv
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
_BORDER = 0.8  # a row whose group is less probable than this is near a border
_TELLING = 0.5  # standard deviations (or a difference of probabilities of half as much) that are worth a word


def find_groups(source: str, reading: Reading, largest: int | None, seed: int, out: Path | None, format: str) -> None:
    """Print the schema, compare sizes, describe the groups, and write groups.csv, report.html and fit.tp."""
    data = inputs.columns(source, reading)
    table: tp.Table = data.values
    if person(format):
        typer.echo("\n".join(data.notes) + "\n")
    hill, extended = compare_sizes(table, largest, seed)
    found = hill.best_fit.membership(table)
    shares = np.array([values for name, values in found.items() if name.startswith("probability of ")]).T
    sentences = [*describe(hill, table, shares), *extended, *warnings(hill)]
    folder = out or Path(f"{Path(data.name).stem}-groups")
    folder.mkdir(parents=True, exist_ok=True)
    write_groups(folder / "groups.csv", table, found)
    hill.best_fit.save(folder / "fit.tp")
    tp.report(hill, folder / "report.html", title=f"{data.name}: groups", names=data.columns)
    if person(format):
        typer.echo("\n".join([*sentences, f"groups.csv, report.html and fit.tp are in {folder}"]))
    else:
        who = hill.best_fit.profiles()
        sizes = [{"group": g, "share": s, "low": a, "high": b}
                 for g, s, a, b in zip(who.labels, who.share, who.low, who.high, strict=True)]  # fmt: skip
        record = {"groups": shares.shape[1], "sizes": sizes, "sentences": sentences}
        typer.echo(as_json({"schema": data.notes, **record, "out": str(folder)}))


def compare_sizes(table: tp.Table, largest: int | None, seed: int) -> tuple[tp.Comparison, list[str]]:
    """1 to `largest` groups; unless that was given, more of them while the largest number wins and all are in use."""
    top, hill = min(largest or _SIZES, len(table)), None
    while True:
        models = [tp.ClassMixture(k) for k in range(1, top + 1)]
        hill = tp.compare(models, table, tp.VB(restarts=10), seed, resume=hill)
        most = min(top + _MORE, _LARGEST, len(table))
        if largest is not None or hill.best != top or len(hill.best_fit.order) < top or most == top:
            break
        top = most
    more = f"{_SIZES} groups, the largest number tried at first, were better than fewer: 1 to {top} were compared."
    return hill, [more] if top > _SIZES and largest is None else []


def describe(hill: tp.Comparison, table: tp.Table, shares: np.ndarray) -> list[str]:
    """How many groups there are and how sure that is; who they are; how many rows are near a border."""
    count, probability = shares.shape[1], float(hill.probabilities.max())
    noun = "group" if count == 1 else "groups"
    lines = [f"{count} {noun} (probability {percent(probability)} among 1 to {hill.models[-1]})."]
    if count == 1:
        return [*lines, "The rows are best described without dividing them."]
    who = hill.best_fit.profiles()
    for group, weights in enumerate(shares.T):
        told = [word for column in table.schema.used if (word := _word(column, table[column.name], weights))]
        said = ", ".join(told) if told else "near the average in every column"
        size = f"{who.share[group]:.0%} ({who.low[group]:.0%} to {who.high[group]:.0%})"
        lines.append(f"Group {CLASS.label(group)}, {size}: {said}")
    near = int((shares.max(axis=1) < _BORDER).sum())
    certain = f"{near} of {len(shares)} rows are" if near != 1 else f"1 of {len(shares)} rows is"
    return [*lines, f"{certain} near a border: the probability of the group is below {_BORDER:.0%}."]


def _word(column: Column, values: np.ndarray, weights: np.ndarray) -> str:
    """How a group differs from all rows in one column; nothing where it hardly does."""
    seen = ~np.isnan(values)
    values, weights = values[seen], weights[seen]
    if weights.sum() < 0.5:
        return ""
    if column.kind in ("category", "binary"):
        places = values[:, None] == np.arange(len(column.levels))
        here, there = weights @ places / weights.sum(), places.mean(axis=0)
        most = int(np.argmax(here - there))
        if column.kind == "binary" and here[most] - there[most] > _TELLING / 4:
            return f"{column.name} {column.levels[most]} ({here[most]:.0%})"
        return f"{column.name} {column.levels[most]} ({here[most]:.0%})" if here[most] - there[most] > 0.15 else ""
    here = weights @ values / weights.sum()
    if abs(here - values.mean()) < _TELLING * values.std():
        return ""
    shown = column.levels[round(here)] if column.levels else f"{here:.3g}"
    return f"{'high' if here > values.mean() else 'low'} {column.name} (mean {shown})"


def write_groups(path: Path, table: tp.Table, found: dict[str, list[Any]]) -> None:
    """Every row of the table in its order: its number, its id, its group and the probabilities of all groups."""
    columns = {"row": found["row"], "id": table.ids.tolist(), "group": found["class"]}
    columns |= {name: values for name, values in found.items() if name.startswith("probability of ")}
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
