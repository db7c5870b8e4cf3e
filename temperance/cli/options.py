"""The flags that commands share, and what they say before any data are read.

A parameter of a command whose type is one of these dataclasses stands for one flag for each of its fields.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from .. import registry
from ..errors import InvalidParameter
from ..registry import MethodEntry, ModelEntry
from .settings import Settings, from_file, toml

PRIOR_KEYS = ("mean", "pseudo_count", "dof", "scatter", "concentration")
_MODELS = [entry.command for entry in registry.models() if entry.command]
_METHODS = [entry.command for entry in registry.methods()]

_FORMS = ("full", "diag", "spherical")


def _datasets(incomplete: str) -> list[str]:
    """The data sets that the shell offers besides files."""
    from ..datasets import names

    return [name for name in names() if name.startswith(incomplete)]


Source = Annotated[
    str,
    typer.Argument(help="A file, - for standard input, or the name of a bundled data set.", autocompletion=_datasets),
]
Saved = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A result that fit or compare saved.")]


def starting(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Completions of a list with commas whose last name is incomplete."""

    def offered(incomplete: str) -> list[str]:
        head, comma, last = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in names if name.startswith(last)]

    return offered


Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="text, json, or auto: text on a terminal, json in a pipe.",
        autocompletion=starting(("text", "json", "auto")),
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        help=f"One of {', '.join(_MODELS)}; or FILE.py:NAME, a model, a graph or a function of the size.",
        autocompletion=starting(_MODELS),
    ),
]
MethodNames = Annotated[
    str,
    typer.Option("--method", help=f"Of {', '.join(_METHODS)}.", autocompletion=starting(_METHODS)),
]


@dataclass(frozen=True)
class Columns:
    """The flags about the columns of a table: which to read, and their kinds."""

    columns: Annotated[str | None, typer.Option(help="Columns to use: names, numbers from 1, or 2:4; with commas.")] = (
        None
    )
    na: Annotated[
        str | None,
        typer.Option("--na", help="Cells that stand for a missing value besides the usual: -99,none; in one column: "
                     "sex=9. Unless given, codes such as -99 that several columns share are; '' keeps them."),
    ] = None  # fmt: skip
    delimiter: Annotated[str, typer.Option(help="Between cells of a text file; found by itself unless given.")] = ""
    as_: Annotated[
        str | None,
        typer.Option("--as", help="What columns of a table are: income=positive,wt=weight,nr=id."),
    ] = None

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds given by `--as`: column → kind."""
        pairs = [part.partition("=") for part in (self.as_ or "").split(",") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise InvalidParameter(f"--as must be like income=positive,region=category, got {self.as_!r}")
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    @property
    def gaps(self) -> tuple[str, ...] | None:
        """The words given by `--na`, or None."""
        if self.na is None:
            return None
        return tuple(word.strip() for word in (self.na or "").split(",") if word.strip())


@dataclass(frozen=True)
class Reading(Columns):
    """How data of any kind are read."""

    missing: Annotated[str, typer.Option(help="Empty cells: error, drop (those rows) or marginalise.")] = "error"
    array: Annotated[str | None, typer.Option("--array", help="Which array of an npz file.")] = None
    text: Annotated[str | None, typer.Option("--text", help="The column of texts, for topics.")] = None
    language: Annotated[str, typer.Option(help="Of texts, for their stop words; none keeps them.")] = "english"

    def __post_init__(self) -> None:
        _choice("missing", self.missing, ("error", "drop", "marginalise"))


@dataclass(frozen=True)
class Problem:
    """The data, the model and its prior."""

    source: Source
    model: ModelName = "mixture"
    target: Annotated[str | None, typer.Option(help="The column to predict, for a regression.")] = None
    vocabulary: Annotated[Path | None, typer.Option(help="A file of words, one a line, for topics.")] = None
    covariance: Annotated[str, typer.Option(help="full, diag or spherical.", autocompletion=starting(_FORMS))] = "full"
    mean: Annotated[str | None, typer.Option(help="Prior mean of a component.")] = None
    pseudo_count: Annotated[float | None, typer.Option(help="Prior pseudo-count of the mean.")] = None
    dof: Annotated[float | None, typer.Option(help="Prior degrees of freedom of the precision.")] = None
    scatter: Annotated[str | None, typer.Option(help="Prior scatter: E[precision] = dof · scatter⁻¹.")] = None
    concentration: Annotated[float | None, typer.Option(help="Dirichlet parameter of the weights (default 1).")] = None
    prior: Annotated[
        Path | None, typer.Option("--prior", help="A TOML file with mean, pseudo_count, dof, …")
    ] = None  # fmt: skip
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, any argument of the model or the method; repeatable.")
    ] = None
    config: Annotated[
        str | None,
        typer.Option("--config", is_eager=True, callback=from_file, help="A TOML file with any of these flags."),
    ] = None

    def __post_init__(self) -> None:
        _choice("covariance", self.covariance, _FORMS)
        self.prior_values()  # raises if the model is not known, or does not take these flags

    @property
    def entry(self) -> ModelEntry:
        if ".py:" in self.model:
            written = next(entry for entry in registry.models() if entry.name == "Graph")
            return dataclasses.replace(written, command=self.model, size=0, methods=tuple(_METHODS))
        return registry.model(self.model)

    @property
    def settings(self) -> Settings:
        """The settings of the file, overridden by those of the command line."""
        return Settings([*(self.config or "").splitlines(), *(self.set_ or [])])

    def prior_values(self) -> dict[str, Any]:
        """The values of the prior from the flags, which override those of a TOML file."""
        values = {} if self.prior is None else toml(self.prior, "prior")
        values |= self.settings.prior()
        unknown = [key for key in values if key not in PRIOR_KEYS]
        if unknown:
            raise InvalidParameter(f"a prior has no {unknown[0]!r}; it may have {', '.join(PRIOR_KEYS)}")
        flags = {key: getattr(self, key) for key in PRIOR_KEYS if getattr(self, key) is not None}
        values |= {key: _prior_numbers(key, value) for key, value in flags.items()}
        for key in values:
            if ("concentration" if key == "concentration" else "prior") not in self.entry.flags:
                raise InvalidParameter(f"--model {self.model} takes no --{key.replace('_', '-')}")
        return values


@dataclass(frozen=True)
class Budget:
    """How long a method runs, and from where."""

    restarts: Annotated[int | None, typer.Option(min=1, help="Random starts (10; svi 1); the best is kept.")] = None
    draws: Annotated[int | None, typer.Option(min=20, help="Sweeps of a Monte Carlo method (2000).")] = None
    temperatures: Annotated[
        str | None, typer.Option(help="annealed: one temperature per sweep; vt, lvt: the grid, from 1: 1,2,5,10.")
    ] = None
    length: Annotated[
        float | None, typer.Option(help="Sweeps (of topics: passes) of annealed, vt and lvt until T = 1.")
    ] = None
    reference: Annotated[
        str | None, typer.Option(help="Where the path of pt, ais and smc starts: prior, narrowed or auto.")
    ] = None
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0

    def method(self, entry: MethodEntry, model: ModelEntry, settings: Settings = Settings(())) -> Any:
        """The method with this budget; a tempered method is variational Bayes, for topics by minibatches."""
        # Sweeps are counted by whole numbers; passes over minibatches may have a part of one.
        whole = self.length is not None and self.length.is_integer()
        given = {
            "restarts": self.restarts,
            "draws": self.draws,
            "warmup": None if self.draws is None else self.draws // 2,
            "temperatures": _temperatures(self.temperatures),
            "length": int(self.length) if whole and self.length is not None else self.length,
            "reference": self.reference,
        }
        options = dict(entry.defaults) | {key: value for key, value in given.items() if value is not None}
        if entry.tempered and model.data == "corpus":
            options["method"] = registry.method("svi").make()
        return entry.make(settings.of("method", registry.resolve(entry.name)) if settings.values else {}, **options)


@dataclass(frozen=True)
class Output:
    """The flags for the destination of the result."""

    out: Annotated[Path | None, typer.Option(help="Save the result here, for predict and report.")] = None
    report: Annotated[Path | None, typer.Option("--report", help="Also write a report (HTML) here.")] = None
    format: Format = "auto"

    def __post_init__(self) -> None:
        check_format(self.format)


def flattened(function: Callable[..., None]) -> Callable[..., None]:
    """A command in which each parameter whose type is a dataclass is replaced by that class's fields."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        alone = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        parameters += _flags_of(groups[name]) if name in groups else [alone]

    @functools.wraps(function)
    def command(**flags: Any) -> None:
        for name, kind in groups.items():
            flags[name] = kind(**{field.name: flags.pop(field.name) for field in fields(kind)})
        function(**flags)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _flags_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(group)
    ]


def check_format(format: str) -> None:
    _choice("format", format, ("auto", "text", "json"))


_MOST_SIZES = 10_000


def sizes(text: str, name: str = "components") -> list[int]:
    """1:6 (the last included), 3, or 1,2,5."""
    found: list[int] = []
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not first.isdecimal() or (colon and not last.isdecimal()):
            raise InvalidParameter(f"--{name} must be like 3, 1:6 or 1,2,5, got {text!r}")
        low, high = int(first), int(last or first)
        if low < 1 or high < low:
            raise InvalidParameter(f"--{name} must go up from at least 1, got {text!r}")
        if high - low >= _MOST_SIZES:
            raise InvalidParameter(f"--{name} must name at most {_MOST_SIZES:,} sizes, got {text!r}")
        found += range(low, high + 1)
    return list(dict.fromkeys(found))


def chosen_methods(names: str, problem: Problem, budget: Budget) -> dict[str, MethodEntry]:
    """The methods of a list such as "vb,ep,pt", checked against the model."""
    chosen = [registry.method(name.strip()) for name in names.split(",") if name.strip()]
    if not chosen:
        raise InvalidParameter("--method must name at least one method")
    able = problem.entry.methods
    for entry in chosen:
        if entry.command not in able and not entry.tempered:
            raise InvalidParameter(
                f"--method {entry.command} does not work for --model {problem.model}; {', '.join(able)} do"
            )
    for flag in ("temperatures", "length", "reference"):
        if getattr(budget, flag) is not None and not any(flag in entry.options for entry in chosen):
            takers = ", ".join(entry.command for entry in registry.methods() if flag in entry.options)
            raise InvalidParameter(f"--{flag} is for --method {takers}, got --method {names}")
    _temperatures(budget.temperatures)
    if problem.settings.values:
        kinds = {entry.command: registry.resolve(entry.name) for entry in chosen}
        problem.settings.require_use(registry.resolve(problem.entry.name), kinds)
    return {entry.command: entry for entry in chosen}


def _temperatures(text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InvalidParameter(f"--temperatures must be numbers with commas, such as 1,2,5, got {text!r}") from None


def _prior_numbers(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError as error:
        raise InvalidParameter(
            f"--{key.replace('_', '-')} must be a number or some, with commas, got {value!r}"
        ) from error
    return numbers if len(numbers) > 1 else numbers[0]


def _choice(name: str, value: str, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        listed = f"{', '.join(accepted[:-1])} or {accepted[-1]}"
        raise InvalidParameter(f"--{name} must be {listed}, got {value!r}")
