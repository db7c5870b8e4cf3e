"""Codes for missing values: taken where several columns share them far outside their other numbers, and said; values
that merely look like codes stay."""

import numpy as np
import pandas as pd
import pytest

import temperance as tp
from temperance.data.tables import read_table

N = 200


def with_codes(values, codes, share, rng):
    """The values with each code in this share of the rows, and where."""
    values = np.asarray(values, dtype=float).copy()
    here = np.zeros(len(values), bool)
    for code in codes:
        rows = rng.uniform(size=len(values)) < share
        rows[rng.integers(len(values), size=2)] = True
        values[rows], here = code, here | rows
    return values, here


def survey(codes, seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"q{i + 1}": rng.integers(1, 6, N) for i in range(4)}
    columns |= {"age": rng.integers(18, 80, N), "children": rng.poisson(1.2, N), "sex": rng.integers(1, 3, N)}
    found = {name: with_codes(values, codes, 0.05, rng) for name, values in columns.items()}
    return {name: each[0] for name, each in found.items()}, {name: each[1] for name, each in found.items()}


@pytest.mark.parametrize("codes", [(-9,), (-99,), (-999,), (99,), (999,), (-9, -8), (-9, -99, 999), (-99, -1)])
@pytest.mark.parametrize("suffix", ["csv", "frame"])
def test_codes_of_a_survey_are_missing_and_said_first(codes, suffix, tmp_path):
    columns, gone = survey(codes)
    frame = pd.DataFrame(columns)
    source = frame
    if suffix == "csv":
        source = tmp_path / "survey.csv"
        frame.astype(int).to_csv(source, index=False)
    table = read_table(source)
    for name, rows in gone.items():
        np.testing.assert_array_equal(np.isnan(table[name]), rows)
    assert {name: table.schema[name].kind for name in columns} == {
        **{f"q{i + 1}": "ordered" for i in range(4)}, "age": "real", "children": "count", "sex": "binary"
    }  # fmt: skip
    first = str(table.schema).split("\n")[0]
    assert first.startswith("missing   ") and all(str(code) in first for code in codes)
    assert f"in {sum(rows.sum() for rows in gone.values())} cells" in first and "--na ''" in first
    assert not any("missing values" in question for question in table.schema.questions)
    kept = read_table(source, missing=[])
    assert not any(np.isnan(kept[name]).any() for name in columns) and not kept.schema.codes


def test_codes_are_missing_in_new_rows_and_told_by_a_fit():
    columns, gone = survey((-9,))
    fit = tp.fit(tp.ClassMixture(2), columns, tp.VB(max_iter=3))
    assert fit.notes[0].startswith("-9 is taken for a missing value")
    rows = np.flatnonzero(gone["q1"])[:3]
    new = read_table({name: values[rows] for name, values in columns.items()}, like=fit.schema)
    assert np.isnan(new["q1"]).all()


def test_a_code_that_only_new_rows_have_is_missing():
    columns, _ = survey((-99,))
    columns["height"] = np.random.default_rng(1).integers(150, 200, N)
    schema = read_table(columns).schema
    new = {name: values[:3].astype(float) for name, values in columns.items()} | {"height": [-99, 170, 180]}
    assert np.isnan(read_table(new, like=schema)["height"]).tolist() == [True, False, False]


def test_words_beside_codes_stay_and_a_kind_that_was_said_stays():
    columns, gone = survey((-99,))
    table = read_table(columns | {"town": ["north", "south"] * (N // 2)}, kinds={"age": "positive", "q1": "category"})
    assert table.schema["age"].kind == "positive" and table.schema["q1"].kind == "category"
    assert "-99" not in table.schema["q1"].levels
    np.testing.assert_array_equal(np.isnan(table["age"]), gone["age"])


def temperatures(rng):
    """Degrees of three stations; some mornings have −9 exactly."""
    base = 8 + 9 * np.sin(np.arange(N) / 10)
    return {name: np.round(base + rng.normal(0, 4, N)) for name in ("morning", "noon", "night")}


KEPT = {
    "degrees around zero": lambda rng: temperatures(rng),
    "degrees above zero but for two cold days": lambda rng: {
        name: np.where(np.isin(np.arange(N), (3, 90)), -9, np.abs(values) % 31 + 1)
        for name, values in temperatures(rng).items()
    },
    "degrees with decimals, one cold day": lambda rng: {
        name: np.where(np.arange(N) == 3, -9.0, np.abs(values) % 31 + 1.5) for name, values in temperatures(rng).items()
    },
    "degrees down to -9": lambda rng: {name: rng.integers(-9, 32, N) for name in ("morning", "noon", "night")},
    "changes": lambda rng: {name: rng.integers(-12, 13, N) for name in "abc"},
    "per cent": lambda rng: {name: rng.integers(0, 101, N) for name in "abc"},
    "ages": lambda rng: {"his": rng.integers(60, 100, N), "hers": rng.integers(60, 100, N)},
    "money": lambda rng: {name: np.append(rng.integers(0, 12000, N - 2), [9999, 999]) for name in "ab"},
    "scores of 1 to 9": lambda rng: {name: rng.integers(1, 10, N) for name in "abc"},
    "a code in one column": lambda rng: {
        "a": with_codes(rng.integers(1, 6, N), (-99,), 0.05, rng)[0],
        "b": rng.normal(size=N),
    },
    "one value and a code": lambda rng: {
        name: np.where(rng.uniform(size=N) < 0.5, -9, 1) for name in ("ticked", "crossed")
    },
    "two values": lambda rng: {name: rng.choice([-9, 9], N) for name in ("left", "right")},
    "half of the rows": lambda rng: {name: with_codes(rng.integers(1, 6, N), (-9,), 0.6, rng)[0] for name in "ab"},
    "outliers of counts": lambda rng: {name: np.append(rng.poisson(1.5, N - 1), [22]) for name in "abc"},
}


@pytest.mark.parametrize("case", KEPT)
def test_values_that_look_like_codes_stay(case):
    for seed in range(5):
        columns = KEPT[case](np.random.default_rng(seed))
        table = read_table(columns)
        assert not table.schema.codes
        for column in table.schema.used:
            assert column.gaps == 0


def test_measurements_with_decimals_lose_only_what_is_impossible():
    rng = np.random.default_rng(1)
    columns = {name: with_codes(rng.normal(10, 8, N).round(1), (-9999,), 0.05, rng) for name in ("temp", "wind")}
    table = read_table({name: values for name, (values, _) in columns.items()})
    assert table.schema.codes.startswith("-9999 is taken")
    for name, (_, gone) in columns.items():
        np.testing.assert_array_equal(np.isnan(table[name]), gone)


def test_what_is_said_replaces_what_is_found():
    columns, _ = survey((-99,))
    table = read_table(columns, missing=["q1=-99"])
    assert np.isnan(table["q1"]).any() and not np.isnan(table["q2"]).any()
    assert any("'q2' is -99 in" in question for question in table.schema.questions)
