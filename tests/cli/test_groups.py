"""`temperance groups`: the columns are said first, every row is written with its id, and the groups are described."""

import csv
import json

import numpy as np

import temperance as tp
from temperance.cli import main

RNG = np.random.default_rng(3)


def survey(path, n=120):
    old = RNG.uniform(size=n) < 0.3
    rows = zip(
        range(1001, 1001 + n),
        np.where(old, RNG.normal(65, 4, n), RNG.normal(30, 4, n)).round(1),
        np.where(RNG.uniform(size=n) < np.where(old, 0.9, 0.1), "yes", "no"),
        RNG.poisson(np.where(old, 8, 1)),
        strict=True,
    )
    lines = [f"{i};{str(age).replace('.', ',')};{smokes};{visits}" for i, age, smokes, visits in rows]
    lines[4] = "1005;;;"  # nothing is known of it, but it is a row
    path.write_text("\n".join(["id;age;smokes;visits", *lines]) + "\n")
    return old


def test_groups_of_a_european_survey(tmp_path, capsys):
    old = survey(tmp_path / "survey.csv")
    folder = tmp_path / "found"
    assert main(["groups", str(tmp_path / "survey.csv"), "--most", "3", "--out", str(folder), "--format", "text"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("left out  id: id")
    assert "2 groups (probability" in shown
    assert "Group A, " in shown and "smokes yes" in shown and "high age" in shown
    with (folder / "groups.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 121)]
    assert [row["id"] for row in rows] == [str(i) for i in range(1001, 1121)]
    found = np.array([row["group"] for row in rows])
    assert (found == "A").sum() > (found == "B").sum()  # the largest is the first
    assert np.mean((found == "B") == old) > 0.95
    for row in rows:
        assert abs(float(row["probability of A"]) + float(row["probability of B"]) - 1) < 1e-4
    again = ["predict", str(folder / "fit.tp"), str(tmp_path / "survey.csv"), "--format", "json"]
    assert main(again) == 0 and len(json.loads(capsys.readouterr().out)) == 120
    assert tp.load(folder / "fit.tp").model.n_components == 2
    assert "<html" in (folder / "report.html").read_text("utf-8")


def test_a_kind_that_does_not_exist_is_told_in_a_sentence(tmp_path, capsys):
    survey(tmp_path / "survey.csv")
    assert main(["groups", str(tmp_path / "survey.csv"), "--as", "age"]) == 2
    assert "--as must be like income=positive" in capsys.readouterr().err
