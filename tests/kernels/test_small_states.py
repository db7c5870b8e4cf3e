"""Short state spaces in NumPy: held to autodiff sweep by sweep, to the compiled engine fit by fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import NumericalFailure
from temperance.inference import run
from temperance.kernels import small_linear, small_states
from temperance.models.linear.series import principal_start
from temperance.numerics import keys
from tests.tiers import with_slow

pytestmark = pytest.mark.usefixtures("engines")  # also under `make test-plain`

ENGINE = "small state space (numpy)"
RNG = np.random.default_rng(0)
LONG, SHORT = RNG.normal(size=(9, 2)) * [1.0, 3.0] + [2.0, -1.0], RNG.normal(size=(4, 2))
HOLES = LONG.copy()
HOLES[1, 0] = HOLES[2] = np.nan
CONTROLS = [RNG.normal(size=(9, 1)), RNG.normal(size=(4, 1))]
WALK = np.cumsum(RNG.normal(size=(60, 1)), axis=0) + RNG.normal(size=(60, 1))

PROBLEMS = {
    "one series": (lambda: tp.StateSpace(2), LONG, None),
    "holes, controls, two series": (
        lambda: tp.StateSpace(2, n_controls=1, missing="marginalise"), ([HOLES, SHORT], CONTROLS), [1.0, 2.5],
    ),
    "more states than columns": (lambda: tp.StateSpace(3, start=[1.0, 2.0, 0.5]), [LONG, SHORT], None),
    "known precisions": (lambda: tp.StateSpace(1, noise=[0.5, 2.0], relevance=0.3), [LONG, SHORT], None),
    "noise of the states": (lambda: tp.StateSpace(2, state_noise=tp.Gamma(2.0, 3.0)), LONG, None),
    "known matrices": (tp.StateSpace.local_trend, WALK, None),
    "a level of known noise": (lambda: tp.StateSpace.local_level(noise=1.0), WALK, None),
}  # fmt: skip


def prepared(name):
    make, x, weights = PROBLEMS[name]
    return make().prepare(x, weights)


def assert_close(ours, theirs, rtol):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for here, there in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        here, there = np.asarray(here), np.asarray(there)
        np.testing.assert_allclose(here, there, rtol=rtol, atol=rtol * max(1.0, np.abs(there).max()))


@pytest.mark.parametrize(
    "name", with_slow(PROBLEMS, "more states than columns", "known precisions", "noise of the states", "one series")
)
def test_a_start_and_a_sweep_are_the_derived_ones(name):
    model, data = prepared(name)
    several = keys.split(keys.make_key(1), 2)
    q = small_states.start(tp.VB(), model, data, several)
    problem = small_states._problem(model, data)
    for restart in range(2):
        here = jax.tree.map(lambda leaf, restart=restart: jnp.asarray(leaf[restart]), q)
        assert_close(here, jax.jit(principal_start, static_argnums=0)(_Fixed(model), several[restart], data), 1e-12)
        derived, bound = jax.jit(lambda q: model.sweep(q, data))(here)
        fresh, value = problem.sweep(small_linear.restart_of(q, restart))
        np.testing.assert_allclose(value, bound, rtol=1e-11)
        after = small_states.stacked([fresh])
        assert_close(jax.tree.map(lambda leaf: leaf[0], after), derived, 1e-10)


class _Fixed:
    """A model as a static argument."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)


@pytest.mark.parametrize("name", ["holes, controls, two series", "known matrices"])
def test_a_fit_is_the_compiled_one(name, monkeypatch):
    make, x, weights = PROBLEMS[name]
    found = []
    for engine in ("plain", "auto"):
        monkeypatch.setenv("TEMPERANCE_ENGINE", engine)
        found.append(tp.fit(make(), x, tp.VB(restarts=2, max_iter=40), seed=1, weights=weights))
    plain, ours = found
    assert plain.details["engine"] == "plain" and ours.details["engine"] == ENGINE
    assert ours.converged == plain.converged
    np.testing.assert_allclose(ours.log_evidence, plain.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(ours.history["restarts"], plain.history["restarts"], rtol=1e-9)
    np.testing.assert_allclose(ours.history["elbo"], plain.history["elbo"], rtol=1e-9)
    assert_close(ours.posterior, plain.posterior, 1e-6)


def test_the_same_seed_gives_the_same_bits_and_a_run_goes_on_where_it_stopped():
    model, data = prepared("one series")
    several = keys.split(keys.make_key(3), 2)
    whole = run._host_carry(small_states.start(tp.VB(), model, data, several), 2)
    whole, bounds = small_states.chunk(tp.VB(), model, data, several, whole, 6, 0.0, False)
    parts = run._host_carry(small_states.start(tp.VB(), model, data, several), 2)
    parts, first = small_states.chunk(tp.VB(), model, data, several, parts, 2, 0.0, False)
    parts, then = small_states.chunk(tp.VB(), model, data, several, parts, 6, 0.0, False)
    for here, there in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(bounds["elbo"], np.concatenate([first["elbo"], then["elbo"]]))
    held, last = small_states.chunk(tp.VB(), model, data, several, whole, 7, 0.0, True)
    assert (np.diff(np.concatenate([bounds["elbo"], last["elbo"]]), axis=0) > 0.0).all()
    for here, there in zip(jax.tree.leaves(whole.states), jax.tree.leaves(held.states), strict=True):
        np.testing.assert_array_equal(here, there)


def test_a_matrix_that_is_not_positive_definite_fails_in_words(monkeypatch):
    monkeypatch.setattr(small_states, "normals", lambda key, *shape: np.full(shape, np.nan))
    with pytest.raises(NumericalFailure, match="VB met an impossible state"):
        tp.fit(tp.StateSpace(2), LONG, tp.VB(), seed=0)


def test_long_series_and_other_methods_are_compiled():
    model, data = prepared("one series")
    assert small_states.when(tp.VB(), model, data)
    assert not small_states.when(tp.VB(batches=1), model, data)
    assert not small_states.when(tp.SVI(), model, data)
    rows = RNG.normal(size=(40_000, 2))
    assert not small_states.when(tp.VB(), *tp.StateSpace(2).prepare(rows))
