"""Small factor analyses in NumPy: held to autodiff sweep by sweep, to the compiled engine fit by fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.kernels import small_factors, small_linear
from temperance.models import Posterior
from temperance.numerics import keys
from tests.tiers import with_slow

pytestmark = pytest.mark.usefixtures("engines")  # also under `make test-plain`

ENGINE = "small factor analysis (numpy)"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 2)) @ RNG.normal(size=(2, 4)) + RNG.normal(size=(70, 4)) * [1.0, 0.5, 2.0, 0.3] + 3.0
HOLES = np.where(RNG.uniform(size=X.shape) < 0.2, np.nan, X)
WEIGHTS = RNG.uniform(0.5, 2.0, len(X))

PROBLEMS = {
    "whole": (lambda: tp.FactorAnalysis(2), X, None),
    "holes and weights": (lambda: tp.FactorAnalysis(2, missing="marginalise"), HOLES, WEIGHTS),
    "isotropic": (lambda: tp.FactorAnalysis(1, noise="isotropic"), X, WEIGHTS),
    "known precisions": (lambda: tp.FactorAnalysis(2, noise=[1.0, 0.3, 4.0, 0.1], relevance=0.5), X, None),
    "a prior of its own": (lambda: tp.FactorAnalysis(3, noise=tp.Gamma(2.0, 1.0)), X, None),
}


def assert_close(ours, theirs, rtol):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for here, there in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        here, there = np.asarray(here), np.asarray(there)
        np.testing.assert_allclose(here, there, rtol=rtol, atol=rtol * max(1.0, np.abs(there).max()))


@pytest.mark.parametrize("name", with_slow(PROBLEMS, "whole", "known precisions", "a prior of its own"))
def test_a_start_and_a_sweep_are_the_derived_ones(name):
    make, x, weights = PROBLEMS[name]
    model, data = make().prepare(x, weights)
    several = keys.split(keys.make_key(1), 2)
    q = small_factors.start(tp.VB(), model, data, several)
    problem = small_factors._problem(model, data)
    begin, sweep = jax.jit(lambda key: model.initial(key, data)), jax.jit(lambda q: model.sweep(q, data))
    for restart in range(2):
        here = jax.tree.map(lambda leaf, restart=restart: jnp.asarray(leaf[restart]), q)
        assert_close(here, begin(several[restart]), 1e-10)
        for _ in range(3):
            derived, bound = sweep(here)
            fresh, value = problem.sweep({name: small_linear.leaves(family) for name, family in here.blocks.items()})
            np.testing.assert_allclose(value, bound, rtol=1e-11)
            after = jax.tree.map(lambda leaf: leaf[0], small_linear.stacked([fresh]))
            assert_close(after, derived, 1e-9)
            here = Posterior(jax.tree.map(jnp.asarray, after.blocks), {})


@pytest.mark.parametrize("name", with_slow(["holes and weights", "isotropic"], "isotropic"))
def test_a_fit_is_the_compiled_one(name, monkeypatch):
    make, x, weights = PROBLEMS[name]
    found = []
    for engine in ("plain", "auto"):
        monkeypatch.setenv("TEMPERANCE_ENGINE", engine)
        found.append(tp.fit(make(), x, tp.VB(restarts=2), seed=1, weights=weights))
    plain, ours = found
    assert plain.details["engine"] == "plain" and ours.details["engine"] == ENGINE
    assert plain.converged and ours.converged
    np.testing.assert_allclose(ours.history["restarts"], plain.history["restarts"], rtol=1e-9)
    np.testing.assert_allclose(ours.history["elbo"], plain.history["elbo"], rtol=1e-9)
    assert_close(ours.posterior, plain.posterior, 1e-7)


def test_without_any_spread_the_factors_stay_as_they_are():
    """A table of equal rows: the compiled change of coordinates meets NaN, and is not made."""
    fit = tp.fit(tp.FactorAnalysis(1), np.ones((12, 3)), tp.VB(), seed=0)
    assert fit.details["engine"] == ENGINE and np.isfinite(fit.log_evidence)


def test_many_patterns_and_large_tables_are_compiled():
    method = tp.VB()
    assert small_factors.when(method, *tp.FactorAnalysis(2).prepare(X))
    assert not small_factors.when(tp.VB(batches=1), *tp.FactorAnalysis(2).prepare(X))
    assert not small_factors.when(method, *tp.FactorAnalysis(2).prepare(RNG.normal(size=(20_000, 4))))
    wide = np.where(RNG.uniform(size=(200, 8)) < 0.5, np.nan, 1.0) * RNG.normal(size=(200, 8))
    assert not small_factors.when(method, *tp.FactorAnalysis(2, missing="marginalise").prepare(wide))
