"""Short hidden Markov models in NumPy: held to autodiff sweep by sweep, to the compiled engine fit by fit."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import temperance as tp
from temperance.kernels import small_chains
from temperance.numerics import keys
from tests.tiers import with_slow

pytestmark = pytest.mark.usefixtures("engines")  # also under `make test-plain`

ENGINE = "small hidden Markov model (numpy)"
RNG = np.random.default_rng(0)
STATES = np.repeat([0, 1, 0, 2, 1], 15)
X = np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, -3.0]])[STATES] + RNG.normal(size=(75, 2))
THREE = [X[:40], X[40:41], X[41:]]

PROBLEMS = {
    "one sequence": (lambda: tp.HMM(3), X, None),
    "weighted sequences": (lambda: tp.HMM(2, sticky=2.0, initial_concentration=0.5), THREE, [1.0, 0.5, 2.0]),
    "diagonal, random start": (lambda: tp.HMM(3, "diagonal", init="random"), THREE, None),
    "spherical": (lambda: tp.HMM(2, "spherical"), X, None),
    "one state": (lambda: tp.HMM(1), X, None),
    "rare transitions": (lambda: tp.HMM(3, concentration=1e-4), X, None),
}


def assert_close(ours, theirs, rtol):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for here, there in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        here, there = np.asarray(here), np.asarray(there)
        np.testing.assert_allclose(here, there, rtol=rtol, atol=rtol * max(1.0, np.abs(there).max()))


@pytest.mark.parametrize("name", with_slow(PROBLEMS, "one sequence", "spherical", "one state", "rare transitions"))
def test_a_start_and_sweeps_are_the_derived_ones(name):
    make, x, weights = PROBLEMS[name]
    model, data = make().prepare(x, weights)
    assert small_chains.when(tp.VB(), model, data)
    several = keys.split(keys.make_key(1), 2)
    q = small_chains.start(tp.VB(), model, data, several)
    problem = small_chains._problem(model, data)
    flat = problem.flat(q)
    begin, sweep = jax.jit(lambda key: model.initial(key, data)), jax.jit(lambda q: model.sweep(q, data))
    derived = [begin(key) for key in several]
    for _ in range(3):
        assert_close(problem.posterior(flat), jax.tree.map(lambda *each: jnp.stack(each), *derived), 1e-9)
        flat, bounds = problem.sweep(flat)
        derived, theirs = zip(*(sweep(each) for each in derived), strict=True)
        np.testing.assert_allclose(bounds, np.array(theirs), rtol=1e-11)


@pytest.mark.parametrize("recursion", [small_chains.in_blocks, small_chains.step_by_step, small_chains.expected])
def test_the_recursions_are_the_sum_over_all_paths(recursion):
    k, t = 2, 7
    initial, transition, likelihood = RNG.normal(size=k), RNG.normal(size=(k, k)), 3.0 * RNG.normal(size=(k, t))
    begins = np.array([True, False, False, True, False, True, False])
    weights = np.where(begins, 0.0, [1.0, 1.0, 1.0, 2.0, 2.0, 0.5, 0.5])
    paths = np.array(list(itertools.product(range(k), repeat=t)))
    terms = likelihood[paths, np.arange(t)] + initial[paths] * begins
    terms[:, 1:] += transition[paths[:, :-1], paths[:, 1:]] * ~begins[1:]
    share = np.exp(terms.sum(axis=1) - logsumexp(terms.sum(axis=1)))
    found = recursion(initial[None], transition[None], likelihood[None], begins, weights)
    np.testing.assert_allclose(found.increments.sum(), logsumexp(terms.sum(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(found.states[0], [share @ (paths == state) for state in range(k)], rtol=1e-12)
    pairs = np.zeros((k, k))
    for step in range(1, t):
        np.add.at(pairs, (paths[:, step - 1], paths[:, step]), weights[step] * share)
    np.testing.assert_allclose(found.pairs[0], pairs, rtol=1e-12)


def test_where_every_path_underflows_logarithms_do_not():
    transition = np.array([[[0.0, -2000.0], [-2000.0, 0.0]]])
    likelihood = np.zeros((1, 2, 70))
    likelihood[0, 0, 35:] = likelihood[0, 1, :35] = -5000.0
    begins, weights = np.arange(70) == 0, np.ones(70)
    with np.errstate(all="ignore"):
        found = small_chains.expected(np.zeros((1, 2)), transition, likelihood, begins, weights)
    np.testing.assert_allclose(found.increments.sum(), -2000.0, rtol=1e-12)
    np.testing.assert_allclose(found.pairs[0], [[34.0, 1.0], [0.0, 34.0]], atol=1e-12)


def test_a_fit_is_the_compiled_one(monkeypatch):
    found = []
    for engine in ("plain", "auto"):
        monkeypatch.setenv("TEMPERANCE_ENGINE", engine)
        found.append(tp.fit(tp.HMM(3), THREE, tp.VB(restarts=3), seed=1))
    plain, ours = found
    assert ours.details["engine"] == ENGINE != plain.details["engine"]
    np.testing.assert_array_equal(ours.converged, plain.converged)
    np.testing.assert_allclose(ours.history["restarts"], plain.history["restarts"], rtol=1e-9)
    np.testing.assert_allclose(ours.history["elbo"], plain.history["elbo"], rtol=1e-9)
    assert_close(ours.posterior, plain.posterior, 1e-7)


def test_long_sequences_and_other_emissions_are_compiled():
    assert not small_chains.when(tp.VB(), *tp.HMM(3).prepare(RNG.normal(size=(4000, 2))))
    assert not small_chains.when(tp.VB(), *tp.HMM(2, "poisson").prepare(RNG.poisson(2.0, size=(30, 1))))
    assert not small_chains.when(tp.VB(), *tp.HMM(2, engine="device").prepare(X))
    assert not small_chains.when(tp.VB(batches=1), *tp.HMM(2).prepare(X))
