"""`--set KEY=VALUE`, `--config FILE` and `--model FILE.py:NAME`: any argument of the Python calls, without a flag for
each."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from ..errors import InvalidParameter

_TABLES = ("model", "method", "prior")  # of a TOML file; also what may stand before a key, as in method.tol


def toml(file: Path, flag: str) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InvalidParameter(f"--{flag}: there is no file {str(file)!r}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"--{flag}: {file.name} is not TOML: {error}") from error


def from_file(context: typer.Context, file: str | None) -> str | None:
    """Flags that a TOML file gives, which those of the command line override; its tables as lines of KEY=VALUE."""
    if file is None:
        return None
    known = {parameter.name.rstrip("_"): parameter.name for parameter in context.command.params if parameter.name}
    defaults: dict[str, Any] = {}
    lines: list[str] = []
    for key, value in toml(Path(file), "config").items():
        name = key.replace("-", "_")
        if isinstance(value, dict) and key in _TABLES:
            lines += [f"{key}.{argument}={json.dumps(given)}" for argument, given in value.items()]
        elif name not in known or isinstance(value, dict):
            tables = ", ".join(f"[{table}]" for table in _TABLES)
            accepted = ", ".join(sorted(set(known) - {"config", "help"}))
            raise InvalidParameter(f"--config: {file} has {key!r}; it may have {accepted}, and the tables {tables}")
        else:
            whole = not isinstance(value, list) or name == "set"
            defaults[known[name]] = value if whole else ",".join(map(str, value))
    context.default_map = {**(context.default_map or {}), **defaults}
    return "\n".join(lines)


class Settings:
    """Values by key; a key may say whose it is: model.concentration, method.tol, prior.scatter."""

    def __init__(self, lines: Iterable[str]):
        self.values: dict[str, Any] = {}
        for line in lines:
            key, equals, text = (part.strip() for part in line.partition("="))
            if not equals or not key:
                raise InvalidParameter(f"--set must be like tol=1e-8 or method.tol=1e-8, got {line!r}")
            self.values[key] = _value(text)

    def prior(self) -> dict[str, Any]:
        return {key.removeprefix("prior."): value for key, value in self.values.items() if key.startswith("prior.")}

    def of(self, what: str, kind: type, skip: int = 0) -> dict[str, Any]:
        """The arguments of this class, which is the "model" or a "method"; the first `skip` have flags of their own."""
        takes = list(inspect.signature(kind).parameters)[skip:]
        named = {key.removeprefix(f"{what}."): value for key, value in self.values.items()}
        return {key: value for key, value in named.items() if key in takes}

    def require_use(self, model: type, methods: Mapping[str, type]) -> None:
        """Refuse keys that are arguments neither of the model nor of one of the methods."""
        for key in self.values:
            whose, _, name = key.rpartition(".")
            able = {"model": [model], "method": [*methods.values()], "": [model, *methods.values()], "prior": []}
            if whose not in able:
                raise InvalidParameter(f"--set {key}: what stands before the dot must be model, method or prior")
            takers = [kind.__name__ for kind in able[whose] if name in inspect.signature(kind).parameters]
            if whose == "" and model.__name__ in takers and len(takers) > 1:
                raise InvalidParameter(f"--set {key}: {' and '.join(takers)} take it; say model.{key} or method.{key}")
            if whose != "prior" and not takers:
                known = "; ".join(
                    f"{kind.__name__} takes {', '.join(inspect.signature(kind).parameters)}" for kind in able[whose]
                )
                raise InvalidParameter(f"--set {key}: {known}")


def model_in_file(text: str, size: int) -> Any:
    """The model named by FILE.py:NAME, which is a model, a graph, or a function that makes one (of this size, if
    any)."""
    import runpy

    from ..graph.language import Graph
    from ..models import Model

    file, _, name = text.rpartition(":")
    if not Path(file).is_file():
        raise InvalidParameter(f"--model: there is no file {file!r}")
    made = runpy.run_path(file).get(name)
    if callable(made) and not isinstance(made, Model | Graph):
        made = made(size) if size else made()
    elif size and isinstance(made, Model | Graph):
        raise InvalidParameter(f"--components needs a function: {name!r} of {file} is one model")
    if isinstance(made, Graph):
        made = made.model()
    if not isinstance(made, Model):
        raise InvalidParameter(
            f"--model: {name!r} of {file} must be a model, a tp.Graph or a function, got {made!r:.40}"
        )
    return made


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
