"""`temperance groups`: the columns are said first, every row is written with its id, and the groups are described."""

import csv
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta

import temperance as tp
from temperance.cli import main
from temperance.cli.group_words import _by_number

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
    lines[7] = f"1008;-99;{'yes' if old[7] else 'no'};k.A."
    path.write_text("\n".join(["id;age;smokes;visits", *lines]) + "\n")
    return old


def test_groups_of_a_european_survey(tmp_path, capsys):
    old = survey(tmp_path / "survey.csv")
    folder = tmp_path / "found"
    command = ["groups", str(tmp_path / "survey.csv"), "--most", "3", "--out", str(folder), "--format", "text"]
    assert main([*command, "--columns", "2:4", "--na", "-99"]) == 0
    shown = " ".join(capsys.readouterr().out.split())  # lines end at the edge of the terminal
    assert "left out id: id" in shown and "age: real, 2 missing" in shown and "'k.A.' is missing" in shown
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
    assert main(again) == 0  # --na is remembered
    told = json.loads(capsys.readouterr().out)
    assert [row["group"] for row in told] == list(found)
    assert tp.load(folder / "fit.tp").model.n_components == 2
    page = (folder / "report.html").read_text("utf-8")
    assert "For a paper" in page and "aBIC" in page and "The columns" in page and "<strong>2 groups</strong>" in page
    with (folder / "sizes.csv").open() as file:
        assert [row["groups"] for row in csv.DictReader(file)] == ["1", "2", "3"]


COUNTED = """
import sys
import jax.monitoring
heard = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: heard.append(event))
from temperance.cli import main
assert main(sys.argv[1:]) == 0
print("compiled:", sum("backend_compile" in event for event in heard), "scipy.stats" in sys.modules)
import jax.numpy as jnp
jnp.arange(7) * 3
print("then:", sum("backend_compile" in event for event in heard))
"""


@pytest.mark.usefixtures("engines")
def test_the_report_on_a_small_table_compiles_nothing(tmp_path):
    """Nor does it import scipy.stats, which takes a second."""
    survey(tmp_path / "survey.csv")
    command = [sys.executable, "-c", COUNTED, "groups", str(tmp_path / "survey.csv"), "--out", str(tmp_path / "found")]
    environment = os.environ | {"TEMPERANCE_CACHE": str(tmp_path / "cache")}
    told = subprocess.run([*command, "--most", "3"], capture_output=True, text=True, env=environment, timeout=300)
    assert "compiled: 0 False" in told.stdout, told.stderr
    assert int(told.stdout.split("then: ")[1]) > 0  # a count that hears nothing proves nothing


def test_a_kind_that_does_not_exist_is_told_in_a_sentence(tmp_path, capsys):
    survey(tmp_path / "survey.csv")
    assert main(["groups", str(tmp_path / "survey.csv"), "--as", "age"]) == 2
    assert "--as must be like income=positive" in capsys.readouterr().err


@pytest.mark.slow
def test_more_groups_are_tried_where_the_largest_number_wins(tmp_path, capsys):
    """Nine groups far apart: the range of six is extended; with --most it is not, and that is said."""
    z = np.repeat(np.arange(9), 12)
    points = RNG.normal(np.stack([10 * (z % 3), 10 * (z // 3)], axis=1), 0.5)
    np.savetxt(tmp_path / "nine.csv", points, delimiter=",", header="a,b", comments="")
    command = ["groups", str(tmp_path / "nine.csv"), "--out", str(tmp_path / "found"), "--format", "text"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "9 groups (probability" in shown and "among 1 to 10)" in shown
    assert main([*command, "--most", "4"]) == 0
    shown = capsys.readouterr().out
    assert "4 groups (probability" in shown and "is the largest that was tried" in shown


@pytest.mark.slow
def test_words_of_groups_are_those_of_columns_that_tell_them_apart(tmp_path, capsys, monkeypatch):
    """Units stand behind the numbers, words of a scale are medians, lines end at the edge of the terminal, and numbers
    that go together within the groups are named."""
    rng, n = np.random.default_rng(8), 150
    old = np.arange(n) < 45
    mood = np.array(["never", "rarely", "sometimes", "often", "always"])
    cost = rng.normal(0, 1, n)
    rows = zip(rng.normal(np.where(old, 60, 30), 3).round(1), mood[rng.binomial(4, np.where(old, 0.8, 0.2))],
               (50 + 10 * cost).round(2), (20 + 4 * cost + rng.normal(0, 1, n)).round(2),
               rng.choice(["left", "right"], n), strict=True)  # fmt: skip
    lines = ["age (years),mood,cost,price,hand", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("COLUMNS", "80")
    command = ["groups", str(tmp_path / "d.csv"), "--most", "2", "--out", str(tmp_path / "g"), "--format", "text"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines()[:-1])) <= 80
    said = " ".join(shown.split())
    group = re.search(r"Group B, \d+% .*?: (.*?) The groups do not", said)[1]
    assert re.fullmatch(r"high age \(mean [56]\d\.?\d* years\), mood (often|always) \(\d+%\)", group)
    assert re.search(r"low age \(mean (29|30)", said) and re.search(r"mood (never|rarely) \(\d+%\)", said)
    assert "do not differ in" in said and "hand" in said.split("do not differ in")[1]
    assert "Within groups cost and price are correlated (0.9" in said and "--covariance full" in said
    assert main([*command, "--covariance", "full"]) == 0
    assert "are correlated" not in capsys.readouterr().out
    assert "covariance=&#x27;full&#x27;" in (tmp_path / "g" / "report.html").read_text("utf-8")


def test_sizes_that_use_as_many_groups_count_together():
    """Probabilities of 5 and 6 groups, of which 5 are in use in both, are those of 5."""
    cell = lambda size, used: SimpleNamespace(model=size, in_use=used)  # noqa: E731
    hill = SimpleNamespace(cells=[[cell(1, 1), cell(2, None), cell(3, 2)]], probabilities=np.array([0.1, 0.5, 0.4]))
    assert _by_number(hill) == {1: 0.1, 2: 0.9}


def test_shares_of_known_classes_are_within_their_intervals():
    """With classes that are far apart the weights are Beta with the counts added to one each."""
    z = np.repeat([0, 1], [15, 45])
    fit = tp.fit(tp.ClassMixture(2), {"x": RNG.normal(1000.0 * z, 1.0)}, tp.VB(restarts=3))
    found = fit.profiles(0.9)
    np.testing.assert_allclose(found.share, [46 / 62, 16 / 62], rtol=1e-6)
    np.testing.assert_allclose([found.low[0], found.high[0]], beta.ppf([0.05, 0.95], 46, 16), rtol=1e-6)
    assert [row["group"] for row in found.rows()[:2]] == ["A", "B"]
    assert found.to_frame().loc[2, "estimate"] == pytest.approx(1000.0, abs=1.0)


def test_shares_add_up_where_some_classes_stay_empty():
    """Seven rows of two kinds, and a model with four more classes: 46% and 36% would be what is left beside those."""
    fit = tp.fit(tp.ClassMixture(6), {"x": [1.0, 2.0, 1.5, 1.2, 9.0, 9.5, 10.0]}, tp.VB(restarts=10))
    found, delta = fit.profiles(), np.asarray(fit.posterior["weights"].concentration)[fit.order]
    assert len(found.share) == 2 and found.share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.share, delta / delta.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.low[0], beta.ppf(0.025, *delta), rtol=1e-9)
