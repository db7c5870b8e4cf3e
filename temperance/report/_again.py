"""Code that reproduces a fit or a comparison."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from ..comparison.comparison import Comparison
from ..fit import Fit
from ..models._answers import Drawable


def code_of(result: Fit | Comparison) -> str:
    """A program that makes this result, except for the data and the models, which only the user can name."""
    lines = ["import temperance as tp", "", "# x: your data"]
    if isinstance(result, Comparison):
        by = {name: row[0].fit.method for name, row in zip(result.methods, result.cells, strict=True) if row[0].fit}
        lines.append(_models_of(result))
        lines += ["methods = {", *(f"    {name!r}: {call_of(method)}," for name, method in by.items()), "}"]
        lines += [f"hill = tp.compare(models, x, methods, seed={result.seed!r})", "print(hill.summary())"]
    else:
        size = result.model.words.size if result.model.words.parts else None
        model = f"tp.{type(result.model).__name__}({'' if size is None else size})"
        if isinstance(result.model, Drawable):
            lines[-1] = "# x: your data, g: the graph above"
            model = "g.model()"
        lines += [f"fit = tp.fit({model}, x, {call_of(result.method)}, seed={result.seed!r})", "print(fit.summary())"]
    return "\n".join(lines)


def _models_of(comparison: Comparison) -> str:
    """The models of a comparison as code, if they differ only in size and have no other arguments."""
    kinds = {type(cell.fit.model) for row in comparison.cells for cell in row if cell.fit is not None}
    if len(kinds) == 1 and comparison.size_name.endswith("s") and all(isinstance(k, int) for k in comparison.models):
        (kind,) = kinds
        needed = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
        if len(needed) == 1:
            return f"models = [tp.{kind.__name__}(k) for k in {list(comparison.models)}]  # and your settings"
    return "# models: those of the table above"


def call_of(method: Any) -> str:
    """The call that makes a method, with the arguments that differ from their defaults (one may be another method)."""
    given = []
    for field in dataclasses.fields(method):
        value = getattr(method, field.name)
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        if field.init and field.repr and repr(value) != repr(default):
            given.append(f"{field.name}={call_of(value) if dataclasses.is_dataclass(value) else repr(value)}")
    return f"tp.{type(method).__name__}({', '.join(given)})"
