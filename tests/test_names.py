"""The names of columns survive into tables, pages and files, whatever the model; parts are numbered from 1 by size."""

import html
import json
import shlex
from typing import Any

import numpy as np
import pandas as pd
import pytest

import temperance as tp
from temperance.cli import main
from temperance.report._again import code_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(60, 3)) * [1.0, 5.0, 2.0], columns=["age", "income", "height"])
FRAME.loc[:39, "age"] += 8.0


def test_means_of_components_have_the_names_of_the_columns(tmp_path):
    fit = tp.fit(tp.GaussianMixture(2), FRAME, tp.VB(restarts=3))
    table = fit.columns()
    assert table["component"] == [1, 2] and "mean" not in table
    np.testing.assert_allclose(table["mean of age"], [FRAME["age"][:40].mean(), FRAME["age"][40:].mean()], atol=0.2)
    page = tp.report(fit, tmp_path / "page.html").read_text("utf-8")
    assert "income" in page and "column 1" not in page and "Who they are" in page
    found = fit.profiles().to_frame()
    assert set(found["column"]) == {"share", "age", "income", "height"}


def test_a_regression_names_its_weights_and_its_page_shows_them(tmp_path):
    y = FRAME.to_numpy() @ [1.0, 0.5, -2.0] + RNG.normal(size=60)
    fit = tp.fit(tp.LinearRegression(), (FRAME, y))
    table = fit.columns()
    assert table["weight"] == ["intercept", "age", "income", "height"]
    axes = tp.plot.coefficients(fit)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["age", "income", "height"]
    np.testing.assert_allclose(axes.containers[0].lines[0].get_xdata(), table["mean"][1:])
    page = tp.report(fit, tmp_path / "page.html").read_text("utf-8")
    assert "share of each component" not in page and "feature 0" not in page


def test_factors_name_the_column_they_are_largest_on():
    rows = np.outer(RNG.normal(size=60), [0.0, 3.0, 0.1]) + 0.1 * RNG.normal(size=(60, 3))
    fit = tp.fit(tp.FactorAnalysis(1), pd.DataFrame(rows, columns=["a", "b", "c"]))
    assert fit.columns()["largest on column"] == ["b"]


def test_states_are_numbered_from_one_by_size():
    x = np.concatenate([RNG.normal(0, 1, (20, 1)), RNG.normal(9, 1, (40, 1))])
    fit = tp.fit(tp.HMM(2), x, tp.VB(restarts=3))
    table, found = fit.columns(), fit.membership(x)
    assert table["state"] == [1, 2] and table["steps"] == sorted(table["steps"], reverse=True)
    assert found["state"][:20] == [2] * 20 and found["state"][20:] == [1] * 40


def test_a_page_about_one_fit_is_headed_by_what_was_found_not_by_its_evidence(tmp_path):
    for model, answer in ((tp.GaussianMixture(2), "2 components"), (tp.HMM(2), "2 states")):
        page = tp.report(tp.fit(model, FRAME, tp.VB(restarts=3)), tmp_path / "page.html").read_text("utf-8")
        big = page.split('<p class="answer"><strong>')[1].split("</strong>")[0]
        assert big == answer
    with_ones, noise = np.column_stack([np.ones(60), FRAME]), RNG.normal(size=60)
    noise -= with_ones @ np.linalg.lstsq(with_ones, noise)[0]  # of no effect in this sample
    y = FRAME["age"].to_numpy() + 0.1 * noise
    page = tp.report(tp.fit(tp.LinearRegression(), (FRAME, y)), tmp_path / "page.html").read_text("utf-8")
    assert "<strong>1 of 3 inputs has a clear effect</strong> <span>age (+)</span>" in page
    assert "Predicted and observed" in page


def test_topics_have_one_number_everywhere_and_commands_are_quoted(tmp_path, capsys, monkeypatch):
    texts = tmp_path / "my texts.csv"
    lines = ["cats purr and sleep", "dogs bark at night", "cats sleep when dogs bark", "night and day"] * 6
    texts.write_text("id,body\n" + "".join(f"{i},{text} x{i}x\n" for i, text in enumerate(lines)))
    page = tmp_path / "page.html"
    command = ["fit", str(texts), "--model", "topics", "-k", "2", "--method", "cvb0", "--report", str(page)]
    monkeypatch.setattr("sys.argv", ["temperance", *command])
    assert main(command) == 0
    record = json.loads(capsys.readouterr().out)
    assert sorted(record["table"]["topic"]) == [1, 2]
    shown = html.unescape(page.read_text("utf-8"))
    assert shlex.join(["temperance", *command]) in shown and "An LDA with 2 topics" in shown
    assert "topic 2" in shown and "topic 0" not in shown


@pytest.mark.slow
def test_the_code_that_a_page_shows_runs():
    texts = 5 * [["cat", "dog", "cat"], ["bond", "share", "bond"]]
    y = FRAME["age"].to_numpy() > 4
    for model, data in (
        (tp.GaussianMixture(2), FRAME),
        (tp.ClassMixture(2), FRAME),
        (tp.HMM(2), FRAME.to_numpy()),
        (tp.LDA(2), texts),
        (tp.FactorAnalysis(1), FRAME),
        (tp.LinearRegression(), (FRAME, y * 1.0)),
    ):
        fit = tp.fit(model, data, tp.VB(max_iter=3), seed=1)
        made: dict[str, Any] = {"x": data}
        exec(code_of(fit).replace("print", "str"), made)
        assert made["fit"].log_evidence == fit.log_evidence


def test_the_code_that_a_page_of_groups_shows_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(nr=range(60)).to_csv("people.csv", index=False)
    command = ["groups", "people.csv", "--most", "2", "--as", "nr=id", "--format", "json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    page = html.unescape((tmp_path / "people-groups" / "report.html").read_text("utf-8"))
    code = page[page.index("import temperance as tp") :].split("</")[0]
    made: dict[str, Any] = {}
    exec(code, made)
    assert len(made["fit"].order) == found["groups"] and "kinds={'nr': 'id'}" in code
