"""Tables as people have them: dialects, kinds of columns, what is set apart, frames. All values are simulated."""

import datetime

import numpy as np
import openpyxl
import pandas as pd
import pytest

import temperance as tp
from temperance import storage
from temperance.data import Schema, read_table
from temperance.errors import DamagedFile, InvalidData, InvalidParameter, TemperanceError

RNG = np.random.default_rng(0)
N = 40
SURVEY = pd.DataFrame(
    {
        "person_id": RNG.permutation(np.arange(1000, 1000 + N)),
        "age": RNG.integers(18, 90, N),
        "income (EUR)": np.round(RNG.lognormal(10, 0.4, N), 2),
        "visits": np.r_[0, RNG.poisson(3, N - 1)],
        "smokes": RNG.choice(["yes", "no"], N),
        "region": RNG.choice(["north", "south", "east"], N),
        "mood": RNG.choice(["never", "sometimes", "often"], N),
        "item": np.r_[1:6, RNG.integers(1, 6, N - 5)],
        "visited": [f"2024-0{1 + i % 9}-1{i % 8}" for i in range(N)],
        "wave": 3,
        "comment": [f"thank you for asking number {i // 2}" for i in range(N)],
    }
)
SURVEY.loc[[3, 9], ["age", "region"]] = None
KINDS = {
    "person_id": "id", "age": "real", "income (EUR)": "real", "visits": "count", "smokes": "binary",
    "region": "category", "mood": "ordered", "item": "ordered", "visited": "date", "wave": "constant",
    "comment": "text",
}  # fmt: skip


def put(folder, content, encoding="utf-8", name="d.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return folder / name


def kinds(table):
    return {column.name: column.kind for column in table.schema}


def test_a_survey(tmp_path):
    table = read_table(put(tmp_path, SURVEY.to_csv(index=False)))
    assert kinds(table) == KINDS
    schema = table.schema
    assert schema["smokes"].levels == ("no", "yes") and schema["region"].levels == ("east", "north", "south")
    assert schema["mood"].levels == ("never", "sometimes", "often")
    assert schema["age"].gaps == schema["region"].gaps == 2 and schema["income (EUR)"].unit == "EUR"
    np.testing.assert_array_equal(table["age"], SURVEY["age"])
    np.testing.assert_array_equal(table["smokes"], SURVEY["smokes"] == "yes")
    seen = SURVEY["region"].notna()
    assert [schema["region"].levels[int(k)] for k in table["region"][seen]] == list(SURVEY["region"][seen])
    assert np.isnan(table["region"][~seen]).all()
    assert list(table.ids) == [str(value) for value in SURVEY["person_id"]]
    days = [(datetime.date.fromisoformat(day) - datetime.date(1970, 1, 1)).days for day in SURVEY["visited"]]
    np.testing.assert_array_equal(table["visited"], days)
    left_out = [line for line in str(table).splitlines() if line.startswith("left out")]
    assert [line.split()[2].rstrip(":") for line in left_out] == ["person_id", "visited", "wave", "comment"]
    assert str(table).splitlines()[1].startswith("left out")  # said first


def test_a_frame_and_a_dictionary_are_read_like_the_file(tmp_path):
    from_file = read_table(put(tmp_path, SURVEY.to_csv(index=False)))
    columns = {name: list(SURVEY[name]) for name in SURVEY}
    for source in (SURVEY, columns):
        table = read_table(source)
        assert kinds(table) == KINDS
        for name in table.columns:
            np.testing.assert_array_equal(table[name], from_file[name], err_msg=name)


@pytest.mark.parametrize("module", ["polars", "pyarrow"])
def test_other_frames(module):
    package = pytest.importorskip(module)
    make = package.DataFrame if module == "polars" else package.table
    table = read_table(make({"x": [1.5, None, 2.0], "word": ["a", "b", "a"]}))
    assert kinds(table) == {"x": "real", "word": "binary"} and table.schema["x"].gaps == 1


X = np.array([[1.5, 1234.25], [-0.75, 12.5], [3.0, 1234567.0], [0.125, 8.0]])


def written(delimiter, decimal=".", thousands="", names="a b"):
    def number(value):
        text = f"{value:,.3f}".replace(",", "T").replace(".", decimal)
        return text.replace("T", thousands)

    lines = [delimiter.join(names.split())] + [delimiter.join(number(value) for value in row) for row in X]
    return "\n".join(lines) + "\n"


DIALECTS = {
    "comma": written(","),
    "semicolon": written(";"),
    "tab": written("\t"),
    "bar": written("|"),
    "space": written(" "),
    "runs of spaces": written("    "),
    "decimal comma": written(";", ","),
    "decimal comma, tabs": written("\t", ","),
    "European": written(";", ",", "."),
    "Swiss": written(";", ".", "'"),
    "English thousands": written(";", ".", ","),
    "thin spaces": written(";", ",", "\u202f"),
    "crlf": written(",").replace("\n", "\r\n"),
    "old Mac": written(",").replace("\n", "\r"),
    "quoted thousands": 'a,b\n1.5,"1,234.25"\n-0.75,12.5\n3,"1,234,567"\n0.125,8\n',
    "quoted decimal commas": 'a,b\n"1,5","1234,25"\n"-0,75","12,5"\n"3","1234567"\n"0,125","8"\n',
    "blank lines": "\n" + written(",").replace("\n", "\n\n"),
    "lined up": "   a        b\n 1.5  1234.25\n-0.75    12.5\n   3  1234567\n.125        8\n",
}


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects(name, tmp_path):
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        table = read_table(put(tmp_path, DIALECTS[name], encoding))
        assert kinds(table) == {"a": "real", "b": "real"}
        np.testing.assert_array_equal(table.matrix(), X)


def test_latin_1(tmp_path):
    text = "größe;stadt\n1,5;Köln\n2,5;Zürich\n3,5;Köln\n4,5;Zürich\n"
    for encoding in ("latin-1", "utf-8", "utf-16-le", "utf-16-be"):
        table = read_table(put(tmp_path, text, encoding))
        assert table.schema.names == ("größe", "stadt") and table.schema["stadt"].levels == ("Köln", "Zürich")


def test_a_row_number_written_by_pandas_or_r_is_set_apart(tmp_path):
    frame = pd.DataFrame({"x": RNG.normal(size=30), "y": RNG.normal(size=30)})
    with_r = '"x" "y"\n' + "".join(f'"{i + 1}" {x} {y}\n' for i, (x, y) in enumerate(frame.to_numpy()))
    for content in (frame.to_csv(), frame.to_csv(index_label="Unnamed: 0"), with_r, frame.to_csv(sep=";")):
        table = read_table(put(tmp_path, content))
        assert kinds(table) == {"row": "id", "x": "real", "y": "real"}
        np.testing.assert_array_equal(table.matrix(), frame.to_numpy())
        assert "left out  row" in str(table)
    counted = frame.assign(n=np.arange(1, 31))[["n", "x", "y"]]
    assert kinds(read_table(counted)) == {"n": "id", "x": "real", "y": "real"}


def test_columns_that_only_their_owner_knows(tmp_path):
    frame = pd.DataFrame({"x": RNG.normal(size=30), "dose": RNG.permutation(np.arange(100, 130)), "score": 5})
    frame["score"] = [1, 2, 3, 4, 5] * 6
    frame.loc[[2, 4], "score"] = -999
    table = read_table(frame)
    assert table.schema["dose"].kind == "real" and len(table.schema.questions) == 2
    assert "'dose'" in table.schema.questions[0] and "kinds={'dose': 'id'}" in table.schema.questions[0]
    assert "'score' is -999 in 2 rows" in table.schema.questions[1]
    again = read_table(put(tmp_path, frame.to_csv(index=False)), kinds={"dose": "id"}, missing=["-999"])
    assert again.schema["dose"].kind == "id" and again.schema["score"].kind == "ordered"
    assert again.schema["score"].gaps == 2 and not again.schema.questions


@pytest.mark.parametrize("word", ["", "NA", "n/a", "?", "-", ".", "NaN", "null", "<NA>", "#N/A"])
def test_words_for_what_is_missing(word, tmp_path):
    table = read_table(put(tmp_path, f"x,g\n1.5,a\n{word},b\n2.5,{word}\n3.5,a\n4.5,c\n"))
    assert table.schema["x"].gaps == table.schema["g"].gaps == 1
    np.testing.assert_array_equal(table["x"], [1.5, np.nan, 2.5, 3.5, 4.5])
    assert table.schema["g"].levels == ("a", "b", "c")


def test_none_is_a_word_among_words_and_a_gap_among_numbers(tmp_path):
    table = read_table(put(tmp_path, "x,pain\n1.5,none\nnone,mild\n2.5,severe\n3.5,none\n"))
    assert table.schema["x"].gaps == 1
    assert table.schema["pain"].levels == ("none", "mild", "severe") and table.schema["pain"].kind == "ordered"


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("1,2\n3,4\n", ("column 1", "column 2")),
        ("a,1\nb,2\na,3\n", ("column 1", "column 2")),
        ("country,2019,2020\nA,1.5,2.5\nB,3.5,4.5\n", ("country", "2019", "2020")),
        ("g,h\nx,y\nz,w\n", ("g", "h")),
        ("x,x,\n1,2,3\n4,5,6\n", ("x", "x (2)", "column 3")),
    ],
)
def test_headers(content, names, tmp_path):
    assert read_table(put(tmp_path, content)).schema.names == names


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S", "%d %b %Y", "%Y-%m-%dT%H:%M:%S"]
)
def test_dates(form, tmp_path):
    stamps = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=17 * i) for i in range(12)]
    content = "when,x\n" + "".join(f"{stamp.strftime(form)},{i}.5\n" for i, stamp in enumerate(stamps))
    table = read_table(put(tmp_path, content))
    assert table.schema["when"].kind == "date"
    np.testing.assert_allclose(table["when"], 18262 + 17 * np.arange(12))
    from_frame = read_table(pd.DataFrame({"when": pd.to_datetime(stamps), "x": np.arange(12.0)}))
    np.testing.assert_allclose(from_frame["when"], table["when"])


def test_declared_levels_that_are_not_seen_are_levels():
    words = pd.Categorical(["low", "high", None, "low"], ["low", "middle", "high"], ordered=True)
    table = read_table(pd.DataFrame({"w": words, "x": [1.5, 2.5, 3.5, 4.5], "b": [True, False, True, True]}))
    assert table.schema["w"].levels == ("low", "middle", "high") and table.schema["w"].kind == "ordered"
    np.testing.assert_array_equal(table["w"], [0, 2, np.nan, 0])
    assert table.schema["b"].kind == "binary" and list(table["b"]) == [1, 0, 1, 1]


def test_new_rows_follow_the_schema_in_any_order_and_it_can_be_saved(tmp_path):
    table = read_table(SURVEY)
    storage.save(table.schema, tmp_path / "schema")
    schema = storage.load(tmp_path / "schema")
    assert schema == table.schema and isinstance(schema, Schema)
    part = SURVEY.iloc[[5, 7, 11]][list(SURVEY.columns[::-1])]
    again = read_table(put(tmp_path, part.to_csv(index=False)), like=schema)
    assert again.columns == table.columns
    for name in table.columns:
        np.testing.assert_array_equal(again[name], table[name][[5, 7, 11]], err_msg=name)
    with pytest.raises(InvalidData, match="lacks the column 'age'"):
        read_table(part.drop(columns="age"), like=schema)
    with pytest.raises(InvalidData, match="'region' has 'west' in row 2, and its levels are east, north, south"):
        read_table(part.assign(region=["east", "west", "east"]), like=schema)


def test_a_table_is_data_for_a_model():
    frame = pd.DataFrame({"id": np.arange(5, 25), "x": RNG.normal(size=20), "y": RNG.normal(size=20)})
    table = read_table(frame)
    whole = tp.fit(tp.GaussianMixture(1), frame[["x", "y"]], tp.VB(max_iter=5), seed=0)
    assert tp.fit(tp.GaussianMixture(1), table, tp.VB(max_iter=5), seed=0).log_evidence == whole.log_evidence
    with pytest.raises(InvalidData, match=r"categories \(region, mood, item\) beside numbers"):
        tp.fit(tp.GaussianMixture(1), read_table(SURVEY))
    with pytest.raises(InvalidData, match=r"missing values.*column 'age'"):
        tp.fit(tp.GaussianMixture(1), read_table(SURVEY).choose(["visits", "age"]))


BAD = {
    "empty": ("", "is empty"),
    "no rows": ("a,b\n", "a header and no rows"),
    "ragged": ("a,b\n1,2\n3\n", "line 3 of d.csv has 1 cells where the first line has 2"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x01", "neither text nor a known kind"),
    "nul": ("1,2\0", "line 1 holds the character 0"),
    "archive": (b"PK\x03\x04", "save a spreadsheet as csv"),
    "an odd word": (
        "x\n" + "".join(f"{i}.5\n" for i in range(20)) + "twelve\n",
        "holds numbers in 20 of 21 rows, but 'twelve",
    ),
    "a long cell": ('a,b\n1,"' + "x" * 200_000 + '"\n', "cannot be read.*limit"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_sentence(name, tmp_path):
    content, sentence = BAD[name]
    with pytest.raises(TemperanceError, match=sentence) as caught:
        read_table(put(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_wrong_arguments(tmp_path):
    path = put(tmp_path, "x,g\n1.5,a\n2.5,b\n3.5,a\n")
    for arguments, sentence in (
        ({"kinds": {"y": "real"}}, "column 'y', which d.csv does not have; its columns are x, g"),
        ({"kinds": {"x": "integer"}}, "must be one of real, positive"),
        ({"kinds": {"x": "count"}}, "is to be count, but is 1.5 in row 1"),
        ({"kinds": {"g": "real"}}, "is to be real, but holds 'a'"),
        ({"kinds": {"g": "date"}}, "is to be a date, but holds 'a'"),
        ({"missing": [3]}, "missing must hold words, got 3"),
        ({"delimiter": "::"}, "delimiter must be one character"),
    ):
        with pytest.raises((InvalidData, InvalidParameter), match=sentence):
            read_table(path, **arguments)
    for source in (3, None, np.ones(3), {"a": [1, 2], "b": [1]}, {}, pd.DataFrame()):
        with pytest.raises(TemperanceError):
            read_table(source)
    with pytest.raises(InvalidData, match="there is no file"):
        read_table(tmp_path / "none.csv")


def test_money_per_cent_and_units_are_numbers(tmp_path):
    pay = RNG.uniform(10, 5000, 30).round(2)
    lines = [f'"${v:,.2f}";{v / 100:.1f}%;{v:.1f} kg;{v:.0f} €' for v in pay]
    table = read_table(put(tmp_path, "\n".join(["pay;share;mass;price", *lines]) + "\n"))
    assert all(kind in ("real", "positive") for kind in kinds(table).values())
    np.testing.assert_allclose(table["pay"], pay)
    np.testing.assert_allclose(table["mass"], pay, atol=0.051)
    assert "in kg" in table.schema["mass"].reason
    european = "a;b\n" + "".join(f"{i}.234,50 €;{i},5%\n" for i in range(1, 9))
    table = read_table(put(tmp_path, european))
    np.testing.assert_array_equal(table["a"], [1000 * i + 234.5 for i in range(1, 9)])
    np.testing.assert_array_equal(table["b"], np.arange(1, 9) + 0.5)


def test_no_answer_is_a_gap_in_numbers_and_scales_and_a_category_elsewhere(tmp_path):
    rows = [f"{i * 1.5},{('agree', 'neutral', 'disagree')[i % 3]},{'xyz'[i % 3]}" for i in range(20)]
    rows += ["k.A.,don't know,refused", "unknown,no answer,refused"]
    table = read_table(put(tmp_path, "\n".join(["income,trust,party", *rows]) + "\n"))
    assert kinds(table) == {"income": "real", "trust": "ordered", "party": "category"}
    assert table.schema["income"].gaps == table.schema["trust"].gaps == 2 and "'k.A.'" in table.schema["income"].reason
    assert table.schema["trust"].levels == ("disagree", "neutral", "agree")
    assert "refused" in table.schema["party"].levels


def test_kinds_by_the_shape_of_numbers():
    n = 400
    skewed = np.exp(RNG.normal(10, 0.8, n)).round()
    frame = pd.DataFrame(
        {
            "gear": RNG.choice([3, 4, 5], n), "dose": RNG.choice([0.5, 1.0], n), "pay": skewed,
            "height": RNG.normal(170, 8, n), "seconds": RNG.exponential(60, n).astype(int),
            "calls": RNG.poisson(RNG.choice([1, 9], n)), "subject": np.arange(n) // 4,
        }
    )  # fmt: skip
    found = kinds(read_table(frame))
    assert found | {"seconds": ""} == {"gear": "ordered", "dose": "binary", "pay": "positive", "height": "real",
                                      "seconds": "", "calls": "count", "subject": "id"}  # fmt: skip
    assert found["seconds"] in ("real", "positive")  # a variance of 60 means is no count
    dates = {"year": RNG.integers(1990, 2000, n), "month": RNG.integers(1, 13, n), "day": RNG.integers(1, 29, n)}
    assert kinds(read_table(dates | {"x": frame["height"]})) == dict.fromkeys(dates, "date") | {"x": "real"}
    assert kinds(read_table({"day": dates["day"], "x": frame["height"]}))["day"] != "date"


def test_weights_are_asked_about_and_are_no_measurements():
    frame = pd.DataFrame({"weight": RNG.gamma(4, 0.25, 50), "x": RNG.normal(size=50), "age": RNG.integers(18, 90, 50)})
    frame.loc[[3, 9], "age"] = -99  # far from the others, but no further than these are from each other
    asked = read_table(frame).schema.questions
    assert "--as weight=weight" in asked[0] and "--na 'age=-99'" in asked[1]
    table = read_table(frame, kinds={"weight": "weight"})
    assert table.columns == ("x", "age") and str(table.schema).startswith("weights")
    np.testing.assert_allclose(table.weights, frame["weight"] / frame["weight"].mean())
    assert read_table(frame).weights is None
    with pytest.raises(InvalidData, match="is to be weights"):
        read_table(frame, kinds={"x": "weight"})


def test_many_columns_of_one_kind_are_one_line():
    table = read_table({f"gene {i}": RNG.normal(size=9) for i in range(150)})
    assert str(table.schema) == "used      150 columns, gene 0 to gene 149: real"


def test_excel(tmp_path):
    book = openpyxl.Workbook()
    second = book.create_sheet("Data")
    for row in [[None, None, None], ["id", "when", "pay (€)"], ["a7", datetime.datetime(2021, 3, 4), 12.5],
                ["b9", datetime.datetime(2021, 3, 5), None], ["c1", datetime.datetime(2021, 3, 9), 14]]:  # fmt: skip
        second.append(row)
    book.save(tmp_path / "x.xlsx")
    table = read_table(tmp_path / "x.xlsx")
    assert kinds(table) == {"id": "id", "when": "date", "pay (€)": "real"}
    np.testing.assert_array_equal(table["pay (€)"], [12.5, np.nan, 14.0])
    (tmp_path / "y.xlsx").write_bytes((tmp_path / "x.xlsx").read_bytes()[:-400])
    with pytest.raises(DamagedFile, match="damaged or cut short"):
        read_table(tmp_path / "y.xlsx")
