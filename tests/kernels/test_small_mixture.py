"""Small mixtures in NumPy: held to autodiff sweep by sweep, to the compiled engine fit by fit, and nothing compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import BoundDecreased, NumericalFailure
from temperance.inference import run
from temperance.inference.progress import Progress
from temperance.kernels import run_engine, small_mixture
from temperance.models import Posterior
from temperance.models._answers import compiled_occupancy
from temperance.models.mixture.starts import kmeans_plus_plus
from temperance.numerics import keys

ENGINE = "small mixture (numpy)"
RNG = np.random.default_rng(3)
X = np.concatenate([RNG.normal(-2, 1, (40, 2)), RNG.normal([3, 1], 0.5, (40, 2)), RNG.normal(1, 2, (10, 2))])
PRIORS = {
    "full": tp.NormalWishart([1.0, -1.0], 0.5, 3.5, [[2.0, 0.3], [0.3, 1.0]]),
    "diag": tp.NormalGamma([1.0, -1.0], 0.5, 2.5, [2.0, 1.0]),
    "spherical": tp.IsotropicNormalGamma([1.0, -1.0], 0.5, 2.5, 2.0),
}


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def assert_close(ours, theirs, rtol=1e-9):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for here, there in zip(leaves(ours), leaves(theirs), strict=True):
        np.testing.assert_allclose(here, there, rtol=rtol, atol=rtol * max(1.0, np.abs(there).max()))


def fit_both(monkeypatch, model, x, method, **options):
    found = []
    for engine in ("plain", "auto"):
        monkeypatch.setenv("TEMPERANCE_ENGINE", engine)
        found.append(tp.fit(model, x, method, **options))
    assert [fit.details["engine"] for fit in found] == ["plain", ENGINE]
    return found


# ---- held to autodiff --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["dirichlet", [0.5, 0.25, 0.25]])
@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_a_sweep_is_the_derived_one(covariance, weights):
    model = tp.GaussianMixture(3, covariance=covariance, weights=weights, prior=PRIORS[covariance])
    model, data = model.prepare(X, RNG.uniform(0.0, 2.0, len(X)))
    q = small_mixture.start(tp.VB(), model, data, keys.split(keys.make_key(1), 2))
    problem = small_mixture.flat(model, data)
    fresh, bounds = problem.sweep(small_mixture._pack(jax.tree.leaves(q)))
    after = problem.posterior(fresh)
    for restart in range(2):
        here = jax.tree.map(lambda leaf, restart=restart: jnp.asarray(leaf[restart]), q)
        derived, bound = model.sweep(here, data)
        np.testing.assert_allclose(bounds[restart], bound, rtol=1e-10)
        assert_close(jax.tree.map(lambda leaf, restart=restart: leaf[restart], after), derived, 1e-10)
        shares, truth = small_mixture.shares(model, here, data), model.responsibilities(here, data.values)
        np.testing.assert_allclose(shares, data.weights[: len(X), None] * truth[: len(X)], rtol=1e-9, atol=1e-12)
        occupied = compiled_occupancy(model, here, data)
        np.testing.assert_allclose(shares.sum(axis=0), occupied, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "init",
    [
        "kmeans++",
        "random",
        "uneven",
        "annealed",
        [[-2.0, -2.0], [3.0, 1.0], [1.0, 1.0]],
        np.eye(3)[RNG.integers(3, size=90)],
    ],
)
def test_a_start_is_the_derived_one(init):
    model, data = tp.GaussianMixture(3, init=init).prepare(X, RNG.uniform(0.0, 2.0, len(X)))
    several = keys.split(keys.make_key(5), 3)
    ours = small_mixture.start(tp.VB(), model, data, several)
    assert_close(ours, jax.vmap(lambda key: model.initial(key, data))(several), 1e-10)


def test_restarts_of_different_kinds_are_the_derived_ones():
    model, data = tp.GaussianMixture(3).prepare(X)
    several = keys.split(keys.make_key(5), 5)
    kinds = tuple(model.kind_of_restart(number, data) for number in range(5))
    assert set(kinds) == {"kmeans++", "uneven", "annealed"} and kinds[0] == "kmeans++"
    ours = small_mixture.start(tp.VB(), model, data, several, kinds)
    assert_close(ours, run._start(tp.VB(), model, data, several, kinds).states, 1e-10)
    first = small_mixture.start(tp.VB(), model, data, several[:1])
    assert_close(first, jax.tree.map(lambda leaf: leaf[:1], ours), 0.0)  # a single run begins as ever


def test_uniforms_are_those_of_jax_bit_for_bit():
    several = jax.random.split(jax.random.key(9), 3)
    ours = keys.uniforms(np.asarray(jax.random.key_data(several)), 50)
    np.testing.assert_array_equal(
        ours, jax.vmap(lambda key: jax.random.uniform(key, (50,), dtype=jnp.float64))(several)
    )
    for numbers, theirs in (
        ([7], jax.vmap(lambda k: jax.random.fold_in(k, 7)[None])),
        ([0, 1], jax.vmap(jax.random.split)),
    ):
        ours = keys.hashes(np.asarray(jax.random.key_data(several)), numbers)
        np.testing.assert_array_equal(ours, jax.random.key_data(theirs(several)))


def test_seeds_are_those_of_jax_also_among_duplicates():
    rows, weights = np.repeat(X[:4], 3, axis=0), np.arange(12.0)
    several = jax.random.split(jax.random.key(2), 4)
    theirs = jax.vmap(lambda key: kmeans_plus_plus(key, jnp.asarray(rows), jnp.asarray(weights), 6))(several)
    raw = np.asarray(jax.random.key_data(several))
    np.testing.assert_array_equal(small_mixture._kmeans_plus_plus(raw, rows, weights, 6), theirs)


# ---- held to the compiled engine ---------------------------------------------------------------------------------

CASES = {
    "one component": (tp.GaussianMixture(1), X, tp.VB()),
    "restarts that end at different steps": (tp.GaussianMixture(4), X, tp.VB(restarts=5)),
    "one column": (tp.GaussianMixture(3, covariance="diag"), X[:, :1], tp.VB(restarts=2)),
    "five columns": (tp.GaussianMixture(2), RNG.normal(size=(30, 5)) ** 3, tp.VB(restarts=2)),
    "spherical": (tp.GaussianMixture(3, covariance="spherical", init="random"), X, tp.VB(restarts=2)),
    "a prior": (tp.GaussianMixture(3, prior=PRIORS["full"], concentration=[0.1, 1.0, 2.0]), X, tp.VB(restarts=2)),
    "known weights, one of them zero": (tp.GaussianMixture(3, weights=[0.5, 0.5, 0.0]), X, tp.VB(restarts=2)),
    "Mixture": (tp.Mixture(2), X, tp.VB()),
    "a budget that runs out": (tp.GaussianMixture(3), X, tp.VB(restarts=3, max_iter=7)),
    "a budget of one step": (tp.GaussianMixture(3), X, tp.VB(restarts=3, max_iter=1)),
    "one point": (tp.GaussianMixture(2), X[:1], tp.VB(restarts=2)),
    "more components than points": (tp.GaussianMixture(5), X[:3], tp.VB(restarts=3)),
    "duplicates": (tp.GaussianMixture(3), np.repeat(X[:2], 10, axis=0), tp.VB(restarts=3)),
    "a constant column": (tp.GaussianMixture(2), np.column_stack([X[:, 0], np.full(90, 7.3)]), tp.VB(restarts=2)),
    "far from the origin": (tp.GaussianMixture(2), X + 1e6, tp.VB(restarts=2)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_is_the_compiled_one(case, monkeypatch):
    model, x, method = CASES[case]
    found = []
    for engine in ("plain", "auto"):
        monkeypatch.setenv("TEMPERANCE_ENGINE", engine)
        found.append(run.run(method, *model.prepare(x), keys.make_key(4), Progress(False)))
    plain, ours = found
    assert (plain.engine, ours.engine) == ("plain", ENGINE)
    np.testing.assert_array_equal(ours.converged, plain.converged)
    np.testing.assert_allclose(ours.bounds, plain.bounds, rtol=1e-9)
    np.testing.assert_allclose(ours.history["elbo"], plain.history["elbo"], rtol=1e-9)
    assert_close(ours.states, plain.states)


def test_weighted_rows_are_repeated_rows(monkeypatch):
    counts = RNG.integers(0, 3, len(X)).astype(float)
    plain, ours = fit_both(monkeypatch, tp.GaussianMixture(3), X, tp.VB(restarts=2), weights=counts)
    np.testing.assert_allclose(ours.history["restarts"], plain.history["restarts"], rtol=1e-9)


def test_the_same_seed_gives_the_same_bits_however_many_restarts():
    one, same, more = (tp.fit(tp.GaussianMixture(3), X, tp.VB(restarts=r), seed=8) for r in (2, 2, 6))
    assert all(map(np.array_equal, leaves(one.state), leaves(same.state)))
    np.testing.assert_array_equal(one.history["restarts"], more.history["restarts"][:2])


# ---- where it is used, and what can go wrong ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "model, method, x",
    [
        (tp.GaussianMixture(2), tp.VB(moves=True), X),
        (tp.GaussianMixture(2), tp.VB(batches=2), X),
        (tp.GaussianMixture(2), tp.EM(), X),
        (tp.GaussianMixture(2, weights="point"), tp.VB(), X),
        (tp.GaussianMixture(2, init="prior"), tp.VB(), X),
        (tp.GaussianMixture(2, missing="marginalise"), tp.VB(), X),
        (tp.GaussianMixture(2, precision="single"), tp.VB(), X),
        (tp.GaussianMixture(2, covariance=np.eye(2)), tp.VB(), X),
        (tp.Mixture(2, "poisson"), tp.VB(), np.ones((5, 2))),
        (tp.DirichletProcessMixture(2), tp.VB(), X),
        (tp.GaussianMixture(2), tp.VB(), np.zeros((8193, 2))),
        (tp.GaussianMixture(20), tp.VB(restarts=500), X),
    ],
)
def test_other_problems_are_left_to_the_compiler(model, method, x):
    model, data = model.prepare(x)
    assert run_engine(method, method.prepare(model), data) is None


@pytest.mark.usefixtures("engines")
def test_impossible_states_and_falling_bounds_are_named(monkeypatch):
    sweep = small_mixture.Flat.sweep
    bad = tp.NormalWishart([0.0, 0.0], 1.0, 2.0, np.eye(2))
    bad = bad.with_natural(
        type(bad.natural)(bad.natural.first, bad.natural.count, -1e6 * bad.natural.second, bad.natural.dof)
    )
    with pytest.raises(NumericalFailure, match="impossible state at step 0 of restart 0"):
        tp.fit(tp.GaussianMixture(2, prior=bad), X, tp.VB(restarts=2))
    calls = []

    def falling(self, eta):
        fresh, bound = sweep(self, eta)
        calls.append(0)
        return fresh, bound - 10.0 * len(calls) ** 2

    monkeypatch.setattr(small_mixture.Flat, "sweep", falling)
    with pytest.raises(BoundDecreased, match=r"the bound fell by .* at step"):
        tp.fit(tp.GaussianMixture(2), X, tp.VB(max_iter=20))


@pytest.mark.usefixtures("engines")
def test_interruption_returns_the_best_so_far(monkeypatch):
    sweep, calls = small_mixture.Flat.sweep, []

    def interrupted(self, eta):
        calls.append(0)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return sweep(self, eta)

    monkeypatch.setattr(small_mixture.Flat, "sweep", interrupted)
    found = tp.fit(tp.GaussianMixture(3), X, tp.VB(restarts=2, tol=0.0))
    assert found.interrupted and not found.converged and np.isfinite(found.log_evidence)
    assert isinstance(found.state, Posterior) and len(found.history["elbo"]) == 4


@pytest.mark.usefixtures("engines")
def test_a_run_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path):
    tp.fit(tp.GaussianMixture(2), X, tp.VB(max_iter=3), checkpoint=tmp_path / "kept")
    resumed = tp.fit(tp.GaussianMixture(2), X, tp.VB(max_iter=9), checkpoint=tmp_path / "kept")
    whole = tp.fit(tp.GaussianMixture(2), X, tp.VB(max_iter=9))
    assert resumed.details["engine"] == whole.details["engine"] == "small mixture (numpy)"
    np.testing.assert_array_equal(resumed.history["elbo"], whole.history["elbo"])
    assert resumed.log_evidence == whole.log_evidence


# ---- nothing to compile ------------------------------------------------------------------------------------------

COUNT = """
import json, sys
import jax, numpy as np, temperance as tp
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
)
x = np.random.default_rng(0).normal(size=(60, 2))
fit = tp.fit(tp.GaussianMixture(3), x, tp.VB(restarts=2), seed=0)
first = len(compiled)
comparison = tp.compare([tp.GaussianMixture(k) for k in range(1, 7)], x, tp.VB(restarts=5), seed=0)
engines = {comparison.fit(k).details["engine"] for k in range(1, 7)}
print(json.dumps([fit.details["engine"], sorted(engines), first, len(compiled) - first]))
"""


@pytest.mark.parametrize(
    "engine, name, at_most",
    [("auto", ENGINE, (0, 0)), pytest.param("plain", "plain", (5, 12), marks=pytest.mark.slow)],
)
def test_a_first_fit_and_a_comparison_compile_next_to_nothing(engine, name, at_most):
    here = os.environ | {"PYTHONPATH": str(Path(tp.__file__).parents[1]), "TEMPERANCE_ENGINE": engine}
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, env=here)
    first, engines, of_fit, of_comparison = json.loads(done.stdout)
    assert first == name and engines == [name]
    assert of_fit <= at_most[0] and of_comparison <= at_most[1]


def test_the_loop_is_the_compiled_ones():
    """What the engine replaces: `_start` and `_chunk`, with the same carry."""
    model, data = tp.GaussianMixture(2).prepare(X)
    several = keys.split(keys.make_key(1), 3)
    theirs = run._start(tp.VB(), model, data, several)
    ours = run._host_carry(small_mixture.start(tp.VB(), model, data, several), 3)
    for hold in (False, True):
        limit = np.asarray(theirs.steps) + 3
        theirs, told = run._chunk(
            tp.VB(), model, data, several, theirs, jnp.asarray(limit), jnp.asarray(1e-6), jnp.asarray(hold)
        )
        ours, here = small_mixture.chunk(tp.VB(), model, data, several, ours, limit, 1e-6, hold)
        assert_close(ours, theirs)
        np.testing.assert_allclose(here["elbo"], told["elbo"][: len(here["elbo"])], rtol=1e-9)
