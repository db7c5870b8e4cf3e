"""Whatever holds numbers becomes a float64 matrix; whatever does not is refused with a sentence."""

import datetime
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from temperance.data import as_matrix, as_weights, column_moments, distinct_rows
from temperance.errors import InvalidData

NAN = np.nan


class Series:
    """A column of a polars frame, as far as we use one."""

    def __init__(self, values: list[Any]):
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


class Frame:
    """A polars frame, as far as we use one."""

    def __init__(self, **columns: list[Any]):
        self.content = columns
        self.columns = list(columns)
        self.dtypes = ["?"] * len(columns)

    def __getitem__(self, column: str) -> Series:
        return Series(self.content[column])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([1, 2, 3], [[1], [2], [3]]),
        ([(1, 2), (3, 4)], [[1, 2], [3, 4]]),
        (np.array([[True, False]]), [[1, 0]]),
        (np.array([[1.5]], dtype=np.float16), [[1.5]]),
        (jnp.ones((2, 1)), [[1], [1]]),
        ([[Fraction(1, 2), Decimal("0.25")]], [[0.5, 0.25]]),
        (np.array([[1, 2]], dtype=object), [[1, 2]]),
        (Frame(a=[1, 2], b=[0.5, 1.5]), [[1, 0.5], [2, 1.5]]),
    ],
)
def test_numbers(data: Any, expected: list[list[float]]) -> None:
    found = as_matrix(data)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("data", "column"),
    [
        ([[1, None], [2, 3]], "1"),
        # What lies beneath a mask is not data.
        (np.ma.masked_array([[1, 99], [2, 3]], mask=[[0, 1], [0, 0]]), "1"),
        (Frame(a=[1, 2], b=[None, 3]), "'b'"),
    ],
)
def test_missing(data: Any, column: str) -> None:
    expected = [[1, NAN], [2, 3]]
    np.testing.assert_array_equal(as_matrix(data, missing=True), expected)
    with pytest.raises(InvalidData, match=rf"data has 1 missing values \(the first in row 0, column {column}\)"):
        as_matrix(data)


def test_columns_without_a_value() -> None:
    rows = [[1.0, NAN]]
    with pytest.raises(InvalidData, match="column 1 of data has no value at all"):
        as_matrix(rows, missing=True)
    assert as_matrix(rows, missing=True, empty_columns=True).shape == (1, 2)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (None, "data must be an array or a frame, got None"),
        ("table.csv", "data must be an array or a frame, got 'table.csv'"),
        ({"a": [1]}, "data must be an array or a frame, got a dictionary"),
        ([[1, 2], [3]], "rows have different lengths"),
        ([["a", "b"]], "data must be real numbers, got text"),
        ([["1", "2"]], "data must be real numbers, got text"),
        (np.array([["1", 2]], dtype=object), "data must be numeric, but holds the text '1'"),
        ([[object()]], "data must be numeric, but holds <object"),
        ([[1 + 2j]], "data must be real numbers, got complex128"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "data must be real numbers, got datetime64"),
        ([[datetime.date(2020, 1, 1)]], "data must be numeric, but holds datetime.date"),
        (scipy.sparse.csr_matrix(np.eye(2)), "data is a sparse matrix; this model needs a dense one"),
        (np.zeros((2, 2, 2)), r"a matrix of rows and columns, got an array of shape \(2, 2, 2\)"),
        (np.zeros((0, 2)), r"at least one row and one column, got shape \(0, 2\)"),
        (np.zeros((2, 0)), r"at least one row and one column, got shape \(2, 0\)"),
        ([[0.0, -np.inf]], "data must be finite, but row 0, column 1 is infinite"),
        ([[0.0], [-1e141]], r"data has -1e\+141 in row 1, column 0; rescale what exceeds 1e\+140"),
        (Frame(a=[1], b=["x"]), "column 'b' of data must be real numbers, got text; leave it out"),
        (Frame(), "at least one row and one column, got a frame without columns"),
    ],
)
def test_refused(data: Any, sentence: str) -> None:
    with pytest.raises(InvalidData) as error:
        as_matrix(data)
    assert re.search(sentence, str(error.value)), error.value


def test_pandas() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, NAN]})
    np.testing.assert_array_equal(as_matrix(frame, missing=True), [[1, 1, 0.5], [2, 0, NAN]])
    nullable = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([None, 2.5], dtype="Float64")})
    np.testing.assert_array_equal(as_matrix(nullable, missing=True), [[1, NAN], [NAN, 2.5]])
    same_names = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    np.testing.assert_array_equal(as_matrix(same_names), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(as_matrix(pd.Series([1, None], dtype="Int64"), missing=True), [[1], [NAN]])
    for column, kind in (
        (["x", "y"], "text 'x'"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "datetime64"),
        (pd.interval_range(0, 2), "Interval"),
        (pd.Categorical(["x", "y"]), "text 'x'"),
    ):
        with pytest.raises(InvalidData, match=f"column 'b' of data must be .*{kind}.*; leave it out"):
            as_matrix(pd.DataFrame({"a": [1.0, 2.0], "b": column}))


def test_polars() -> None:
    np.testing.assert_array_equal(as_matrix(pl.DataFrame({"a": [1, None]}), missing=True), [[1], [NAN]])
    with pytest.raises(InvalidData, match="column 'a' of data"):
        as_matrix(pl.DataFrame({"a": ["x"]}))


def test_weights() -> None:
    assert as_weights(None, 3) is None
    np.testing.assert_array_equal(as_weights([0, 1, 2.5], 3), [0, 1, 2.5])
    for weights, sentence in (
        ([1, 2], r"one number for each of the 3 rows, got shape \(2,\)"),
        (1.0, r"one number for each of the 3 rows, got shape \(\)"),
        ([1, -2, 1], "finite and not negative, got -2 for row 1"),
        ([1, 1, NAN], "finite and not negative, got nan for row 2"),
        ([np.inf, 1, 1], "finite and not negative, got inf for row 0"),
        ([0, 0, 0], "must not all be zero"),
        (["a", "b", "c"], "weights must be real numbers, got text"),
    ):
        with pytest.raises(InvalidData, match=sentence):
            as_weights(weights, 3)


def test_rows_of_weight_two_are_rows_twice() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, size=(40, 2)).astype(float)
    x[::7, 1] = np.nan
    weights = rng.integers(0, 4, size=40).astype(float)
    twice = rng.permutation(np.repeat(x, weights.astype(int), axis=0))
    for ours, theirs in zip(distinct_rows(x, weights), distinct_rows(twice, None), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(column_moments(x, weights), column_moments(twice), rtol=1e-12)
    np.testing.assert_allclose(column_moments(x)[0], np.nanmean(x, axis=0), rtol=1e-12)
    plain = rng.normal(size=(5, 2))
    assert distinct_rows(plain, None)[0] is plain
