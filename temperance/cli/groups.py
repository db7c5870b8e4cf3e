"""`temperance groups`: which groups are there among the rows of a table, and which row is in which."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import typer

import temperance as tp

from ..errors import InvalidParameter
from ..report.words import warnings
from . import inputs
from .group_words import describe
from .options import Columns
from .output import as_json, person, wrapped

_SIZES, _MORE, _LARGEST = 6, 4, 30  # numbers of groups: tried at first, added at a time, tried at most
_PATIENCE = 10.0  # seconds after which no more groups are tried


def find_groups(
    source: str, reading: Columns, largest: int | None, covariance: str, seed: int, out: Path | None, format: str
) -> None:
    """Print the schema, compare sizes, describe the groups, and write groups.csv, sizes.csv, report.html and fit.tp."""
    if covariance not in ("diag", "full"):
        raise InvalidParameter(f"--covariance must be diag or full, got {covariance!r}")
    data = inputs.columns(source, reading)
    table: tp.Table = data.values
    if person(format):
        typer.echo(wrapped(data.notes, 10) + "\n")
    hill, unfinished = compare_sizes(table, largest, covariance, seed)
    found = hill.best_fit.membership(table)
    shares = np.array([values for name, values in found.items() if name.startswith("probability of ")]).T
    if table.weights is not None:
        shares = shares * table.weights[:, None]
    above = {f"{table.schema.codes}."}
    heeded = [said for said in warnings(hill) if not (unfinished and "largest that was tried" in said)]
    sentences = [
        *describe(hill, table, shares, covariance == "full"),
        *unfinished,
        *(said for said in heeded if said not in above),
    ]
    criteria = hill.publication()
    folder = out or Path(f"{Path(data.name).stem}-groups")
    folder.mkdir(parents=True, exist_ok=True)
    write_groups(folder / "groups.csv", table, found)
    hill.best_fit.save(folder / "fit.tp")
    (folder / "sizes.csv").write_text(criteria.to_csv(), "utf-8")
    tp.report(hill, folder / "report.html", title=f"{data.name}: groups", names=data.columns, also=[criteria],
              lead=sentences, code=_again(data.name, reading, len(hill.models), covariance, seed))  # fmt: skip
    if person(format):
        asked = len(table.schema.questions)
        many = "The question" if asked == 1 else f"The {asked} questions"
        sentences += [f"{many} above may change all of this: answer {'it' if asked == 1 else 'them'} first."] * bool(
            asked
        )
        typer.echo(wrapped([*sentences, f"groups.csv, sizes.csv, report.html and fit.tp are in {folder}"], 4))
    else:
        who = hill.best_fit.profiles()
        sizes = [{"group": g, "share": s, "low": a, "high": b}
                 for g, s, a, b in zip(who.labels, who.share, who.low, who.high, strict=True)]  # fmt: skip
        record = {"groups": shares.shape[1], "sizes": sizes, "sentences": sentences}
        typer.echo(as_json({"schema": data.notes, **record, "out": str(folder)}))


def compare_sizes(table: tp.Table, largest: int | None, covariance: str, seed: int) -> tuple[tp.Comparison, list[str]]:
    """1 to `largest` groups; unless that was given, more of them while the largest number wins, all are in use and
    there is patience left."""
    top, hill, began = min(largest or _SIZES, len(table)), None, time.monotonic()
    while True:
        models = [tp.ClassMixture(k, covariance=covariance) for k in range(1, top + 1)]
        hill = tp.compare(models, table, tp.VB(restarts=10), seed, resume=hill)
        most = min(top + _MORE, _LARGEST, len(table))
        if largest is not None or hill.best != top or len(hill.best_fit.order) < top or most == top:
            return hill, []
        if time.monotonic() - began > _PATIENCE:
            return hill, [f"More groups than {top} may be better still: see with --most {2 * top}."]
        top = most


def _again(name: str, reading: Columns, most: int, covariance: str, seed: int) -> str:
    """A Python program with this command's result."""
    kinds = f", kinds={reading.kinds!r}" if reading.kinds else ""
    kinds += "" if reading.gaps is None else f", missing={list(reading.gaps)!r}"
    given = "k" if covariance == "diag" else f"k, covariance={covariance!r}"
    return "\n".join([
        "import temperance as tp", "", f"table = tp.read_table({name!r}{kinds})",
        f"models = [tp.ClassMixture({given}) for k in range(1, {most + 1})]",
        f"hill = tp.compare(models, table, tp.VB(restarts=10), {seed})",
        "fit = hill.best_fit", "print(hill.summary())", "print(fit.profiles().to_frame())  # who they are",
        "print(fit.membership(table))  # which row is in which", "print(hill.publication())  # for a paper",
    ])  # fmt: skip


def write_groups(path: Path, table: tp.Table, found: dict[str, list[Any]]) -> None:
    """Every row of the table in its order: its number, its id if it has one, its group, the probabilities of all."""
    columns = {"row": found["row"]}
    columns |= {"id": table.ids.tolist()} if any(column.kind == "id" for column in table.schema) else {}
    columns["group"] = found["group"]
    columns |= {name: [round(value, 6) for value in values] for name, values in found.items()
                if name.startswith("probability of ")}  # fmt: skip
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
