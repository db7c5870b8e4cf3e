"""The data and the models that the flags of a command describe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp

from .. import registry
from ..data import load
from ..data.load import documents_of, in_a_file, load_corpus, load_table
from ..data.numbers import like, with_schema
from ..data.tables import Table
from ..data.text_sources import open_texts
from ..errors import InvalidData, InvalidParameter
from .options import Columns, Problem, Reading
from .settings import model_in_file

# The one old name that says something else than it seems to.
_FACTORS = "--model factors is factorial-mixture, whose factors are on or off; factor-analysis finds hidden scores"

_FOR_COUNTS = {"GaussianMixture": "--model poisson-mixture", "HMM": "--set emission=poisson"}


@dataclass(frozen=True)
class Input:
    """Data ready to fit, and notes about them."""

    values: Any
    name: str
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: str | None = None  # how the model is to treat empty cells


def read(problem: Problem, reading: Reading) -> Input:
    """The data of a model, from the source that the user named."""
    kind = problem.entry.data
    if kind == "corpus":
        return corpus(problem.source, reading, problem.vocabulary)
    if kind == "columns":
        return columns(problem.source, reading)
    notes = (_FACTORS,) if problem.model == "factors" else ()
    found = table(problem.source, reading, problem.target, kind == "inputs and targets", notes)
    return replace(found, notes=(*found.notes, *_counts(problem, found.values)))


def _counts(problem: Problem, values: Any) -> list[str]:
    """A note on how to model small counts as counts, if they would silently be treated as real numbers."""
    better = _FOR_COUNTS.get(problem.entry.name)
    if better is None or "emission" in problem.settings.values or not isinstance(values, Table):
        return []
    x = values.matrix()
    x = x[~np.isnan(x)]
    if (x % 1 != 0).any() or not 0 <= x.min() <= 1 < x.max() < 1000:
        return []
    names = ", ".join(values.columns)
    return [f"note      taken as real numbers, though they are counts: {names}; {better} takes them as counts"]


def columns(source: str, reading: Columns, like: Any = None) -> Input:
    """A table of mixed columns with its schema; notes on what was left out come first."""
    from .. import datasets

    known = source in datasets.names() and not Path(source).exists()
    found: Any = source
    if known:
        values = datasets.load(source)
        found = dict(zip(datasets.describe(source).columns, np.asarray(values).T, strict=True))
    table = tp.read_table(found, kinds=None if like else reading.kinds, missing=reading.gaps,
                          delimiter=reading.delimiter or None, like=like)  # fmt: skip
    if reading.columns is not None:
        names = load.Table(np.zeros((0, len(table.schema))), table.schema.names, (), table.name)
        chosen = names.choose(reading.columns).columns
        beside = (column.name for column in table.schema.left_out if column.kind in ("id", "weight"))
        table = table.choose([*chosen, *(name for name in beside if name not in chosen)])
    name = source if known else Path(source).name
    sheet = (f"note      read {table.name}",) if table.name.startswith(f"{name}, sheet") else ()
    return Input(table, name, table.columns, (*str(table.schema).split("\n"), *sheet))


def corpus(source: str, reading: Reading, vocabulary: Path | None = None, tables: bool = True) -> Input:
    """Documents: texts, or counts of words (with `tables` also those of a table of numbers)."""
    language = None if reading.language == "none" else reading.language
    found = load_corpus(source, vocabulary=vocabulary, column=reading.text, language=language, tables=tables)
    return Input(found, source, notes=tuple(getattr(found, "report", ())))


def new_documents(source: str, reading: Reading, texts: bool) -> Any:
    """Documents for a fitted model, which reads texts by itself as it read those that it was fitted to; with `texts` it
    was fitted to texts, so that a table of numbers is none of them."""
    with in_a_file(source) as file, documents_of(file, reading.text) as path:
        return load_corpus(file, tables=not texts) if path is None else list(open_texts(path, reading.text).texts)


def table(
    source: str, reading: Reading, target: str | None = None, paired: bool = False, notes: tuple[str, ...] = ()
) -> Input:
    """A table of numbers; with `paired` the inputs and the column to predict from them."""
    found = _numbers(source, reading)
    read = with_schema(found, reading.columns)
    read = replace(read, schema=replace(read.schema, missing=reading.gaps or ()))
    notes += tuple(f"left out  {column}" for column in read.schema.left_out)
    notes += tuple(f"question  {question}" for question in read.schema.questions)
    if paired:
        return _pair(found, read, target, reading.missing, notes)
    read, left_out = _holes(read, reading.missing)
    holes = "marginalise" if reading.missing == "marginalise" else None
    return Input(read, read.name, read.columns, (*notes, *left_out), holes)


def new_rows(source: str, reading: Reading, schema: Any) -> Table:
    """Rows for a model of numbers that was fitted to columns with these names, where they had any."""
    found = _numbers(source, reading, () if schema is None else schema.missing)
    return with_schema(found, reading.columns) if schema is None else like(found, schema)


def _numbers(source: str, reading: Reading, missing: tuple[str, ...] = ()) -> load.Table:
    words = frozenset(word.lower() for word in (*(reading.gaps or ()), *missing))
    return load_table(source, array=reading.array, delimiter=reading.delimiter, missing=words)


def models(problem: Problem, data: Input, sizes: list[int]) -> dict[Any, Any]:
    """The model in each of these sizes."""
    if ".py:" in problem.model:
        return {size: model_in_file(problem.model, size) for size in sizes}
    values = problem.prior_values()
    prior = component_prior(values, data, problem.covariance) if "prior" in problem.entry.flags else None
    flags = {
        "prior": prior,
        "concentration": values.get("concentration", 1.0),
        "covariance": problem.covariance,
        "missing": data.missing,
    }
    given = problem.settings.of("model", registry.resolve(problem.entry.name)) if problem.settings.values else {}
    return {size: problem.entry.make(size, given, **flags) for size in sizes}


def _pair(found: load.Table, table: Table, target: str | None, missing: str, notes: tuple[str, ...]) -> Input:
    if target is None:
        raise InvalidParameter("--target must name the column to predict")
    goal = found.choose(target).columns
    rest = [name for name in table.columns if name not in goal]
    if len(goal) != 1 or not rest:
        raise InvalidParameter(f"--target must name one column and leave at least one other, got {target!r}")
    if goal[0] not in table.columns:
        raise InvalidData(f"--target must name a column that varies from row to row, got {table.schema[goal[0]]}")
    table, note = _holes(table, "drop" if missing == "drop" else "error")
    inputs = table.choose([name for name in table.schema.names if name != goal[0]])
    return Input((inputs, table[goal[0]]), table.name, tuple(rest), (*notes, *note))


def _holes(table: Table, missing: str) -> tuple[Table, list[str]]:
    holes = np.isnan(table.matrix())
    if not holes.any() or missing == "marginalise":
        return table, []
    if missing == "error":
        row, column = np.argwhere(holes)[0]
        raise InvalidData(
            f"{table.name} has {int(holes.sum())} empty cells, the first in row {row + 1} of column "
            f"{table.columns[column]!r}; use --missing drop to leave out such rows, or --missing marginalise"
        )
    kept = ~holes.any(axis=1)
    if not kept.any():
        raise InvalidData(f"every row of {table.name} has an empty cell, so --missing drop leaves nothing")
    return table.rows(kept), [f"left out  {int((~kept).sum())} rows with empty cells"]


def component_prior(values: dict[str, Any], source: Input, covariance: str) -> Any:
    """The prior of Gaussian components, or None for the default. What is not given is taken from the data: their
    mean, their variances as scatter, 0.01 as pseudo-count and one degree of freedom more than the least whole one."""
    given = {key: value for key, value in values.items() if key != "concentration"}
    if not given:
        return None
    rows = source.values.matrix()
    d = rows.shape[1]
    mean = np.asarray(given.get("mean", np.nanmean(rows, axis=0)), dtype=np.float64)
    if mean.ndim > 1 or (mean.ndim == 1 and len(mean) not in (1, d)):
        raise InvalidParameter(f"--mean must be one number or {d} of them, got {mean.size}")
    mean = np.broadcast_to(mean, (d,))
    variances = np.nanvar(rows, axis=0)
    scatter = np.asarray(given.get("scatter", variances.mean() if covariance == "spherical" else variances))
    forms = {"spherical": 1, "diag": 2}.get(covariance, 3)
    if scatter.shape not in ((), (1,), (d,), (d, d))[: forms + 1]:
        accepted = ("one number", f"{d} of them", f"(in TOML) a {d} × {d} matrix")[:forms]
        raise InvalidParameter(f"--scatter must be {' or '.join(accepted)} for --covariance {covariance}")
    # A Wishart needs more than d − 1 degrees of freedom, a Gamma more than none.
    dof = float(given.get("dof", d + 1.0 if covariance == "full" else 2.0))
    shared: dict[str, Any] = {"mean": mean, "pseudo_count": float(given.get("pseudo_count", 0.01)), "dof": dof}
    if covariance == "full":
        matrix = scatter if scatter.ndim == 2 else np.diag(np.broadcast_to(scatter, (d,)))
        return tp.NormalWishart(**shared, scatter=matrix)
    if covariance == "diag":
        return tp.Independent(tp.NormalGamma(**shared, scatter=np.broadcast_to(scatter, (d,))))
    return tp.IsotropicNormalGamma(**shared, scatter=float(scatter.reshape(())))
