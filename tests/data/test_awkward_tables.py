"""Tables as colleagues send them: what a statistician expects of each column. All values are simulated."""

import io

import numpy as np
import openpyxl
import pandas as pd
import pytest

from temperance.data import read_table
from temperance.data.levels import EMPTY
from temperance.errors import InvalidData, InvalidParameter

RNG = np.random.default_rng(1)
N = 200
AGE = RNG.integers(18, 90, N)


def put(folder, lines, name="d.csv"):
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def kinds(table):
    return {column.name: column.kind for column in table.schema}


def column_of(values):
    return read_table({"word": list(values), "age": AGE[: len(values)]}).schema["word"]


@pytest.mark.parametrize(
    "levels",
    [
        ("Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"),
        ("very dissatisfied", "somewhat dissatisfied", "neutral", "somewhat satisfied", "very satisfied"),
        ("Unlikely", "Likely", "Very likely"),
        ("S", "M", "L", "XL"),
        ("Jan", "Feb", "Mar", "Dec"),
        ("primary", "secondary", "bachelor", "master", "PhD"),
        ("18-24", "25-34", "35-44", "45+"),
        ("never", "rarely", "sometimes", "often", "always"),
    ],
)
def test_scales_keep_their_order(levels):
    found = column_of(np.r_[levels, RNG.choice(levels, 90)])
    assert found.kind == "ordered" and found.levels == levels


def test_words_without_an_order_are_categories():
    for levels in (("agree", "dislike", "neutral"), ("unit", "united", "neither"), ("low", "red", "high")):
        found = column_of(np.r_[levels, RNG.choice(levels, 90)])
        assert found.kind == "category" and found.levels == tuple(sorted(levels))


def test_spellings_of_the_same_word_are_one_level():
    yes, no = ["yes", "Yes", "YES", "y"], ["no", "No", "n"]
    smokes = RNG.uniform(size=N) < 0.4
    table = read_table({
        "smokes": [RNG.choice(yes) if s else RNG.choice(no) for s in smokes],
        "sex": [RNG.choice(["m", "male", "Male", "male"]) if s else RNG.choice(["F", "f"]) for s in smokes],
        "city": [RNG.choice(["Leeds", "LEEDS", "Leeds"]) if s else RNG.choice(["York", "Hull"]) for s in smokes],
        "ja": ["J" if s else "n" if i % 2 else "N" for i, s in enumerate(smokes)],
    })  # fmt: skip
    assert kinds(table) == {"smokes": "binary", "sex": "binary", "city": "category", "ja": "binary"}
    np.testing.assert_array_equal(table["smokes"], smokes)
    np.testing.assert_array_equal(table["sex"], smokes)  # female first, by the alphabet
    np.testing.assert_array_equal(table["ja"], smokes)
    assert table.schema["city"].levels == ("Hull", "Leeds", "York")
    assert "'LEEDS' read as 'Leeds'" in table.schema["city"].reason
    new = read_table(
        {"smokes": ["NO", "unknown"], "sex": ["Female", "M"], "city": ["york", None], "ja": ["j", "nein"]},
        like=table.schema,
    )
    np.testing.assert_array_equal(new["smokes"], [0, np.nan])
    np.testing.assert_array_equal(new["sex"], [0, 1])
    np.testing.assert_array_equal(new["city"], [2, np.nan])
    np.testing.assert_array_equal(new["ja"], [1, 0])
    with pytest.raises(InvalidData, match="'maybe' in row 2, and its levels are"):
        read_table({"smokes": ["y", "maybe"], "sex": ["m", "f"], "city": ["Hull"] * 2, "ja": ["j"] * 2},
                   like=table.schema)  # fmt: skip


def test_codes_that_differ_in_case_stay_apart():
    genes = np.resize(["AA", "Aa", "aa"], N)
    assert column_of(genes).levels == ("AA", "Aa", "aa")
    assert column_of(np.resize(["N", "S", "O", "n"], N)).levels == ("N", "O", "S", "n")  # compass, not yes and no
    declared = pd.Categorical(np.resize(["yes", "Yes"], N), categories=["yes", "Yes", "no"])
    table = read_table(pd.DataFrame({"word": declared}))
    np.testing.assert_array_equal(read_table({"word": ["Yes", "yes"]}, like=table.schema)["word"], [1, 0])


def test_ticks_are_asked_about(tmp_path):
    ticked = RNG.uniform(size=N) < 0.3
    path = put(tmp_path, ["ill,one,age"] + [f"{'x' if t else ''},{'1' if t else ''},{a}"
                                            for t, a in zip(ticked, AGE, strict=True)])  # fmt: skip
    table = read_table(path)
    assert kinds(table)["ill"] == kinds(table)["one"] == "constant"
    for name, question in zip(("ill", "one"), table.schema.questions, strict=True):
        assert f"if an empty cell means no, say --as {name}=binary" in question
    table = read_table(path, kinds={"ill": "binary", "one": "binary"})
    for name in ("ill", "one"):
        np.testing.assert_array_equal(table[name], ticked)
    assert table.schema["ill"].levels == (EMPTY, "x") and table.schema["ill"].gaps == 0
    new = read_table({"ill": [None, "x"], "one": [1, None], "age": [30, 40]}, like=table.schema)
    assert new["ill"].tolist() == [0, 1] and new["one"].tolist() == [1, 0]


def test_codes_for_no_answer_are_asked_about():
    rare = RNG.uniform(size=N) < 0.06
    income = np.where(rare, 99999, RNG.integers(10000, 60000, N))
    item = np.where(rare, 9, RNG.integers(1, 6, N))
    sex = np.where(rare, 9, RNG.integers(1, 3, N))
    old = np.where(AGE > 80, 99, AGE)  # no further from the others than ages are
    frame = pd.DataFrame({"income": income, "item": item, "sex": sex, "old": old, "visits": RNG.poisson(3, N)})
    table = read_table(frame)
    assert kinds(table) == {"income": "real", "item": "ordered", "sex": "ordered", "old": "real", "visits": "count"}
    for name, code, question in zip(("income", "item", "sex"), (99999, 9, 9), table.schema.questions[:3], strict=True):
        assert f"--na '{name}={code}'" in question and f"is {code} in {rare.sum()} rows" in question
    told = ["income=99999", "item=9", "sex=9"]
    table = read_table(frame, missing=told)
    assert kinds(table)["sex"] == "binary" and table.schema["item"].levels == ("1", "2", "3", "4", "5")
    for name in ("income", "item", "sex"):
        np.testing.assert_array_equal(np.isnan(table[name]), rare)
    assert not np.isnan(table["visits"]).any()  # where 9 is a number
    again = read_table(frame[:5], like=table.schema)
    np.testing.assert_array_equal(np.isnan(again["sex"]), rare[:5])
    with pytest.raises(InvalidParameter, match="missing names the column 'sx'"):
        read_table(frame, missing=["sx=9"])


def test_missing_words_of_a_frame_of_numbers_and_of_a_file_are_the_same(tmp_path):
    frame = pd.DataFrame({"x": [1.5, -99.0, 2.5, 4.0], "word": ["a", "b", "-99", "a"], "n": [-99, 2, 3, 5]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    for source in (frame, tmp_path / "d.csv", {name: list(frame[name]) for name in frame}):
        table = read_table(source, missing=["-99"])
        assert [table.schema[name].gaps for name in ("x", "word", "n")] == [1, 1, 1]


def test_many_zeros_are_asked_about():
    spent = np.where(RNG.uniform(size=N) < 0.4, 0.0, RNG.lognormal(4, 1, N).round(2))
    table = read_table({"spent": spent, "visits": RNG.poisson(0.3, N), "z": RNG.normal(size=N)})
    (question,) = table.schema.questions
    assert f"'spent' is 0 in {(spent == 0).sum()} of 200 rows" in question


def test_names_that_are_no_ids_stay_measurements():
    score = RNG.integers(18, 45, N)
    table = read_table({"Body mass index": score, "glycemic_index": score, "Price No": score, "zip": 10000 + score})
    assert kinds(table) == {"Body mass index": "real", "glycemic_index": "real", "Price No": "real", "zip": "id"}
    assert kinds(read_table({"index": np.resize(np.arange(50), N), "x": AGE}))["index"] == "id"


def test_titles_and_comments_above_the_table(tmp_path):
    body = ["age,income"] + [f"{age},{10 * age + 1}" for age in AGE]
    for above in (["Survey of 2021"], ["# exported, by a tool", "# version 1"], ["Survey", "", "all waves"]):
        table = read_table(put(tmp_path, [*above, *body]))
        assert table.schema.names == ("age", "income") and len(table) == N
        assert f"left out the line {above[0]!r} above the names" in table.schema.notes
    wide = [f"{line},x{i % 3}" for i, line in enumerate(body)]
    assert read_table(put(tmp_path, ["Survey of 2021,,", *wide])).schema.names[:2] == ("age", "income")
    with pytest.raises(InvalidData, match=r"line 9 of d.csv has 4 cells"):  # as the file counts them
        read_table(put(tmp_path, ["Survey of 2021", *wide[:7], "1,2,x,y", *wide[7:]]))
    r_names = put(tmp_path, ['"x"', *(f'"{i}",{age}' for i, age in enumerate(AGE))])
    assert read_table(r_names).schema.names == ("row", "x")
    numbers = put(tmp_path, ["#,x", *(f"{i + 1},{age}" for i, age in enumerate(AGE))])
    assert kinds(read_table(numbers)) == {"#": "id", "x": "real"}


def test_the_fullest_sheet_of_a_book_is_read_and_named(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["Made by the field team"])
    sheet = book.create_sheet("wave 1")
    for row in (["Results of 2021"], [], ["age", "smokes"], *([int(age), bool(age > 50)] for age in AGE)):
        sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    (tmp_path / "book.xlsx").write_bytes(file.getvalue())
    table = read_table(tmp_path / "book.xlsx")
    assert table.name == "book.xlsx, sheet 'wave 1'" and kinds(table) == {"age": "real", "smokes": "binary"}
    assert table.schema.notes == ("left out the line 'Results of 2021' above the names",)


def test_a_sum_below_the_table_is_asked_about(tmp_path):
    lines = ["town,income"] + [f"town {i},{age}" for i, age in enumerate(AGE)] + [f"Total,{AGE.sum()}"]
    (question,) = read_table(put(tmp_path, lines)).schema.questions
    assert question == "the last row says 'Total' in 'town': if it sums up the others, delete it"


def test_times_of_day_and_degrees(tmp_path):
    lines = ["at,heat"] + [f"{i % 24}:{i % 60:02d},{20 + i / 10:.1f}°C" for i in range(N)]
    table = read_table(put(tmp_path, lines))
    assert kinds(table) == {"at": "date", "heat": "real"} and table.schema["at"].reason == "times of day"
    assert table["at"][61] == (13 * 60 + 1) / 1440 and table["heat"][5] == 20.5


def test_an_unquoted_comma_is_told(tmp_path):
    lines = ["name,age"] + [f"{'Smith, J' if i == 7 else 'Jones'},{age}" for i, age in enumerate(AGE)]
    with pytest.raises(InvalidData, match=r"line 9 of d.csv has 3 cells .*a cell with a comma in it must stand"):
        read_table(put(tmp_path, lines))


def test_levels_that_are_declared_survive_every_frame(tmp_path):
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"dose": pd.Categorical(["low", None, "high"] * 4, categories=["low", "mid", "high"],
                                                 ordered=True), "x": np.arange(12) / 4})  # fmt: skip
    frame.to_parquet(tmp_path / "d.parquet")
    dose = polars.Series(["low", None, "high"] * 4, dtype=polars.Enum(["low", "mid", "high"]))
    sources = (frame, tmp_path / "d.parquet", arrow.Table.from_pandas(frame), polars.DataFrame({"dose": dose}))
    for source in sources:
        table = read_table(source)
        assert table.schema["dose"].kind == "ordered" and table.schema["dose"].levels == ("low", "mid", "high")
        np.testing.assert_array_equal(table["dose"], [0, np.nan, 2] * 4)


def test_nullable_columns_and_numbers_that_are_too_large():
    frame = pd.DataFrame({
        "n": pd.array([3, None, 5, 4], dtype="Int64"), "b": pd.array([True, False, None, True], dtype="boolean"),
        "s": pd.array(["a", None, "b", "a"], dtype="string"), "x": pd.array([1.5, None, 2.5, 3.5], dtype="Float64"),
    })  # fmt: skip
    table = read_table(frame)
    assert kinds(table) == {"n": "real", "b": "binary", "s": "binary", "x": "real"}
    assert [table.schema[name].gaps for name in frame] == [1, 1, 1, 1]
    np.testing.assert_array_equal(table["b"], [1, 0, np.nan, 1])
    with pytest.raises(InvalidData, match=r"column 'x' has 2e\+200 in row 2; rescale what exceeds 1e\+140"):
        read_table({"x": [1.0, 2e200, 3.0]})
    with pytest.raises(InvalidData, match=r"no column that can be used: 'x' is left out as constant \(all values"):
        read_table({"x": [1, 1, 1]}).matrix()


def test_copies_of_a_column_are_asked_about():
    sex = RNG.integers(0, 2, N)
    table = read_table({"sex": np.where(sex, "f", "m"), "female": sex, "other": RNG.integers(0, 2, N), "x": AGE / 3.0,
                        "y": RNG.normal(size=N), "z": RNG.normal(size=N)})  # fmt: skip
    (question,) = table.schema.questions
    assert question.startswith("'female' says the same as 'sex' in every row")


def test_two_lines_of_names(tmp_path):
    body = [f"{i + 1},{age},{age / 2:.1f},{age + 1},{i % 7}" for i, age in enumerate(AGE)]
    merged = read_table(put(tmp_path, [",Before,,After,", "id,score,errors,score,errors", *body]))
    assert merged.schema.names == ("id", "Before score", "Before errors", "After score", "After errors")
    assert merged.schema.notes == ("the names stand in two lines: 'After errors' is 'After' over 'errors'",)
    assert len(merged) == N and merged["After score"][0] == AGE[0] + 1
    repeated = read_table(put(tmp_path, ["id,Before,Before,After,After", ",score,errors,score,errors", *body]))
    assert repeated.schema.names == merged.schema.names


def test_a_line_of_units_or_of_questions_below_the_names(tmp_path):
    body = [f"s{i},{age},{age / 2:.1f},{age % 5}" for i, age in enumerate(AGE)]
    table = read_table(put(tmp_path, ["site,heat,salt,depth", ",degC,psu,m", *body]))
    assert table.schema.names == ("site", "heat (degC)", "salt (psu)", "depth (m)") and len(table) == N
    assert table.schema["heat (degC)"].unit == "degC" and "line below the names holds units" in table.schema.notes[0]
    asked = "Respondent,How old are you?,How tired are you?,How many visits?"
    table = read_table(put(tmp_path, ["ResponseId,Q1,Q2,Q3", asked, *body]))
    assert table.schema.names == ("ResponseId", "Q1", "Q2", "Q3") and len(table) == N
    assert "left out the line below the names" in table.schema.notes[0]
    with pytest.raises(InvalidData, match="'Q1' holds numbers in 200 of 201 rows, but '4O' in row 1"):  # a single slip
        read_table(put(tmp_path, ["ResponseId,Q1,Q2,Q3", "s,4O,20.5,3", *body]))


def test_numbers_that_start_again_in_every_block_are_ids(tmp_path):
    lines = ["clinic,patient,age"]
    lines += [f"{f'clinic {i // 20}' if i % 20 == 0 else ''},{i % 20 + 1},{age}" for i, age in enumerate(AGE)]
    table = read_table(put(tmp_path, lines))
    assert kinds(table) == {"clinic": "id", "patient": "id", "age": "real"}
    assert table.schema["patient"].reason == "counts the rows of each block"
    assert kinds(read_table({"wave": np.resize([1, 2, 3], N), "x": AGE}))["wave"] == "ordered"


def test_all_codes_of_a_column_are_asked_about_at_once():
    age, sex = AGE.astype(float), np.resize([1.0, 2.0], N)
    age[[1, 2, 3]], age[[4, 5]], age[[6]] = -9, -99, 999
    sex[[1, 2, 3]], sex[[4, 5]], sex[[6]] = -9, -99, 999
    first, second = read_table({"age": age, "sex": sex}, missing=[]).schema.questions
    assert first == (
        "'age' is -99 in 2 rows, -9 in 3 rows, 999 in 1 row: if these stand for missing values, say --na "
        "'age=-99,age=-9,age=999' (missing=['age=-99', 'age=-9', 'age=999'] in Python)"
    )
    told = read_table({"age": age, "sex": sex}, missing=["age=-99", "age=-9", "age=999", "-9", "-99", "999"])
    assert kinds(told) == {"age": "real", "sex": "binary"} and np.isnan(told["age"]).sum() == 6 and "sex" in second


@pytest.mark.parametrize(
    ("cells", "day"),
    [
        (["2024/03/15 10:05:00 AM GMT+1", "2024/03/16 1:05:00 PM GMT+1"], "2024-03-16T13:05"),
        (["3 Mar 2021", "12 April 2022", "30 Sept 2021"], "2021-09-30"),
        (["March 3, 2021", "Apr 12, 2022", "June 1, 2022"], "2022-06-01"),
        (["2024-03-15T10:05:00.250Z", "2024-03-15T11:05:00.000+01:00"], "2024-03-15T11:05"),
        (["01-Feb-99", "15-May-01"], "2001-05-15"),
    ],
)
def test_dates_of_forms_and_spreadsheets(cells, day):
    table = read_table({"when": list(np.resize(cells, 12)), "x": AGE[:12]})
    assert kinds(table)["when"] == "date"
    expected = np.datetime64(day, "s").astype(float) / 86400
    assert table["when"][len(cells) - 1] == pytest.approx(expected, abs=1e-9)
