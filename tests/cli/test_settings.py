"""`--set`, `--config`, `--reference` and models written in a Python file."""

import json

import pytest
from rich.cells import cell_len

import temperance as tp
from temperance.cli.options import Budget, Problem, chosen_methods
from temperance.cli.output import show_table
from temperance.registry import method as entry_of_method
from tests.cli.test_commands import refused, run, tiny  # noqa: F401

WRITTEN = """
import numpy as np
import temperance as tp

def graph(k=2):
    g = tp.Graph()
    weights = g.dirichlet("weights", np.ones(k))
    mu = g.normal("mu", 0.0, 1e-3, plates=g.plate("k", k))
    z = g.categorical("z", weights, plates="n")
    g.normal("x", mu[z], 4.0, observed=True)
    return g

mixture = tp.GaussianMixture(2)
"""
CONFIG = """
source = "tiny.csv"
components = [1, 2]
restarts = 3
set = ["tol=1e-7"]
[model]
concentration = 0.5
[prior]
mean = 0.0
scatter = [[0.22]]
"""


def fitted(name="fit.tp"):
    return tp.load(name)


def test_any_argument_can_be_set(tiny, capsys):  # noqa: F811
    options = ["-k", "2", "--set", "method.tol=1e-7", "--set", "weights=dirichlet", "--set", "concentration=0.5"]
    code, _, _ = run(capsys, "fit", "tiny.csv", *options, "--out", "fit.tp")
    assert code == 0 and fitted().method == tp.VB(restarts=10, tol=1e-7)
    same = tp.fit(tp.GaussianMixture(2, concentration=0.5), fitted().data.values[:7], fitted().method, seed=0)
    assert fitted().model.prior["weights"].concentration.tolist() == same.model.prior["weights"].concentration.tolist()
    assert "--set nonsense: GaussianMixture takes n_components" in refused(
        capsys, "fit", "tiny.csv", "--set", "nonsense=1"
    )
    assert "--set must be like tol=1e-8" in refused(capsys, "fit", "tiny.csv", "--set", "tol")
    assert "must be model, method or prior" in refused(capsys, "fit", "tiny.csv", "--set", "data.tol=1")
    assert "tol must be" in refused(capsys, "fit", "tiny.csv", "--set", "tol=-1")


def test_a_file_holds_all_flags_and_the_command_line_overrides_them(tiny, capsys):  # noqa: F811
    (tiny / "run.toml").write_text(CONFIG)
    code, out, _ = run(capsys, "compare", "--config", "run.toml", "--out", "hill.tp")
    assert code == 0 and [row["components"] for row in json.loads(out)["models"]] == [1, 2]
    found = tp.load("hill.tp").best_fit
    assert found.method == tp.VB(restarts=3, tol=1e-7)
    assert found.model.prior["weights"].concentration.tolist() == [0.5, 0.5]
    code, out, _ = run(capsys, "compare", "--config", "run.toml", "-k", "1")
    assert code == 0 and [row["components"] for row in json.loads(out)["models"]] == [1]
    (tiny / "run.toml").write_text("speed = 3")
    assert "--config: run.toml has 'speed'; it may have" in refused(capsys, "compare", "--config", "run.toml")
    (tiny / "run.toml").write_text("= 3")
    assert "run.toml is not TOML" in refused(capsys, "compare", "--config", "run.toml")


def test_where_a_path_starts():
    budget, problem = Budget(reference="auto"), Problem("tiny.csv")
    chosen = chosen_methods("vb,pt,ais,smc", problem, budget)
    made = {name: budget.method(entry, problem.entry) for name, entry in chosen.items()}
    assert [made[name].reference for name in ("pt", "ais", "smc")] == ["auto"] * 3
    with pytest.raises(ValueError, match="--reference is for --method pt, ais, smc, got --method vb"):
        chosen_methods("vb", problem, budget)
    assert entry_of_method("smc").make(reference=None) == tp.SMC()


def test_models_and_graphs_of_a_python_file(tiny, capsys):  # noqa: F811
    (tiny / "mine.py").write_text(WRITTEN)
    code, out, _ = run(capsys, "fit", "tiny.csv", "--model", "mine.py:graph", "-k", "2", "--restarts", "3")
    assert code == 0
    space: dict = {}
    exec(WRITTEN, space)
    x = [-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1]
    same = tp.fit(space["graph"](2).model(), x, tp.VB(restarts=3), seed=0)
    assert json.loads(out)["log_evidence"] == pytest.approx(same.log_evidence, rel=1e-9)
    code, _, _ = run(capsys, "fit", "tiny.csv", "--model", "mine.py:mixture")
    assert code == 0
    for name, sentence in (
        ("nothing", "must be a model, a tp.Graph or a function, got None"),
        ("mixture", "--components needs a function: 'mixture' of mine.py is one model"),
    ):
        assert sentence in refused(capsys, "fit", "tiny.csv", "--model", f"mine.py:{name}", "-k", "3")
    assert "there is no file 'other.py'" in refused(capsys, "fit", "tiny.csv", "--model", "other.py:graph")


def test_a_table_leaves_out_columns_instead_of_cutting_words(tiny, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "50")
    code, out, _ = run(capsys, "compare", "tiny.csv", "-k", "1:2", "--restarts", "3", "--format", "text")
    assert code == 0 and "…" not in out
    table, said = out.split("too wide for the terminal, in JSON: ")
    assert max(map(len, table.splitlines())) <= 50 and " ".join(said.split()).startswith("in use, label correction")
    assert {"components", "method", "evidence", "probability"} <= set(table.split())


def test_no_heading_is_cut_at_any_width(capsys, monkeypatch):
    """At 80 columns, a heading of two words beside narrower ones lost its last letter."""
    headings = ["components", "log evidence", "label correction", "probability", "in use", "converged", "北京"]
    for width in range(40, 110):
        monkeypatch.setenv("COLUMNS", str(width))
        show_table({name: ["yes"] for name in headings}, least=["in use"])
        table, _, said = capsys.readouterr().out.partition("too wide for the terminal")
        assert max(map(cell_len, table.splitlines())) <= width
        assert {word for name in headings for word in name.split()} <= set(f"{table} {said}".replace(",", " ").split())
