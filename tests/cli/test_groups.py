"""`temperance groups`: the columns are said first, every row is written with its id, and the groups are described."""

import csv
import json
import re

import numpy as np
import pytest
from scipy.stats import beta

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
    low, high = (float(end) / 100 for end in re.search(r"Group B, \d+% \((\d+)% to (\d+)%\)", shown).groups())
    assert low < old.mean() < high and high - low < 0.25
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
    page = (folder / "report.html").read_text("utf-8")
    assert "For a paper" in page and "aBIC" in page
    with (folder / "sizes.csv").open() as file:
        assert [row["classes"] for row in csv.DictReader(file)] == ["1", "2", "3"]


def test_a_kind_that_does_not_exist_is_told_in_a_sentence(tmp_path, capsys):
    survey(tmp_path / "survey.csv")
    assert main(["groups", str(tmp_path / "survey.csv"), "--as", "age"]) == 2
    assert "--as must be like income=positive" in capsys.readouterr().err


@pytest.mark.slow
def test_more_groups_are_tried_where_the_largest_number_wins(tmp_path, capsys):
    """Nine groups far apart: the range of six is extended, and that is said; with --most it is not."""
    z = np.repeat(np.arange(9), 12)
    points = RNG.normal(np.stack([10 * (z % 3), 10 * (z // 3)], axis=1), 0.5)
    np.savetxt(tmp_path / "nine.csv", points, delimiter=",", header="a,b", comments="")
    command = ["groups", str(tmp_path / "nine.csv"), "--out", str(tmp_path / "found"), "--format", "text"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "9 groups (probability" in shown and "1 to 10 were compared" in shown
    assert main([*command, "--most", "4"]) == 0
    shown = capsys.readouterr().out
    assert "4 groups (probability" in shown and "is the largest that was tried" in shown


def test_shares_of_known_classes_are_within_their_intervals():
    """With classes that are far apart the weights are Beta with the counts added to one each."""
    z = np.repeat([0, 1], [15, 45])
    fit = tp.fit(tp.ClassMixture(2), {"x": RNG.normal(1000.0 * z, 1.0)}, tp.VB(restarts=3))
    found = fit.profiles(0.9)
    np.testing.assert_allclose(found.share, [46 / 62, 16 / 62], rtol=1e-6)
    np.testing.assert_allclose([found.low[0], found.high[0]], beta.ppf([0.05, 0.95], 46, 16), rtol=1e-6)
    assert [row["class"] for row in found.rows()[:2]] == ["A", "B"]
    assert found.to_frame().loc[2, "estimate"] == pytest.approx(1000.0, abs=1.0)
