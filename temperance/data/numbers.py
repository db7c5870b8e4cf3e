"""Tables of numbers with a schema: ids, constants and words are set apart, and the schema says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..errors import InvalidData
from . import load
from .recognise import Raw, recognise
from .schema import Column, Schema, nothing_used, shortened
from .tables import Table


def with_schema(found: load.Table, columns: str | Sequence[str] | None = None) -> Table:
    """The chosen columns, or all columns of numbers that vary and are not ids; ids are kept beside them."""
    everything = columns is None and found.written
    asked = () if everything else found.choose(columns).columns
    each: list[tuple[Column, np.ndarray]] = []
    for place, name in enumerate(found.columns):
        numbers = found.values[:, place]
        column, texts = recognise(Raw(name, numbers=numbers, first=place == 0))
        apart = column.kind in ("id", "constant") if everything else name not in asked
        if not apart:
            reason, question = (column.reason, column.question) if everything else ("", "")
            each.append((Column(name, "real", reason, (), column.gaps, question), numbers))
        elif everything or (found.written and column.kind == "id"):
            each.append((column, texts))
    each += [_words(raw) for raw in found.texts]
    if asked:
        each.sort(key=lambda item: asked.index(item[0].name) if item[0].name in asked else len(asked))
    if not each:
        raise InvalidData(f"{found.name} has no columns")
    if not any(column.used for column, _ in each):
        raise InvalidData(nothing_used(found.name, each[0][0]))
    return Table(Schema(tuple(column for column, _ in each)), {c.name: values for c, values in each}, found.name)


def like(found: load.Table, schema: Schema) -> Table:
    """The columns of an earlier table (`schema`), found by their names in a new one; ids are kept beside them."""
    here = with_schema(found)
    numbers = dict(zip(found.columns, found.values.T, strict=True))
    lacking = tuple(column.name for column in schema.used if column.name not in numbers)
    if lacking:
        raise InvalidData(f"{found.name} lacks the column {lacking[0]!r}; its columns are {shortened(found.columns)}")
    names = [column.name for column in schema.used]
    ids = [c for c in here.schema if c.kind == "id" and c.name not in names]
    values = {name: numbers[name] for name in names} | {column.name: here[column.name] for column in ids}
    return Table(Schema((*(Column(name, "real") for name in names), *ids)), values, found.name)


def _words(raw: Raw) -> tuple[Column, np.ndarray]:
    column, _ = recognise(raw)
    if not column.used:
        return recognise(raw)
    reason = f"{column.reason}, and this model is for numbers; temperance groups takes words too"
    return dataclasses.replace(column, kind="text", levels=(), reason=reason), recognise(raw, "text")[1]
