"""Data that no model asked for: each a function of a clean matrix of whole numbers from 0 to 60.

`same` marks those that hold the clean numbers in another guise: an answer to them is the answer to the clean ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Make = Callable[[np.ndarray], Any]


class Hostile(NamedTuple):
    name: str
    make: Make
    same: bool = False


def with_cell(value: float, row: int = 1, column: int = 0) -> Make:
    def make(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[row, min(column, x.shape[1] - 1)] = value
        return x

    return make


def with_column(change: Callable[[np.ndarray], Any]) -> Make:
    def make(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[:, -1] = change(x)
        return x

    return make


def times(scale: float) -> Make:
    return lambda x: x * scale


def typed(dtype: Any) -> Make:
    return lambda x: x.astype(dtype)


def mapped(x: np.ndarray) -> np.ndarray:
    path = Path(tempfile.mkdtemp()) / "x.npy"
    np.save(path, x)
    return np.load(path, mmap_mode="r")


def readonly(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def strided(x: np.ndarray) -> np.ndarray:
    return np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]


def backwards(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]


def objects_with_none(x: np.ndarray) -> np.ndarray:
    x = x.astype(object)
    x[1, 0] = None
    return x


def structured(x: np.ndarray) -> np.ndarray:
    return np.array([tuple(row) for row in x], dtype=[(f"c{j}", "f8") for j in range(x.shape[1])])


def sparse(form: str) -> Make:
    def make(x: np.ndarray) -> Any:
        import scipy.sparse

        return getattr(scipy.sparse, f"{form}_matrix")(x)

    return make


def corrupt(index: int) -> Make:
    def make(x: np.ndarray) -> Any:
        matrix = sparse("csr")(x)
        matrix.indices[0] = index
        return matrix

    return make


def repeated_entries(x: np.ndarray) -> Any:
    import scipy.sparse

    rows, columns = np.nonzero(x)
    halves = x[rows, columns]
    twice = np.concatenate([np.floor(halves / 2), np.ceil(halves / 2)])
    return scipy.sparse.coo_matrix((twice, (np.tile(rows, 2), np.tile(columns, 2))), shape=x.shape)


def frame(x: np.ndarray, dtype: Any = None) -> Any:
    import pandas

    return pandas.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])], dtype=dtype)


def nullable(hole: bool) -> Make:
    def make(x: np.ndarray) -> Any:
        table = frame(x.astype(int), "Int64")
        if hole:
            table.iloc[1, 0] = None
        return table

    return make


def with_text(x: np.ndarray) -> Any:
    return frame(x).assign(who=[f"person {i}" for i in range(len(x))])


def same_names(x: np.ndarray) -> Any:
    return frame(x).set_axis(["c"] * x.shape[1], axis=1)


def polars(hole: bool) -> Make:
    def make(x: np.ndarray) -> Any:
        import polars

        columns = {f"c{j}": [float(value) for value in x[:, j]] for j in range(x.shape[1])}
        if hole:
            columns["c0"][1] = None  # type: ignore[call-overload]
        return polars.DataFrame(columns)

    return make


def jax_array(x: np.ndarray) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(x)


def wide(x: np.ndarray) -> np.ndarray:
    """500 columns, no two alike."""
    return (x[:, np.arange(500) % x.shape[1]] + np.arange(500)[None] * np.arange(len(x))[:, None]) % (x.max() + 1)


def heavy(x: np.ndarray) -> np.ndarray:
    return (x - x.mean()) ** 15


SIZES = [
    Hostile("no rows", lambda x: x[:0]),
    Hostile("one row", lambda x: x[:1]),
    Hostile("two rows", lambda x: x[:2]),
    Hostile("no columns", lambda x: x[:, :0]),
    Hostile("one column", lambda x: x[:, :1]),
    Hostile("one dimension", lambda x: x[:, 0]),
    Hostile("three dimensions", lambda x: x[None]),
    Hostile("500 columns", wide),
    Hostile("a number", lambda x: 3.0),
    Hostile("an empty list", lambda x: []),
    Hostile("None", lambda x: None),
    Hostile("a word", lambda x: "data"),
    Hostile("a dictionary", lambda x: {"a": x}),
    Hostile("a set", lambda x: {1, 2}),
    Hostile("unequal rows", lambda x: [[1.0, 2.0], [3.0]]),
    Hostile("a generator", lambda x: (row for row in x)),
]
REPEATS = [
    Hostile("zeros", np.zeros_like),
    Hostile("minus zeros", lambda x: np.where(x == x[0], -0.0, x)),
    Hostile("constant", lambda x: np.full_like(x, 3.0)),
    Hostile("a constant column", with_column(lambda x: 1.0)),
    Hostile("a column twice", with_column(lambda x: x[:, 0])),
    Hostile("collinear", with_column(lambda x: 60.0 - x[:, 0])),
    Hostile("every row the first", lambda x: np.repeat(x[:1], len(x), axis=0)),
    Hostile("every row twice", lambda x: np.repeat(x[: len(x) // 2], 2, axis=0)),
]
EXTREMES = [
    *(Hostile(f"times {scale:g}", times(scale)) for scale in (1e300, 1e139, 1e100, 1e-100, 1e-300, 5e-324, 1e9, -1.0)),
    *(
        Hostile(f"a cell of {value:g}", with_cell(value))
        for value in (np.nan, np.inf, -np.inf, 1e9, 1e139, 1e308, 5e-324, -999.0, -1.0, 0.5, 2.0**31, 2.0**63)
    ),
    Hostile("a column of NaN", with_column(lambda x: np.nan)),
    Hostile("a row of NaN", lambda x: np.where(np.arange(len(x))[:, None] == 1, np.nan, x)),
    Hostile("all NaN", lambda x: np.full_like(x, np.nan)),
    Hostile("far away", lambda x: x + 1e12),
    Hostile("halves", lambda x: x + 0.5),
    Hostile("heavy tails", heavy),
]
TYPES = [
    *(
        Hostile(np.dtype(dtype).name + (" reversed" if dtype == ">f8" else ""), typed(dtype), True)
        for dtype in (np.int64, np.int8, np.uint8, np.uint64, np.float16, np.float32, np.longdouble, ">f8", object)
    ),
    *(Hostile(np.dtype(dtype).name, typed(dtype)) for dtype in (bool, complex, "U8", "S8", "M8[s]", "m8[s]")),
    Hostile("objects with None", objects_with_none),
    Hostile("records", structured),
    Hostile("nothing masked", lambda x: np.ma.masked_array(x, np.zeros(x.shape, bool)), True),
    Hostile("masked", lambda x: np.ma.masked_array(x, x == x[1, 0])),
    Hostile("read only", readonly, True),
    Hostile("Fortran", np.asfortranarray, True),
    Hostile("memory-mapped", mapped, True),
    Hostile("strided", strided, True),
    Hostile("backwards in memory", backwards, True),
    Hostile("a list", lambda x: x.tolist(), True),
    Hostile("a matrix of old", np.asmatrix, True),
    Hostile("of JAX", jax_array, True),
]
CONTAINERS = [
    *(Hostile(form, sparse(form), True) for form in ("csr", "csc", "coo", "lil")),
    Hostile("entries in two parts", repeated_entries, True),
    Hostile("a column out of range", corrupt(99999999)),
    Hostile("a column before the first", corrupt(-5)),
    Hostile("pandas", frame, True),
    Hostile("pandas, nullable", nullable(False), True),
    Hostile("pandas, NA", nullable(True)),
    Hostile("pandas, categories", lambda x: frame(x).astype("category")),
    Hostile("pandas, text", with_text),
    Hostile("pandas, equal names", same_names),
    Hostile("polars", polars(False), True),
    Hostile("polars, null", polars(True)),
]
INPUTS: dict[str, Hostile] = {one.name: one for one in (*SIZES, *REPEATS, *EXTREMES, *TYPES, *CONTAINERS)}


def leaves(value: Any) -> Iterator[np.ndarray]:
    """Every array of numbers in an answer: fields, lists and dictionaries are walked through."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from leaves(getattr(value, name, None))
    elif isinstance(value, float) or (hasattr(value, "dtype") and np.issubdtype(np.asarray(value).dtype, np.inexact)):
        yield np.asarray(value)
