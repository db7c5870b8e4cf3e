"""What the table of models and methods promises, holds."""

import json
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance import registry
from temperance.cli import main
from temperance.cli.options import Budget

MODELS = {entry.command: entry for entry in registry.models() if entry.command}
METHODS = {entry.command: entry for entry in registry.methods()}
RNG = np.random.default_rng(0)
TABLES = {
    "mixture": np.concatenate([RNG.normal(-3, 1, (6, 1)), RNG.normal(3, 1, (6, 1))]),
    "dirichlet-process": np.concatenate([RNG.normal(-3, 1, (6, 1)), RNG.normal(3, 1, (6, 1))]),
    "poisson-mixture": np.concatenate([RNG.poisson(2, (6, 1)), RNG.poisson(20, (6, 1))]),
    "bernoulli-mixture": np.repeat([[0, 0, 1], [1, 1, 0]], 6, axis=0),
    "categorical-mixture": np.repeat([[0, 0, 2], [1, 1, 0]], 6, axis=0),
    "multinomial-mixture": np.repeat([[5, 1, 0], [0, 1, 5]], 6, axis=0),
    "hmm": np.concatenate([RNG.normal(-3, 1, (6, 1)), RNG.normal(3, 1, (6, 1))]),
    "topics": np.repeat([[3, 2, 0, 0], [0, 0, 4, 1]], 3, axis=0),
    "factorial-mixture": RNG.normal(size=(10, 4)),
    "factor-analysis": RNG.normal(size=(12, 4)),
    "state-space": np.cumsum(RNG.normal(size=(12, 2)), axis=0),
    "polynomial": np.stack([np.linspace(-1, 1, 9), np.linspace(-1, 1, 9) ** 2], axis=1),
}
TABLES["regression"] = TABLES["polynomial"]
TABLES["logistic"] = np.stack([np.linspace(-1, 1, 9), [0, 0, 1, 0, 0, 1, 1, 0, 1]], axis=1)
TABLES["probit"] = TABLES["logistic"]
TABLES["poisson"] = np.stack([np.linspace(-1, 1, 9), [0, 0, 1, 0, 2, 1, 3, 2, 5]], axis=1)
TABLES["censored"] = TABLES["truncated"] = TABLES["polynomial"]
TABLES["experts"] = np.stack([np.linspace(-1, 1, 24), np.abs(np.linspace(-1, 1, 24))], axis=1)
TABLES["switching-state-space"] = TABLES["state-space"]
TABLES["student-mixture"] = TABLES["mixture"]
TABLES["classes"] = TABLES["poisson-mixture"]
TABLES["hdp"] = TABLES["topics"]


def test_every_name_in_the_table_is_known():
    assert set(TABLES) == set(MODELS)
    assert all(set(entry.methods) <= set(METHODS) for entry in MODELS.values())
    names = [name for entry in MODELS.values() for name in (entry.command, *entry.aliases)]
    assert len(names) == len(set(names))
    assert all(hasattr(tp.estimators, entry.estimator) for entry in MODELS.values() if entry.estimator)


def made(names, model, budget):
    return {name: budget.method(METHODS[name], MODELS[model]) for name in names.split(",")}


@pytest.mark.parametrize("model, plain", [("bernoulli-mixture", tp.VB(restarts=3)), ("topics", tp.SVI())])
def test_flags_of_tempered_methods_reach_them(model, plain):
    found = made("vb,annealed,vt,lvt", model, Budget(restarts=3, draws=20, temperatures="1,2.5,4"))
    assert found["vb"] == tp.VB(restarts=3)
    assert found["annealed"] == tp.Annealed(plain, (1.0, 2.5, 4.0))
    assert (found["vt"], found["lvt"]) == (tp.VT((1, 2.5, 4), plain), tp.LVT((1, 2.5, 4), plain))
    found = made("annealed,vt,lvt", model, Budget(restarts=3, length=7.0))
    assert found["annealed"] == tp.Annealed(plain, length=7)
    assert (found["vt"], found["lvt"]) == (tp.VT(method=plain, length=7), tp.LVT(method=plain, length=7))


def test_every_method_has_the_budget_that_the_help_tells_of():
    found = made(",".join(METHODS), "mixture", Budget())
    assert found == {
        "vb": tp.VB(restarts=10), "annealed": tp.Annealed(tp.VB(restarts=10)), "vt": tp.VT(method=tp.VB(restarts=10)),
        "lvt": tp.LVT(method=tp.VB(restarts=10)), "hellinger": tp.MessagePassing(0.5, restarts=10),
        "ep": tp.EP(restarts=10), "laplace": tp.Laplace(restarts=10), "svi": tp.SVI(), "cvb0": tp.CVB0(),
        "em": tp.EM(restarts=10), "pt": tp.ParallelTempering(draws=2000, warmup=1000), "ais": tp.AIS(), "smc": tp.SMC(),
        "importance": tp.ImportanceSampling(), "gibbs": tp.Gibbs(2000, 1000),
        "collapsed": tp.CollapsedGibbs(2000, 1000), "kernel": tp.VariationalKernel(2000, 1000),
    }  # fmt: skip
    assert made("svi,importance", "mixture", Budget(restarts=2, draws=50)) == {
        "svi": tp.SVI(restarts=2),
        "importance": tp.ImportanceSampling(draws=50),
    }


@pytest.mark.parametrize("model", MODELS)
def test_the_entry_of_a_model_is_found_again(model):
    entry = registry.entry_of(MODELS[model].make(2, covariance="diag", concentration=1.0))
    assert (entry.name, entry.part) == (MODELS[model].name, MODELS[model].part)


def test_the_documentation_has_the_tables():
    assert registry.tables() in (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, method", [(name, method) for name, entry in MODELS.items() for method in entry.methods]
)
def test_every_pair_runs(model, method, tmp_path, capsys):
    table = TABLES[model]
    path = tmp_path / "data.csv"
    names = ",".join(f"c{index}" for index in range(table.shape[1]))
    np.savetxt(path, table, delimiter=",", header=names, comments="")
    options = ["--components", "2", "--restarts", "2", "--draws", "20"]
    if MODELS[model].data == "inputs and targets":
        options += ["--target", "c1"]
    code = main(["fit", str(path), "--model", model, "--method", method, *options, "--format", "json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert json.loads(out)["method"] == method
