"""The commands. They import the library when they run, so that help and errors about flags do not wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import registry
from ..errors import InvalidParameter
from .options import (
    Budget,
    Columns,
    Format,
    MethodNames,
    Output,
    Problem,
    Reading,
    Saved,
    Source,
    check_format,
    chosen_methods,
    flattened,
    sizes,
    starting,
)

app = typer.Typer(
    help="Fit latent-variable models, compare them by their evidence, and see which answer to trust.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_ACTIONS = ("show", "warm", "clear")


def _figures(incomplete: str) -> list[str]:
    from .gallery import figures

    return [name for name in figures() if name.startswith(incomplete)]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"temperance {version('temperance')}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")] = False,
) -> None:
    """What every command takes; `main` has seen to `--traceback` before."""


@app.command(epilog="Example: temperance fit galaxy --components 3 --method vb --out galaxy.tp")
@flattened
def fit(
    *,
    components: Annotated[
        str | None,
        typer.Option("--components", "-k", help="How many components (topics, factors): 3, of a regression 1."),
    ] = None,
    method: MethodNames = "vb",
    problem: Problem,
    budget: Budget,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the state here; the same command continues from it.")
    ] = None,
    output: Output,
    reading: Reading,
) -> None:
    """Fit one model by one method."""
    chosen = chosen_methods(method, problem, budget)
    numbers = [problem.entry.size] if components is None else sizes(components)
    if len(chosen) > 1 or len(numbers) > 1:
        raise InvalidParameter("fit takes one method and one number of components; use temperance compare for several")
    from .inputs import read

    data = read(problem, reading)
    from .work import fit_one

    (by,) = chosen.values()
    fit_one(problem, data, numbers[0], by, budget, output, checkpoint)


@app.command(
    epilog="Example: temperance compare galaxy --components 1:4 --method vb "
    "--mean 0 --pseudo-count 0.01 --dof 2 --scatter 0.22"
)
@flattened
def compare(
    *,
    components: Annotated[str, typer.Option("--components", "-k", help="Sizes to compare: 1:6, or 1,2,5.")] = "1:6",
    method: MethodNames = "vb",
    problem: Problem,
    budget: Budget,
    workers: Annotated[int, typer.Option(min=1, help="Fits made side by side.")] = 1,
    resume: Annotated[Path | None, typer.Option(help="A saved comparison whose fits are taken over.")] = None,
    output: Output,
    reading: Reading,
) -> None:
    """Fit several sizes by one or more methods; the evidence chooses."""
    chosen = chosen_methods(method, problem, budget)
    for name, entry in chosen.items():
        if entry.evidence == "none":
            raise InvalidParameter(f"--method {name} has no evidence to compare by; use vb")
    numbers = sizes(components)
    from .inputs import read

    data = read(problem, reading)
    from .work import compare_sizes

    compare_sizes(problem, data, numbers, chosen, budget, output, workers, resume)


@app.command(epilog="Example: temperance groups survey.csv --as income=positive --out survey-groups")
@flattened
def groups(
    source: Source,
    reading: Columns,
    most: Annotated[
        int | None, typer.Option(min=1, help="The largest number of groups to try (6, and more while that wins).")
    ] = None,
    covariance: Annotated[
        str, typer.Option(help="diag: columns are independent within a group; full: numbers vary together.")
    ] = "diag",
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="The folder for groups.csv, sizes.csv, report.html and fit.tp (NAME-groups).")
    ] = None,
    format: Format = "auto",
) -> None:
    """Find the groups in a table, and say which row is in which."""
    check_format(format)
    from .groups import find_groups

    find_groups(source, reading, most, covariance, seed, out, format)


@app.command(epilog="Example: temperance topics speeches.csv --text speech --topics 20 --out speeches")
@flattened
def topics(
    source: Annotated[str, typer.Argument(help="A file of texts or counts, or a folder of .txt files.")],
    reading: Reading,
    topics: Annotated[
        str | None,
        typer.Option("--topics", "-k", help="How many: 20, or sizes to choose from: 5,10,20 (chosen unless given)."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Columns (dates, categories, numbers) to show topics by; found unless given, none for none."),
    ] = None,
    seeds: Annotated[
        Path | None,
        typer.Option(help="A file with a line for each topic: words that it should have, or (-word) should not have."),
    ] = None,
    formula: Annotated[
        str | None, typer.Option(help='Columns that the shares of topics depend on, such as "~ party * year".')
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="A folder for topics.csv, documents.csv, report.html and fit.tp.")
    ] = None,
    format: Format = "auto",
) -> None:
    """Find the topics of texts, and show them over time and by group."""
    check_format(format)
    from ..data.load import in_a_file
    from .topics import Asked, find_topics

    asked = Asked(None if topics is None else sizes(topics, "topics"), by, seeds, formula)
    with in_a_file(source) as path:
        find_topics(path, reading, asked, seed, out, format)


@app.command(epilog="Example: temperance predict galaxy.tp galaxy --format json")
@flattened
def predict(
    saved: Saved,
    source: Source,
    reading: Reading,
    out: Annotated[Path | None, typer.Option(help="Write the rows as csv here.")] = None,
    format: Format = "auto",
) -> None:
    """For each new row: its log density and component, or its target."""
    check_format(format)
    from .work import predict_rows

    predict_rows(saved, source, reading, out, format)


@app.command(epilog="Example: temperance report galaxy.tp galaxy.html")
def report(
    saved: Saved,
    page: Annotated[Path, typer.Argument(help="The HTML file to write.")],
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
) -> None:
    """Write one self-contained HTML page about a saved result."""
    import temperance as tp

    path = tp.report(tp.load(saved), page, title=title)
    typer.echo(f"the report is in {path}")


@app.command(epilog="Example: temperance demo --out demo")
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report and the picture.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and starts, and no Monte Carlo.")] = False,
) -> None:
    """How many groups of galaxies? Every method, and a report."""
    from .demo import run_demo

    run_demo(out, quick)


@app.command("models", epilog="Example: temperance models --format json")
def list_models(format: Format = "auto") -> None:
    """What there is, and which methods each model supports."""
    from .output import as_json, person, show_table

    check_format(format)
    models = [entry for entry in registry.models() if entry.command]
    methods = registry.methods()
    if not person(format):
        record = {
            "models": {e.command: {"about": e.about, "data": e.data, "methods": e.methods} for e in models},
            "methods": {e.command: {"about": e.about, "evidence": e.evidence} for e in methods},
        }
        typer.echo(as_json(record))
        return
    show_table(
        {
            "model": [entry.command for entry in models],
            "what it is": [entry.about for entry in models],
            "data": [entry.data for entry in models],
            "methods": [", ".join(entry.methods) for entry in models],
        }
    )
    show_table(
        {
            "method": [entry.command for entry in methods],
            "what it is": [entry.about for entry in methods],
            "its log evidence": [entry.evidence for entry in methods],
        }
    )


@app.command(epilog="Example: temperance reproduce old-faithful --out figures")
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="The figure; without one, the names are listed.", autocompletion=_figures)
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the figure.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Few starts and draws: seconds, but not the result.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the names with the papers' figures.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All of them, and a page of ours beside the papers'.")
    ] = False,
) -> None:
    """Regenerate a figure of the papers."""
    from .gallery import claims, figures, make_all, make_figure, shown

    if listed:
        typer.echo("\n".join(f"{figure:22s} {shown(drawn)}" for figure, drawn in claims().items()))
    elif everything:
        typer.echo(f"the page is {make_all(out, quick)}")
    elif name is None:
        typer.echo("\n".join(figures()))
    else:
        make_figure(name, out, quick)


@app.command(epilog="Example: temperance cache warm")
def cache(
    action: Annotated[
        str, typer.Argument(help="show, warm (compile the common cases) or clear.", autocompletion=starting(_ACTIONS))
    ] = "show",
    format: Format = "auto",
) -> None:
    """Look after the executables that are kept between processes."""
    from .work import look_after_cache

    check_format(format)
    if action not in _ACTIONS:
        raise InvalidParameter(f"the action must be show, warm or clear, got {action!r}")
    look_after_cache(action, format)
