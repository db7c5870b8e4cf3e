"""What the table of models and methods promises, holds."""

import json

import numpy as np
import pytest

import temperance as tp
from temperance.cli import main
from temperance.cli.registry import METHODS, MODELS, methods

RNG = np.random.default_rng(0)
TABLES = {
    "gaussian-mixture": np.concatenate([RNG.normal(-3, 1, (6, 1)), RNG.normal(3, 1, (6, 1))]),
    "dirichlet-process": np.concatenate([RNG.normal(-3, 1, (6, 1)), RNG.normal(3, 1, (6, 1))]),
    "poisson-mixture": np.concatenate([RNG.poisson(2, (6, 1)), RNG.poisson(20, (6, 1))]),
    "bernoulli-mixture": np.repeat([[0, 0, 1], [1, 1, 0]], 6, axis=0),
    "hidden-markov": np.concatenate([RNG.normal(-3, 1, (6, 1)), RNG.normal(3, 1, (6, 1))]),
    "topics": np.repeat([[3, 2, 0, 0], [0, 0, 4, 1]], 3, axis=0),
    "factors": RNG.normal(size=(10, 4)),
    "factor-analysis": RNG.normal(size=(12, 4)),
    "state-space": np.cumsum(RNG.normal(size=(12, 2)), axis=0),
    "polynomial": np.stack([np.linspace(-1, 1, 9), np.linspace(-1, 1, 9) ** 2], axis=1),
}


def test_every_name_in_the_table_is_known():
    assert set(TABLES) == set(MODELS)
    assert all(set(entry.methods) <= set(METHODS) for entry in MODELS.values())


@pytest.mark.parametrize("model, plain", [("bernoulli-mixture", tp.VB(restarts=3)), ("topics", tp.SVI())])
def test_flags_of_tempered_methods_reach_them(model, plain):
    made = methods("vb,annealed,vt,lvt", 3, 20, model, "1,2.5,4", None)
    assert made["vb"] == tp.VB(restarts=3)
    assert made["annealed"] == tp.Annealed(plain, (1.0, 2.5, 4.0))
    assert (made["vt"], made["lvt"]) == (tp.VT((1, 2.5, 4), plain), tp.LVT((1, 2.5, 4), plain))
    made = methods("annealed,vt,lvt", 3, 20, model, None, 7.0)
    assert made["annealed"] == tp.Annealed(plain, length=7)
    assert (made["vt"], made["lvt"]) == (tp.VT(method=plain, length=7), tp.LVT(method=plain, length=7))


@pytest.mark.slow
@pytest.mark.parametrize("model, method", [(model, method) for model in MODELS for method in MODELS[model].methods])
def test_every_pair_runs(model, method, tmp_path, capsys):
    table = TABLES[model]
    path = tmp_path / "data.csv"
    names = ",".join(f"c{index}" for index in range(table.shape[1]))
    np.savetxt(path, table, delimiter=",", header=names, comments="")
    options = ["--components", "2", "--restarts", "2", "--draws", "20"]
    if model == "polynomial":
        options += ["--target", "c1"]
    code = main(["fit", str(path), "--model", model, "--method", method, *options, "--format", "json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert json.loads(out)["method"] == method
