"""From flags to models, data and priors."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp

from ..data.load import Table, load_corpus, load_table
from ..errors import InvalidData, InvalidParameter
from .registry import ModelEntry

PRIOR_KEYS = ("mean", "pseudo_count", "dof", "scatter", "concentration")


@dataclass(frozen=True)
class Source:
    """Data ready to fit, and what is worth saying about them."""

    values: Any
    name: str
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return self.values.shape[1]


def read(
    entry: ModelEntry,
    source: str,
    *,
    columns: str | None = None,
    target: str | None = None,
    missing: str = "error",
    array: str | None = None,
    delimiter: str = "",
    vocabulary: Path | None = None,
) -> Source:
    """The data of a model, from whatever the user named."""
    if missing not in ("error", "drop", "marginalise"):
        raise InvalidParameter(f"--missing must be error, drop or marginalise, got {missing!r}")
    if entry.data == "corpus":
        corpus = load_corpus(source, vocabulary=vocabulary)
        return Source(corpus, source)
    table = load_table(source, columns=columns, array=array, delimiter=delimiter)
    notes = [f"left out the text column {name!r}" for name in table.left_out]
    if entry.data == "regression":
        return _pair(table, target, missing, notes)
    table, note = _holes(table, missing)
    return Source(table.values, table.name, table.columns, (*notes, *note))


def _pair(table: Table, target: str | None, missing: str, notes: list[str]) -> Source:
    if target is None:
        raise InvalidParameter("--target must name the column to predict")
    table, note = _holes(table, "drop" if missing == "drop" else "error")
    y = table.choose(target)
    rest = [name for name in table.columns if name not in y.columns]
    if len(y.columns) != 1 or not rest:
        raise InvalidParameter(f"--target must name one column and leave at least one other, got {target!r}")
    return Source((table.choose(rest).values, y.values[:, 0]), table.name, tuple(rest), (*notes, *note))


def _holes(table: Table, missing: str) -> tuple[Table, list[str]]:
    holes = np.isnan(table.values)
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
    return table._replace(values=table.values[kept]), [f"left out {int((~kept).sum())} rows with empty cells"]


def sizes(text: str) -> list[int]:
    """1:6 (the last included), 3, or 1,2,5."""
    found: list[int] = []
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not first.isdigit() or (colon and not last.isdigit()):
            raise InvalidParameter(f"--components must be like 3, 1:6 or 1,2,5, got {text!r}")
        low, high = int(first), int(last or first)
        if low < 1 or high < low:
            raise InvalidParameter(f"--components must go up from at least 1, got {text!r}")
        found += range(low, high + 1)
    return list(dict.fromkeys(found))


def prior_values(flags: dict[str, Any], file: Path | None) -> dict[str, Any]:
    """What the flags say, over what a TOML file says."""
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = tomllib.loads(file.read_text("utf-8"))
        except FileNotFoundError as error:
            raise InvalidParameter(f"--prior: there is no file {str(file)!r}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"--prior: {file.name} is not TOML: {error}") from error
        unknown = [key for key in values if key not in PRIOR_KEYS]
        if unknown:
            raise InvalidParameter(f"--prior: {file.name} has {unknown[0]!r}; it may have {', '.join(PRIOR_KEYS)}")
    return values | {key: _numbers(key, value) for key, value in flags.items() if value is not None}


def _numbers(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError as error:
        raise InvalidParameter(
            f"--{key.replace('_', '-')} must be a number or some, with commas, got {value!r}"
        ) from error
    return numbers if len(numbers) > 1 else numbers[0]


def component_prior(values: dict[str, Any], source: Source, covariance: str) -> Any:
    """The prior of Gaussian components, or None for the default. What is not given is taken from the data: their
    mean, their variances as scatter, 0.01 as pseudo-count and one degree of freedom more than the least whole one."""
    given = {key: value for key, value in values.items() if key != "concentration"}
    if not given or covariance not in ("full", "diag", "spherical"):
        return None  # the model itself refuses another name
    d = source.width
    mean = np.asarray(given.get("mean", np.nanmean(source.values, axis=0)), dtype=np.float64)
    if mean.ndim > 1 or (mean.ndim == 1 and len(mean) not in (1, d)):
        raise InvalidParameter(f"--mean must be one number or {d} of them, got {mean.size}")
    mean = np.broadcast_to(mean, (d,))
    variances = np.nanvar(source.values, axis=0)
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
