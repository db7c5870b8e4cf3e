"""The commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import temperance as tp

from ..comparison.names import sized
from ..errors import InvalidParameter
from ..models._answers import Labelled, Regressing, Topical
from ..report.words import about_labels, conclusion, fit_sentences, shown, warnings
from . import inputs
from .output import as_json, person, show_fit_table, show_table
from .registry import METHODS, MODELS, methods, model_entry

app = typer.Typer(
    help="Fit latent-variable models, compare them by their evidence, and see which answer to trust.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Source = Annotated[str, typer.Argument(help="A file, - for standard input, or the name of a bundled data set.")]
ModelName = Annotated[str, typer.Option("--model", help="What to fit; `temperance models` lists them.")]
Columns = Annotated[str | None, typer.Option(help="Columns to use: names, numbers from 1, or 2:4; with commas.")]
Target = Annotated[str | None, typer.Option(help="The column to predict, for a regression.")]
Restarts = Annotated[int, typer.Option(min=1, help="Random starts, of which the best is kept.")]
Draws = Annotated[int, typer.Option(min=20, help="Sweeps of a Monte Carlo method.")]
Temperatures = Annotated[
    str | None, typer.Option(help="Of annealed, one a sweep; of vt and lvt the grid, from 1 up: 1,2,5,10.")
]
Length = Annotated[float | None, typer.Option(help="Sweeps (of topics: passes) of annealed, vt and lvt until T = 1.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Out = Annotated[Path | None, typer.Option(help="Save the result here, for predict and report.")]
Page = Annotated[Path | None, typer.Option("--report", help="Also write a report (HTML) here.")]
Format = Annotated[str, typer.Option("--format", help="text, json, or auto: text on a terminal, json in a pipe.")]
Covariance = Annotated[str, typer.Option(help="full, diag or spherical.")]
Missing = Annotated[str, typer.Option(help="Empty cells: error, drop (those rows) or marginalise.")]
ArrayName = Annotated[str | None, typer.Option("--array", help="Which array of an npz file.")]
Delimiter = Annotated[str, typer.Option(help="Between cells of a text file; found by itself unless given.")]
Vocabulary = Annotated[Path | None, typer.Option(help="A file of words, one a line, for topics.")]
Mean = Annotated[str | None, typer.Option(help="Prior mean of a component.")]
PseudoCount = Annotated[float | None, typer.Option(help="Prior pseudo-count of the mean.")]
Dof = Annotated[float | None, typer.Option(help="Prior degrees of freedom of the precision.")]
Scatter = Annotated[str | None, typer.Option(help="Prior scatter: E[precision] = dof · scatter⁻¹.")]
Concentration = Annotated[float | None, typer.Option(help="Dirichlet parameter of the weights (default 1).")]
PriorFile = Annotated[Path | None, typer.Option("--prior", help="A TOML file with mean, pseudo_count, dof, …")]


@app.command(epilog="Example: temperance fit galaxy --components 3 --method vb --out galaxy.tp")
def fit(
    source: Source,
    components: Annotated[str, typer.Option("--components", "-k", help="How many components (topics, factors).")] = "3",
    model: ModelName = "gaussian-mixture",
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "vb",
    columns: Columns = None,
    target: Target = None,
    restarts: Restarts = 10,
    draws: Draws = 2000,
    temperatures: Temperatures = None,
    length: Length = None,
    seed: Seed = 0,
    out: Out = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the state here; the same command goes on from it.")
    ] = None,
    report: Page = None,
    format: Format = "auto",
    covariance: Covariance = "full",
    missing: Missing = "error",
    array: ArrayName = None,
    delimiter: Delimiter = "",
    vocabulary: Vocabulary = None,
    mean: Mean = None,
    pseudo_count: PseudoCount = None,
    dof: Dof = None,
    scatter: Scatter = None,
    concentration: Concentration = None,
    prior: PriorFile = None,
) -> None:
    """Fit one model by one method."""
    to_person = person(format)
    entry = model_entry(model)
    by = methods(method, restarts, draws, model, temperatures, length)
    numbers = inputs.sizes(components)
    if len(by) > 1 or len(numbers) > 1:
        raise InvalidParameter("fit takes one method and one number of components; use temperance compare for several")
    data = inputs.read(
        entry, source, columns=columns, target=target, missing=missing, array=array, delimiter=delimiter,
        vocabulary=vocabulary,
    )  # fmt: skip
    flags = {"mean": mean, "pseudo_count": pseudo_count, "dof": dof, "scatter": scatter, "concentration": concentration}
    made = _models(model, numbers, data, flags, prior, covariance, missing)[numbers[0]]
    (chosen,) = by.values()
    result = tp.fit(made, data.values, chosen, seed=seed, checkpoint=checkpoint)
    notes = list(data.notes)
    if out is not None:
        result.save(out)
        notes.append(f"the fit is in {out}")
    if report is not None:
        tp.report(
            result,
            report,
            title=f"{data.name}: {sized(numbers[0], 'components')}",
            code=_command(),
            names=data.columns or None,
        )
        notes.append(f"the report is in {report}")
    if to_person:
        typer.echo("\n".join(fit_sentences(result)))
        show_fit_table(result.table())
        typer.echo("\n".join(f"note: {note}" for note in [*result.notes, *notes]))
    else:
        typer.echo(as_json(_fit_record(result, model, numbers[0], method, [*result.notes, *notes])))
    if result.interrupted:
        if checkpoint is not None:
            typer.echo(f"temperance: interrupted; the same command goes on from {checkpoint}", err=True)
            raise typer.Exit(1)
        _interrupted(out, "the fit as far as it went")


@app.command(
    epilog="Example: temperance compare galaxy --components 1:4 --method vb "
    "--mean 0 --pseudo-count 0.01 --dof 2 --scatter 0.22"
)
def compare(
    source: Source,
    components: Annotated[str, typer.Option("--components", "-k", help="Sizes to compare: 1:6, or 1,2,5.")] = "1:6",
    model: ModelName = "gaussian-mixture",
    method: Annotated[str, typer.Option(help=f"Some of {', '.join(METHODS)}, with commas.")] = "vb",
    columns: Columns = None,
    target: Target = None,
    restarts: Restarts = 10,
    draws: Draws = 2000,
    temperatures: Temperatures = None,
    length: Length = None,
    seed: Seed = 0,
    out: Out = None,
    report: Page = None,
    workers: Annotated[int, typer.Option(min=1, help="Fits made side by side.")] = 1,
    resume: Annotated[Path | None, typer.Option(help="A saved comparison whose fits are taken over.")] = None,
    format: Format = "auto",
    covariance: Covariance = "full",
    missing: Missing = "error",
    array: ArrayName = None,
    delimiter: Delimiter = "",
    vocabulary: Vocabulary = None,
    mean: Mean = None,
    pseudo_count: PseudoCount = None,
    dof: Dof = None,
    scatter: Scatter = None,
    concentration: Concentration = None,
    prior: PriorFile = None,
) -> None:
    """Fit several sizes of a model by one or more methods, and choose by the evidence."""
    to_person = person(format)
    entry = model_entry(model)
    by = methods(method, restarts, draws, model, temperatures, length)
    for name in by:
        if METHODS[name].evidence == "none":
            raise InvalidParameter(f"--method {name} has no evidence to compare by; use vb")
    numbers = inputs.sizes(components)
    data = inputs.read(
        entry, source, columns=columns, target=target, missing=missing, array=array, delimiter=delimiter,
        vocabulary=vocabulary,
    )  # fmt: skip
    flags = {"mean": mean, "pseudo_count": pseudo_count, "dof": dof, "scatter": scatter, "concentration": concentration}
    made = _models(model, numbers, data, flags, prior, covariance, missing)
    before = None if resume is None else tp.load(resume)
    if before is not None and not isinstance(before, tp.Comparison):
        raise InvalidParameter(f"--resume must be a saved comparison, but {resume} holds a fit")
    result = tp.compare(made, data.values, by, seed, workers=workers, resume=before)
    notes = list(data.notes)
    if out is not None:
        result.save(out)
        notes.append(f"the comparison is in {out}")
    if report is not None:
        tp.report(result, report, title=data.name, code=_command(), names=data.columns or None)
        notes.append(f"the report is in {report}")
    if to_person:
        show_comparison(result, notes)
    else:
        typer.echo(as_json(_comparison_record(result, notes)))
    if not result.complete:
        _interrupted(out, "what was done; go on with --resume")


@app.command(epilog="Example: temperance predict galaxy.tp galaxy --format json")
def predict(
    saved: Annotated[Path, typer.Argument(help="A result that fit or compare saved.")],
    source: Source,
    columns: Columns = None,
    missing: Missing = "error",
    array: ArrayName = None,
    delimiter: Delimiter = "",
    out: Annotated[Path | None, typer.Option(help="Write the rows as csv here.")] = None,
    format: Format = "auto",
) -> None:
    """For each new row: its log density and the most probable component (or the predicted target)."""
    to_person = person(format)
    result = tp.load(saved)
    fitted = result.best_fit if isinstance(result, tp.Comparison) else result
    rows = _predictions(result, fitted, source, columns, missing, array, delimiter)
    if out is not None:
        names = list(rows)
        lines = [",".join(names)] + [",".join(repr(v) for v in row) for row in zip(*rows.values(), strict=True)]
        out.write_text("\n".join(lines) + "\n", "utf-8")
    if to_person:
        if out is None:
            show_table({name: [shown(name, value) for value in values[:50]] for name, values in rows.items()})
        size = len(next(iter(rows.values())))
        typer.echo(f"{size:,} rows" + (f" in {out}" if out else ", the first 50 shown" if size > 50 else ""))
    elif out is None:
        typer.echo(as_json([dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]))
    else:
        typer.echo(as_json({"rows": len(next(iter(rows.values()))), "out": str(out)}))


@app.command(epilog="Example: temperance report galaxy.tp galaxy.html")
def report(
    saved: Annotated[Path, typer.Argument(help="A result that fit or compare saved.")],
    page: Annotated[Path, typer.Argument(help="The HTML file to write.")],
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
) -> None:
    """Write one self-contained HTML page about a saved result."""
    path = tp.report(tp.load(saved), page, title=title)
    typer.echo(f"the report is in {path}")


@app.command(epilog="Example: temperance demo --out demo")
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report and the picture.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and starts, and no Monte Carlo.")] = False,
) -> None:
    """How many groups of galaxies? Every method, the Ockham hill and a report, in a few minutes the first time."""
    from .demo import run_demo

    run_demo(out, quick)


@app.command("models", epilog="Example: temperance models --format json")
def list_models(format: Format = "auto") -> None:
    """What there is, and which methods each model supports."""
    if not person(format):
        record = {
            "models": {name: {"about": e.about, "data": e.data, "methods": e.methods} for name, e in MODELS.items()},
            "methods": {name: {"about": e.about, "evidence": e.evidence} for name, e in METHODS.items()},
        }
        typer.echo(as_json(record))
        return
    show_table(
        {
            "model": list(MODELS),
            "what it is": [entry.about for entry in MODELS.values()],
            "data": [entry.data for entry in MODELS.values()],
            "methods": [", ".join(entry.methods) for entry in MODELS.values()],
        }
    )
    show_table(
        {
            "method": list(METHODS),
            "what it is": [entry.about for entry in METHODS.values()],
            "its log evidence": [entry.evidence for entry in METHODS.values()],
        }
    )


@app.command(epilog="Example: temperance reproduce old-faithful --out figures")
def reproduce(
    name: Annotated[str | None, typer.Argument(help="The figure; without one, the names are listed.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for the figure.")] = Path("out"),
) -> None:
    """Regenerate a figure of the papers."""
    from .gallery import figures, make_figure

    if name is None:
        typer.echo("\n".join(figures()))
    else:
        make_figure(name, out)


def show_comparison(result: tp.Comparison, notes: list[str]) -> None:
    """The table, the three-line conclusion, and what else a reader should know."""
    rows = result.rows()
    kept = [name for name in rows[0] if name not in ("seconds", "failure")]
    show_table({name.replace("_", " "): [shown(name, row[name]) for row in rows] for name in kept})
    typer.echo("\n".join(conclusion(result)))
    labels = about_labels(result)
    for note in [*([labels] if labels else []), *warnings(result), *notes]:
        typer.echo(f"note: {note}")


def _models(
    name: str, numbers: list[int], data: inputs.Source, flags: dict[str, Any], file: Path | None, covariance: str,
    missing: str,
) -> dict[Any, Any]:  # fmt: skip
    entry = model_entry(name)
    values = inputs.prior_values(flags, file)
    for key in values:
        if ("concentration" if key == "concentration" else "components") not in entry.priors:
            raise InvalidParameter(f"--model {name} takes no --{key.replace('_', '-')}")
    prior = inputs.component_prior(values, data, covariance) if "components" in entry.priors else None
    holes = "marginalise" if missing == "marginalise" and entry.data == "table" else None
    concentration = values.get("concentration", 1.0)
    return {size: entry.make(size, prior, concentration, covariance, holes) for size in numbers}


def _fit_record(result: tp.Fit, model: str, size: int, method: str, notes: list[str]) -> dict[str, Any]:
    bound = METHODS[method].evidence == "a lower bound"
    low, high = result.bracket or (result.log_evidence if bound else None, None)
    return {
        "model": model,
        "components": size,
        "method": method,
        "log_evidence": result.log_evidence,
        "low": low,
        "high": high,
        "converged": result.converged,
        "seconds": result.seconds,
        "seed": result.seed,
        "table": result.table(),
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


def _predictions(
    result: Any, fitted: tp.Fit, source: str, columns: str | None, missing: str, array: str | None, delimiter: str
) -> dict[str, list[Any]]:
    entry = next((e for e in MODELS.values() if isinstance(fitted.model, Topical) and e.data == "corpus"), None)
    if entry is not None:
        corpus = inputs.read(entry, source).values
        shares = fitted.transform(corpus)
        return {f"topic {k + 1}": shares[:, k].tolist() for k in range(shares.shape[1])}
    table = inputs.read(
        MODELS["gaussian-mixture"], source, columns=columns, missing=missing, array=array, delimiter=delimiter
    ).values
    if isinstance(fitted.model, Regressing):
        found = fitted.predict(table)
        return {"mean": np.asarray(found.mean).tolist(), "variance": np.asarray(found.variance).tolist()}
    rows: dict[str, list[Any]] = {"log_density": result.log_predictive(table).tolist()}
    if isinstance(fitted.model, Labelled):
        shares = fitted.responsibilities(table)
        rows["component"] = np.argmax(shares, axis=1).tolist()
        rows["probability"] = shares.max(axis=1).tolist()
    return rows


def _command() -> str:
    return "temperance " + " ".join(sys.argv[1:]) if sys.argv and "temperance" in sys.argv[0] else ""


def _interrupted(out: Path | None, what: str) -> None:
    saved = f"; {out} holds {what}" if out else "; with --out FILE what was done would have been saved"
    typer.echo(f"temperance: interrupted{saved}", err=True)
    raise typer.Exit(1)
