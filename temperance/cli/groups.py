"""`temperance groups`: which groups are there among the rows of a table, and which row is in which."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import temperance as tp

from ..data.schema import Column
from ..models._about import CLASS
from ..report.words import join, percent, warnings
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
    if table.weights is not None:
        shares = shares * table.weights[:, None]
    heeded = [said for said in warnings(hill) if not (extended and "largest that was tried" in said)]
    sentences = [*describe(hill, table, shares), *extended, *heeded]
    criteria = hill.publication()
    folder = out or Path(f"{Path(data.name).stem}-groups")
    folder.mkdir(parents=True, exist_ok=True)
    write_groups(folder / "groups.csv", table, found)
    hill.best_fit.save(folder / "fit.tp")
    (folder / "sizes.csv").write_text(criteria.to_csv(), "utf-8")
    tp.report(hill, folder / "report.html", title=f"{data.name}: groups", names=data.columns, also=[criteria],
              lead=sentences, code=_again(data.name, reading, len(hill.models), seed))  # fmt: skip
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


def _again(name: str, reading: Reading, most: int, seed: int) -> str:
    """A program that does the same."""
    kinds = f", kinds={reading.kinds!r}" if reading.kinds else ""
    kinds += f", missing={list(reading.gaps)!r}" if reading.gaps else ""
    return "\n".join([
        "import temperance as tp", "", f"table = tp.read_table({name!r}{kinds})",
        f"hill = tp.compare([tp.ClassMixture(k) for k in range(1, {most + 1})], table, tp.VB(restarts=10), {seed})",
        "fit = hill.best_fit", "print(hill.summary())", "print(fit.profiles().to_frame())  # who they are",
        "print(fit.membership(table))  # which row is in which", "print(hill.publication())  # for a paper",
    ])  # fmt: skip


def describe(hill: tp.Comparison, table: tp.Table, shares: np.ndarray) -> list[str]:
    """How many groups there are and how sure that is; who they are; how many rows are near a border."""
    count, probability = shares.shape[1], float(hill.probabilities.max())
    noun = "group" if count == 1 else "groups"
    lines = [f"{count} {noun} (probability {percent(probability)} among 1 to {hill.models[-1]})."]
    if count == 1:
        return [*lines, "The rows are best described without dividing them."]
    who = hill.best_fit.profiles()
    weights = np.ones(len(shares)) if table.weights is None else table.weights
    for group, each in enumerate(shares.T):
        words = [_word(column, table[column.name], each, weights) for column in table.schema.used]
        known = [word for word in words if word is not None]
        told = [word for word in known if word.apart >= word.enough]
        said = "near the average in every column"
        if told or known:
            most = sorted(told or known, key=lambda word: word.apart, reverse=True)[: _WORDS if told else 2]
            more = f" and {len(told) - len(most)} more" if len(told) > len(most) else ""
            said = ", ".join(word.text if told else word.plain for word in known if word in most) + more
        share, low, high = (_share(values[group]) for values in (who.share, who.low, who.high))
        lines.append(f"Group {CLASS.label(group)}, {share} ({low} to {high}): {said}")
    idle = [name for name, nats in hill.best_fit.contributions().items() if nats < 0]
    if idle:
        named = idle if len(idle) <= 6 else [*idle[:6], f"{len(idle) - 6} other columns"]
        lines.append(f"The groups do not differ in {join(named)}.")
    near = int((shares.max(axis=1) < _BORDER * weights).sum())
    certain = {0: "No row is", 1: f"1 of {len(shares)} rows is"}.get(near, f"{near} of {len(shares)} rows are")
    return [*lines, f"{certain} near a border, where the probability of the group is below {_BORDER:.0%}."]


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.095 else f"{value:.1%}"


def _number(value: float) -> str:
    """Three digits, and no power of ten where a plain number is as short."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


class Word(NamedTuple):
    """How a group differs from all rows in one column."""

    apart: float  # in standard deviations
    enough: float  # from which on it is worth a word
    text: str
    plain: str  # without "high" or "low"


def _word(column: Column, values: np.ndarray, share: np.ndarray, weights: np.ndarray) -> Word | None:
    seen = ~np.isnan(values)
    values, share, weights = values[seen], share[seen], weights[seen]
    if share.sum() < 0.5:
        return None
    numbers = _level_numbers(column)
    if column.levels and numbers is None:
        places = values[:, None] == np.arange(len(column.levels))
        here, there = share @ places / share.sum(), weights @ places / weights.sum()
        most = int(np.argmax(here - there))
        spread = np.sqrt(there[most] * (1 - there[most]))
        enough = (_TELLING / 4 if column.kind == "binary" else 0.15) / spread
        text = f"{column.name} {column.levels[most]} ({here[most]:.0%})"
        return Word(float(here[most] - there[most]) / spread, enough, text, text)
    if numbers is not None:
        values = numbers[values.astype(int)]
    turned = np.log(values) if column.kind == "positive" else values
    here, centre = (float(w @ turned / w.sum()) for w in (share, weights))
    apart = (here - centre) / max(float(np.sqrt(weights @ np.square(turned - centre) / weights.sum())), 1e-300)
    shown = f"median {_number(np.exp(here))}" if column.kind == "positive" else f"mean {_number(here)}"
    plain = f"{column.name} ({shown})"
    return Word(abs(apart), _TELLING, f"{'high' if apart > 0 else 'low'} {plain}", plain)


def _level_numbers(column: Column) -> np.ndarray | None:
    """The levels of an ordered column as numbers, where that is what they are."""
    try:
        return np.array([float(level) for level in column.levels]) if column.kind == "ordered" else None
    except ValueError:
        return None


def write_groups(path: Path, table: tp.Table, found: dict[str, list[Any]]) -> None:
    """Every row of the table in its order: its number, its id, its group and the probabilities of all groups."""
    columns = {"row": found["row"], "id": table.ids.tolist(), "group": found["class"]}
    columns |= {name: values for name, values in found.items() if name.startswith("probability of ")}
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
