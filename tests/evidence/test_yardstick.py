"""The yardstick of the evidence: how claims are counted, and that other libraries get the target we have."""

import dataclasses
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from benchmarks.evidence import measure as measured
from benchmarks.evidence import peers
from benchmarks.evidence.chib import Prior, chib
from benchmarks.evidence.measure import Measured, keep, kept, units
from benchmarks.evidence.problems import FOLDER, how_many, problems
from benchmarks.evidence.tables import line, printed, ratios, summarised
from benchmarks.evidence.target import target
from tests.exact import enumeration, marginals
from tests.tiers import with_slow


def run(**fields):
    usual = Measured("HMM 1", "PT", 0, -5.0, 0.0, -5.01, 0.01, (-5.04, -4.98), True, (), 2.0, False)
    return dataclasses.replace(usual, **fields)


QUICK = (
    "wide prior, 2 components 1",
    "Poisson mixture 1",
    "HMM 2",
    "LinearRegression 1",
    "FactorAnalysis 1",
    "Graph 1",
)


def test_there_are_a_hundred_problems_whose_files_say_how_their_evidence_follows():
    assert len([one for one in problems().values() if one.derived is not None and one.uncertainty == 0.0]) >= 100
    assert all(one.uncertainty <= 0.02 for one in problems().values())
    for path in FOLDER.glob("*.json"):
        text = json.loads(path.read_text())
        assert len(text["model"]) > 50 and len(text["derivation"]) > 50
        for one in text["problems"]:
            assert one["uncertainty"] == 0.0 or len(one["checked"]) >= 2  # two long computations


@pytest.mark.parametrize("name", with_slow(problems(), *(set(problems()) - set(QUICK))))
def test_the_derivations_give_what_the_files_say(name):
    problem = problems()[name]
    if problem.derived is None:
        pytest.skip("two long computations bracket it")
    assert problem.derived() == pytest.approx(problem.log_evidence, abs=1e-8)


@pytest.mark.parametrize("size", [2, 3])
def test_chibs_identity_from_long_chains_agrees_with_enumeration(size):
    """Two dimensions; the reference of the real data."""
    prior = {"mean": [0.0, 1.0], "pseudo_count": 0.3, "dof": 3.0, "scatter": [[0.6, 0.1], [0.1, 0.8]]}
    x = np.random.default_rng(0).normal(size=(6, 2)) + 2.0 * (np.arange(6)[:, None] % 2)
    exact = enumeration.log_evidence(x, lambda rows: marginals.gaussian(rows, **prior), np.ones(size))
    parts = Prior(np.array(prior["mean"]), prior["pseudo_count"], prior["dof"], np.array(prior["scatter"]))
    value, error = chib(x, parts, size, chains=400, sweeps=60)
    assert error < 0.05 and abs(value - exact) < 4.0 * error


def test_claims_brackets_and_warnings_are_counted():
    runs = [
        run(),
        run(seed=1, log_evidence=-5.03),  # a claim that is false, at three standard errors
        run(seed=2, bracket=(-4.9, None)),  # a bracket that misses by 0.1
        run(seed=3, converged=False, bracket=None),  # a warning in vain
        run(seed=4, log_evidence=None, standard_error=None, bracket=None, converged=False, notes=("why",)),
    ]
    found = line(summarised(runs))
    assert (found["runs"], found["claims"], found["±1.96 holds"]) == (5, 0.6, 2 / 3)
    assert (found["brackets shown"], found["brackets that miss"]) == (0.6, 1 / 3)
    assert found["worst miss"] == pytest.approx(0.1)
    assert found["warned in vain"] == 1 / 3
    assert found["rms z"] == pytest.approx(np.sqrt((1 + 9 + 1) / 3))


def test_precision_is_in_units_of_the_best_peer():
    quick = run(method="bridge", log_evidence=-5.02, standard_error=None, bracket=None, cpu_seconds=1.0)
    slow = run(method="dynesty", log_evidence=-5.1, bracket=None, cpu_seconds=1.0)
    rows = summarised([run(), quick, slow])
    ratio, best = ratios(rows, "PT", compiled=True)["HMM 1"]
    assert best == "bridge" and ratio == pytest.approx(4 / 2)  # a quarter of the squared error in twice the time
    assert "bridge" in printed(json.loads(json.dumps(rows)))


def test_the_tables_say_how_much_was_run():
    ours, peer = run(method="PT"), run(method="bridge", standard_error=None, bracket=None, converged=True)
    rows = summarised([ours, run(seed=1), run(problem="HMM 2"), peer])
    all_of_them = how_many()
    assert f"Run: PT on 2 of {all_of_them} problems, 2 seeds each (fewer on 1 of them, at least 1)" in printed(rows)
    assert f"bridge on 1 of {all_of_them} problems" in printed(rows)
    assert "Not run: IS, AIS, SMC, blackjax SMC, blackjax NSS, dynesty." in printed(rows)
    assert "all of ours" not in printed(rows)  # there is one
    assert "all of ours" in printed(summarised([ours, run(method="IS")]))
    only = printed(summarised([peer]))  # this crashed
    assert "| bridge | 1 |" in only and "all of ours" not in only


def test_what_ends_while_garbage_is_collected_is_told_again(capfd):
    """An alarm inside a callback of the garbage collector is lost, and Python prints it."""

    class Deaf:
        def __del__(self):
            time.sleep(0.3)

    def slow(method, problem):
        def one(seed):
            Deaf()
            for _ in range(100):
                time.sleep(0.1)

        return one

    hook = sys.unraisablehook
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "_ours", slow)
        patch.setattr(measured, "AGAIN", 0.2)
        began = time.time()
        try:
            assert measured.measure(("PT", (("HMM 1", (0,)),)), began + 0.1) == []
        finally:
            sys.unraisablehook = hook
    assert time.time() - began < 5.0
    assert "Late" not in capfd.readouterr().err


def test_a_run_of_another_library_has_so_many_cpu_seconds(monkeypatch):
    """No answer then, the time counted, and no other seed of the problem, in this call or a later one."""

    def endless(target):
        def one(seed):
            while True:
                sum(range(10_000))

        return one

    monkeypatch.setitem(peers.PEERS, "bridge", endless)
    (found,) = measured.measure(("bridge", (("HMM 1", (0, 1)),)), time.time() + 100.0, limit=0.3)
    assert found.log_evidence is None and found.cpu_seconds >= 0.3
    assert "no answer in 0.3 CPU seconds" in found.notes[0]
    assert units(["HMM 1"], ["bridge"], 3, [found]) == []


def test_what_is_done_is_not_done_again(tmp_path):
    done = [run(seed=seed, notes=("a note",)) for seed in (0, 1)]
    keep(tmp_path / "evidence.json", done)
    again = kept(tmp_path / "evidence.json")
    assert [dataclasses.replace(one, bracket=tuple(one.bracket)) for one in again] == done
    assert units(["HMM 1"], ["PT"], 3, again) == [("PT", (("HMM 1", (2,)),))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HMM 1", "LinearRegression 1", "Mixture 1", "FactorAnalysis 1", "Graph 1"])
def test_other_libraries_have_the_same_target(name):
    """The likelihood averaged over the prior is the evidence, over the real line and over the cube."""
    problem = problems()[name]
    here, draws = target(problem), 20_000
    cube = np.random.default_rng(0).random((draws, here.cube))
    line = jax.jit(jax.vmap(here.log_likelihood))(here.sample_prior(jax.random.key(0), draws))
    variates = jax.jit(jax.vmap(here.at_variates))(jnp.asarray([here.variates(row) for row in cube]))
    for values in (np.asarray(line), np.asarray(variates)):
        mean = logsumexp(values) - np.log(draws)
        error = np.std(np.exp(values - mean)) / np.sqrt(draws)
        assert error < 0.1
        assert abs(mean - problem.log_evidence) < 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HMM 1", "LinearRegression 1", "wide prior, 2 components 1"])
def test_priors_over_the_real_line_have_mass_one(name):
    """By importance sampling from a wide t distribution that is fitted to draws of the prior."""
    from scipy.stats import multivariate_t

    here, draws = target(problems()[name]), 20_000
    u = np.asarray(here.sample_prior(jax.random.key(0), draws))
    wide = multivariate_t(u.mean(axis=0), 1.2 * np.cov(u.T), df=5, seed=1)
    v = wide.rvs(draws)
    weights = np.asarray(jax.jit(jax.vmap(here.log_prior))(jnp.asarray(v))) - wide.logpdf(v)
    mass = np.exp(weights)
    assert abs(mass.mean() - 1) < 4 * mass.std() / np.sqrt(draws)
    assert mass.std() / np.sqrt(draws) < 0.1
