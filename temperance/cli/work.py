"""The work of the commands after their flags are checked: read, fit, save, print."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import temperance as tp

from .. import registry
from ..comparison.names import sized
from ..errors import InvalidParameter
from ..registry import MethodEntry
from ..report.words import about_labels, columns, conclusion, fit_sentences, shown, warnings
from . import inputs
from .options import Budget, Output, Problem, Reading
from .output import as_json, person, show_fit_table, show_table


def fit_one(
    problem: Problem, data: inputs.Input, size: int, by: MethodEntry, budget: Budget, output: Output,
    checkpoint: Path | None,
) -> None:  # fmt: skip
    """Fit one model by one method, and show the result."""
    say_first(data, output)
    model = inputs.models(problem, data, [size])[size]
    method = budget.method(by, problem.entry, problem.settings)
    result = tp.fit(model, data.values, method, seed=budget.seed, checkpoint=checkpoint)
    if result.interrupted:
        _answer()
    title = f"{data.name}: {sized(size, 'components')}" if size else data.name
    notes = list(dict.fromkeys([*result.notes, *write_result(result, output, "fit", title, data)]))
    if person(output.format):
        typer.echo("\n".join(fit_sentences(result)))
        show_fit_table(result.columns())
        typer.echo("\n".join(f"note: {note}" for note in notes))
    else:
        typer.echo(as_json(_fit_record(result, problem, size, by, [*data.notes, *notes])))
    if result.interrupted:
        if checkpoint is not None:
            typer.echo(f"temperance: interrupted; the same command continues from {checkpoint}", err=True)
            raise typer.Exit(1)
        _interrupted(output.out, "the fit as far as it went")


def compare_sizes(
    problem: Problem, data: inputs.Input, sizes: list[int], by: dict[str, MethodEntry], budget: Budget,
    output: Output, workers: int, resume: Path | None,
) -> None:  # fmt: skip
    """Fit every size by every method, and show the conclusion."""
    say_first(data, output)
    models = inputs.models(problem, data, sizes)
    before = None if resume is None else tp.load(resume)
    if before is not None and not isinstance(before, tp.Comparison):
        raise InvalidParameter(f"--resume must be a saved comparison, but {resume} holds a fit")
    methods = {name: budget.method(entry, problem.entry, problem.settings) for name, entry in by.items()}
    result = tp.compare(models, data.values, methods, budget.seed, workers=workers, resume=before)
    if not result.complete:
        _answer()
    notes = write_result(result, output, "comparison", data.name, data)
    if person(output.format):
        show_comparison(result, notes)
    else:
        typer.echo(as_json(_comparison_record(result, [*data.notes, *notes])))
    if not result.complete:
        _interrupted(output.out, "what was done; go on with --resume")


def say_first(data: inputs.Input, output: Output) -> None:
    """Say before the fit which columns and rows were left out; programs find this in the notes."""
    if data.notes and person(output.format):
        typer.echo("\n".join(data.notes) + "\n")


def predict_rows(saved: Path, source: str, reading: Reading, out: Path | None, format: str) -> None:
    """Show or write the predictions of a saved result for new rows."""
    rows = _predictions(tp.load(saved), source, reading)
    size = len(next(iter(rows.values())))
    if out is not None:
        with out.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([list(rows), *zip(*rows.values(), strict=True)])
    if person(format):
        if out is None:
            show_table({name: [shown(name, value) for value in values[:50]] for name, values in rows.items()})
        typer.echo(f"{size:,} rows" + (f" in {out}" if out else ", the first 50 shown" if size > 50 else ""))
    elif out is None:
        typer.echo(as_json([dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]))
    else:
        typer.echo(as_json({"rows": size, "out": str(out)}))


def show_comparison(result: tp.Comparison, notes: list[str]) -> None:
    """The table, the three-line conclusion, and what else a reader should know."""
    rows = result.rows()
    table = {name.replace("_", " "): [shown(name, row[name]) for row in rows] for name in columns(rows)}
    show_table(table, ("in use", "label correction", "converged", "probability error"))
    typer.echo("\n".join(conclusion(result)))
    labels = about_labels(result)
    for note in [*([labels] if labels else []), *warnings(result), *notes]:
        typer.echo(f"note: {note}")


def write_result(
    result: Any, output: Output, what: str, title: str, data: inputs.Input, also: Sequence[Any] = ()
) -> list[str]:
    """Save the result and its report to the requested paths, and say so."""
    notes = []
    if output.out is not None:
        result.save(output.out)
        notes.append(f"the {what} is in {output.out}")
    if output.report is not None:
        tp.report(result, output.report, title=title, code=_command(), names=data.columns or None, also=also)
        notes.append(f"the report is in {output.report}")
    return notes


def _fit_record(result: tp.Fit, problem: Problem, size: int, by: MethodEntry, notes: list[str]) -> dict[str, Any]:
    bound = by.evidence == "a lower bound"
    low, high = result.bracket or (result.log_evidence if bound else None, None)
    return {
        "model": problem.entry.command,
        "components": size,
        "method": by.command,
        "log_evidence": result.log_evidence,
        "low": low,
        "high": high,
        "converged": result.converged,
        "seconds": result.seconds,
        "seed": result.seed,
        "table": result.columns(),
        "notes": notes,
    }


def _comparison_record(result: tp.Comparison, notes: list[str]) -> dict[str, Any]:
    rows = [{("components" if key == result.size_name else key): v for key, v in r.items()} for r in result.rows()]
    return {
        "best": result.best,
        "probability": float(result.probabilities.max()),
        "decided_by": result.decided_by,
        "choices": result.choices,
        "models": rows,
        "notes": [*warnings(result), *notes],
    }


def _predictions(result: Any, source: str, reading: Reading) -> dict[str, list[Any]]:
    """Columns with a value for every row, in order; empty where a row has gaps that the model cannot integrate out."""
    from ..models._answers import Tabular

    fitted: tp.Fit = result.best_fit if isinstance(result, tp.Comparison) else result
    entry = registry.entry_of(fitted.model)
    kind = entry.data if entry is not None else "table"
    if kind == "corpus":
        from .topics import of_documents, shares_of_new

        return of_documents(shares_of_new(fitted, source, reading), fitted)
    table: tp.Table
    if kind == "columns":
        table = inputs.columns(source, reading, fitted.schema).values
    else:
        table = inputs.new_rows(source, reading, fitted.schema)
    named = {"id": table.ids.tolist()} if any(column.kind == "id" for column in table.schema) else {}
    whole = isinstance(fitted.model, Tabular) and fitted.model.takes_gaps
    kept = np.ones(len(table), bool) if whole else ~np.isnan(table.matrix()).any(axis=1)
    answers = _answers(result, fitted, table.rows(kept), kind) if kept.any() else {}
    places = np.where(kept, np.cumsum(kept) - 1, -1).tolist()
    spread = {name: [values[at] if at >= 0 else None for at in places] for name, values in answers.items()}
    return {"row": list(range(1, len(table) + 1))} | named | spread


def _answers(result: Any, fitted: tp.Fit, table: tp.Table, kind: str) -> dict[str, list[Any]]:
    """The predictions of a result for all rows that its model takes: rows without gaps, or all rows."""
    from ..models._answers import Clustering

    if kind == "inputs and targets":
        found = fitted.predict(table)
        return {"mean": found.mean.tolist(), "variance": found.variance.tolist()}
    rows: dict[str, list[Any]] = {"log_density": result.log_predictive(table).tolist()}
    if isinstance(fitted.model, Clustering):
        rows = fitted.membership(table) | rows
    return {name: values for name, values in rows.items() if name not in ("row", "id")}


def _command() -> str:
    return shlex.join(["temperance", *sys.argv[1:]]) if sys.argv and "temperance" in sys.argv[0] else ""


def _answer() -> None:
    """Answer Ctrl-C at once, because the tables of finished work may have to be compiled first."""
    typer.echo("temperance: interrupted; what was done follows (Ctrl-C again stops at once)", err=True)


def _interrupted(out: Path | None, what: str) -> None:
    saved = f"; {out} holds {what}" if out else "; with --out FILE what was done would have been saved"
    typer.echo(f"temperance: interrupted{saved}", err=True)
    raise typer.Exit(1)


def look_after_cache(action: str, format: str) -> None:
    """Show, make or remove the executables that are kept between processes."""
    from .. import programs

    if action == "clear":
        typer.echo(f"removed {programs.clear()} kept executables")
        return
    if action == "warm":
        programs.warm()
    kept = programs.show()
    if not person(format):
        typer.echo(as_json([{"name": name, "bytes": size, "age": age} for name, size, age in kept]))
        return
    total = sum(size for _, size, _ in kept)
    typer.echo(f"{len(kept)} kept executables, {total / 1e6:.1f} MB")
    if kept:
        names, sizes, ages = zip(*kept, strict=True)
        show_table({"program": list(names), "kB": [f"{size / 1e3:.0f}" for size in sizes],
                    "last used, hours ago": [f"{age / 3600:.1f}" for age in ages]})  # fmt: skip
