"""A user's data as arrays, one for each input and observed variable, with the plates' sizes they imply."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.arrays import as_numbers
from ..errors import InvalidData
from .errors import PlateMismatch, drawn
from .spec import Quantity, Spec


def as_columns(spec: Spec, data: Any) -> dict[str, np.ndarray]:
    """One array for each column of the graph, from a dictionary or a frame (by name), a tuple (in the order of
    definition) or a single array. A frame may have further columns."""
    wanted = [q.name for q in spec.columns]
    if hasattr(data, "columns") and not isinstance(data, Mapping):
        data = _from_frame(spec, data, wanted)
    if isinstance(data, Mapping):
        given = dict(data)
    elif isinstance(data, tuple) and len(data) == len(wanted):
        given = dict(zip(wanted, data, strict=True))
    elif len(wanted) == 1:
        given = {wanted[0]: data}
    else:
        raise InvalidData(f"data must be a dictionary with {_listed(wanted)} (or a tuple in this order)")
    missing, surplus = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
    if missing or surplus:
        found = _listed(list(given)) or "nothing"
        raise InvalidData(f"data must hold {_listed(wanted)}, found {found}")
    columns = {q.name: _column(spec, q, given[q.name]) for q in spec.columns}
    lengths = {name: column.shape[0] for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        found = " × ".join(drawn(n, (spec.data_plate,), {spec.data_plate: k}) for n, k in lengths.items())
        raise PlateMismatch(f"the data have different numbers of members on plate {spec.data_plate!r}: {found}")
    if not next(iter(lengths.values())):
        raise InvalidData("data has no rows: at least one is needed")
    return columns


def _from_frame(spec: Spec, frame: Any, wanted: list[str]) -> Any:
    """The columns of a frame by name; if the graph has a single column, all columns of the frame as one vector, or a
    single column as a number."""
    if set(wanted) <= set(frame.columns):
        return {name: np.asarray(frame[name]) for name in wanted}
    if len(wanted) > 1:
        raise InvalidData(f"the data must have the columns {_listed(wanted)}, found {_listed(list(frame.columns))}")
    rows = frame.matrix() if hasattr(frame, "matrix") else np.asarray(frame)
    return rows if event_rank(spec.columns[0]) or rows.shape[1] != 1 else rows[:, 0]


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _column(spec: Spec, q: Quantity, value: Any) -> np.ndarray:
    x = as_numbers(value, q.name)
    event = event_rank(q)
    if x.ndim != len(q.plates) + event:
        wanted = [*q.plates, *(("dimension",) if event else ())]
        hint = (
            ": leave out the last axis, as in data[:, 0]" if x.shape[-1:] == (1,) and x.ndim == len(wanted) + 1 else ""
        )
        raise InvalidData(f"{q.name} must have the axes ({', '.join(wanted)}), got an array of shape {x.shape}{hint}")
    if event and x.shape[-1] != q.size:
        raise InvalidData(f"{q.name} must have {q.size} entries on its last axis, got shape {x.shape}")
    axes = [spec.axis(plate) for plate in q.plates]
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    x = np.transpose(x, (*order, *range(len(axes), x.ndim)))
    _check_support(q, x)
    return x


def event_rank(q: Quantity) -> int:
    return 1 if (q.value == "real" and not q.scalar) or q.kind == "multinomial" else 0


def _check_support(q: Quantity, x: np.ndarray) -> None:
    seen = x[~np.isnan(x)]
    if q.kind == "input" and seen.size < x.size:
        raise InvalidData(f"input {q.name!r} must not be missing (NaN): only observed variables may be")
    if not np.isfinite(seen).all():
        raise InvalidData(f"{q.name} must be finite (NaN stands for missing), found {seen[~np.isfinite(seen)][0]}")
    if q.value in ("category", "count"):
        largest = q.size - 1 if q.value == "category" else np.inf
        wrong = (seen < 0) | (seen != np.round(seen)) | (seen > largest)
        if wrong.any():
            accepted = f"whole numbers from 0 to {largest}" if q.value == "category" else "whole numbers from 0"
            raise InvalidData(f"{q.name} must be {accepted}, found {seen[wrong][0]:g}")
    if q.value == "positive" and (seen <= 0).any():
        raise InvalidData(f"{q.name} must be positive, found {seen[seen <= 0][0]:g}")
    if event_rank(q) and q.observed and seen.size < x.size:
        partly = np.isnan(x).any(axis=-1) & ~np.isnan(x).all(axis=-1)
        if partly.any():
            raise InvalidData(
                f"a vector {q.name!r} must be missing (NaN) as a whole or not at all, found one with a part of it; "
                "variables on a plate of columns may be missing one by one"
            )


def resolve_sizes(spec: Spec, columns: Mapping[str, np.ndarray]) -> Spec:
    """The spec with the sizes of all plates except the plate of the data, whose size may change."""
    sizes = dict(spec.sizes)
    origin = dict.fromkeys(sizes, "the graph")
    for q in spec.columns:
        plates = sorted(q.plates, key=spec.axis)
        for plate, size in zip(plates, columns[q.name].shape, strict=False):
            if plate == spec.data_plate:
                continue
            if sizes.setdefault(plate, size) != size:
                here = drawn(q.name, q.plates, dict(zip(plates, columns[q.name].shape, strict=False)))
                raise PlateMismatch(
                    f"plate {plate!r} has {sizes[plate]} members by {origin[plate]}, but {size} by the data: "
                    f"{here} × {_others(spec, plate, sizes)}"
                )
            origin.setdefault(plate, f"{q.name!r}")
    unknown = {p for q in spec if q.random for p in q.plates} - set(sizes) - {spec.data_plate}
    if unknown:
        name = sorted(unknown)[0]
        raise PlateMismatch(f"plate {name!r} has no size: no data are on it, so give g.plate({name!r}, size)")
    return dataclasses.replace(spec, sizes=tuple(sorted((p, n) for p, n in sizes.items() if p != spec.data_plate)))


def _others(spec: Spec, plate: str, sizes: dict[str, int]) -> str:
    return " × ".join(drawn(q.name, q.plates, sizes) for q in spec if plate in q.plates and q.random and not q.observed)


def check_columns(spec: Spec, columns: Mapping[str, np.ndarray]) -> None:
    """Refuse new rows unless they have the sizes with which the model was completed."""
    resolve_sizes(spec, columns)


def input_columns(spec: Spec, inputs: Any) -> dict[str, np.ndarray]:
    """The inputs alone, for predictions at new inputs."""
    wanted = tuple(q for q in spec.columns if q.kind == "input")
    only = dataclasses.replace(spec, quantities=wanted)
    return as_columns(only, inputs)
