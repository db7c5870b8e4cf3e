"""`predict` says something of every row, in order, with its id, by the columns and the gaps that the fit had."""

import csv
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance.cli import main

N, GAP = 40, 3


@pytest.fixture
def european(tmp_path, monkeypatch):
    """A file as a spreadsheet writes it: row numbers, ids, decimal commas, words and one gap."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(5.0 * (np.arange(N) % 2), 1.0)
    y = 2 * x + rng.normal(size=N)
    cells = [["" if i == GAP else f"{x[i]:.3f}", f"{y[i]:.3f}", "ab"[i % 2]] for i in range(N)]
    rows = [";".join([str(i), f"p{7 * i}", *line]).replace(".", ",") for i, line in enumerate(cells)]
    (tmp_path / "data.csv").write_text("\n".join([";who;x;y;kind", *rows]) + "\n")
    turned = [";".join([line[1], f"p{7 * i}", line[0]]).replace(".", ",") for i, line in enumerate(cells)]
    (tmp_path / "turned.csv").write_text("\n".join(["y;who;x", *turned]) + "\n")
    return x, y


def predicted(name):
    assert main(["predict", "fit.tp", name, "--out", "rows.csv"]) == 0
    with open("rows.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == [str(i + 1) for i in range(N)]
    assert [row["id"] for row in rows] == [f"p{7 * i}" for i in range(N)]
    return rows


@pytest.mark.parametrize("missing", ["drop", "marginalise"])
def test_every_row_comes_back(european, missing, capsys):
    flags = ["-k", "2", "--missing", missing, "--out", "fit.tp", "--format", "text"]
    assert main(["fit", "data.csv", *flags]) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[0] == "left out  column 1: id; counts the rows from 0"
    assert first[1].startswith("left out  who: id")
    assert first[2].startswith("left out  kind: text; two values, and this model is for numbers")
    rows = predicted("data.csv")
    assert rows == predicted("turned.csv")
    fit = tp.load("fit.tp")
    assert [column.name for column in fit.schema.used] == ["x", "y"]
    assert (rows[GAP]["component"] == "") == (missing == "drop")
    x, y = (np.round(column, 3) for column in european)
    x[GAP] = np.nan
    known = np.ones(N, bool) if missing == "marginalise" else ~np.isnan(x)
    expected = fit.log_predictive(np.stack([x, y], axis=1)[known])
    np.testing.assert_allclose([float(rows[i]["log_density"]) for i in np.flatnonzero(known)], expected, rtol=1e-9)


def test_a_regression_takes_its_own_training_file(european):
    assert (
        main(["fit", "data.csv", "--model", "regression", "--target", "y", "--missing", "drop", "--out", "fit.tp"]) == 0
    )
    rows = predicted("data.csv")
    assert rows[GAP]["mean"] == "" and rows == predicted("turned.csv")
    seen = [i for i in range(N) if i != GAP]
    close = np.array([float(rows[i]["mean"]) for i in seen]) - european[1][seen]
    assert np.std(close) < 1.5


def test_a_comparison_predicts_every_row_and_what_lacks_a_column_is_refused(european, capsys):
    assert main(["compare", "data.csv", "-k", "1:2", "--missing", "drop", "--out", "fit.tp"]) == 0
    assert predicted("data.csv")[GAP]["log_density"] == ""
    Path("short.csv").write_text("who;x\na;1,5\nb;2,5\n")
    assert main(["predict", "fit.tp", "short.csv"]) == 2
    assert "short.csv lacks the column 'y'; its columns are x" in capsys.readouterr().err


def test_columns_that_were_asked_for_are_used_whatever_they_are(european):
    assert main(["fit", "data.csv", "-k", "1", "--columns", "column 1,y", "--out", "fit.tp"]) == 0
    assert [column.name for column in tp.load("fit.tp").schema.used] == ["column 1", "y"]
    assert len(predicted("data.csv")) == N
