"""SVI against coordinate ascent: the same step where the minibatch is everything, the same gradient on average."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.inference.step_sizes import as_step_size
from temperance.inference.variational.minibatches import minibatch, rows_of_step
from temperance.models import Posterior, Way
from temperance.models._model import means
from tests.inference.steps import stochastic_step

N = 60
rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-2, 1, (N // 2, 1)), rng.normal(2, 1, (N // 2, 1))])


def mixture() -> tp.GaussianMixture:
    return tp.GaussianMixture(2, init=np.array([[-1.0], [1.0]]))


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (mixture(), X),
        pytest.param(
            tp.LinearRegression(),
            (np.hstack([X, X**2]), 1.0 + 2.0 * X[:, 0] + rng.normal(size=N)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["one group", "several groups"],
)
def test_whole_batch_and_full_step_is_coordinate_ascent(model: Any, data: Any) -> None:
    """Bit for bit: a minibatch of everything at rate 1 is the step of VB."""
    svi = tp.fit(model, data, tp.SVI(batch_size=N, steps=3, step_size=1.0))
    vb = tp.fit(model, data, tp.VB(max_iter=3, tol=0.0), engine="plain")  # not the engine of small mixtures
    for ours, theirs in zip(leaves(svi.state.blocks), leaves(vb.state.blocks), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(svi.log_evidence, vb.log_evidence, rtol=1e-12)


def test_average_over_minibatches_is_the_full_natural_gradient() -> None:
    model, data = mixture().prepare(X, rng.uniform(0.5, 2.0, N))
    q = model.initial(jax.random.key(0), data)
    whole, _ = model.sweep(q, data)
    size, key = 10, jax.random.key(1)

    @jax.jit
    def target(step: Any) -> Any:
        batch = minibatch(data, rows_of_step(key, step, size, N, False), jnp.asarray(float(N)))
        return stochastic_step(model, q.blocks, batch, jnp.asarray(1.0), 1)[0]

    targets = [target(jnp.asarray(step)) for step in range(N // size)]
    average = jax.tree.map(lambda *parts: sum(parts) / len(parts), *targets)
    for ours, theirs in zip(leaves(average), leaves(whole.blocks), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    # One minibatch alone is not the answer, or the average would prove nothing.
    assert any((np.abs(a - b) > 0.1).any() for a, b in zip(leaves(targets[0]), leaves(average), strict=True))


def test_minibatches_of_a_pass_share_no_rows_and_with_replacement_they_do() -> None:
    key = jax.random.key(0)
    passed = [np.asarray(rows_of_step(key, jnp.asarray(t), 7, N, False)) for t in range(16)]
    first, second = np.concatenate(passed[:8]), np.concatenate(passed[8:])
    assert len(set(first)) == len(set(second)) == 56 and (first != second).any()
    drawn = np.concatenate([np.asarray(rows_of_step(key, jnp.asarray(t), 7, N, True)) for t in range(8)])
    assert len(set(drawn)) < 56 and drawn.min() >= 0 and drawn.max() < N


def test_step_sizes() -> None:
    size = as_step_size((100, 1.0))
    left = np.prod([1.0 - float(size(jnp.asarray(t))) for t in range(1, 501)])
    np.testing.assert_allclose(left, 1 / 6, rtol=1e-12)  # the start's weight after 500 steps (errata)
    assert as_step_size(0.3)(jnp.asarray(17)) == 0.3
    np.testing.assert_allclose(as_step_size((10, 0.7))(jnp.asarray(5)), 15**-0.7)


@cache
def watched() -> tuple[np.ndarray, tp.Fit]:
    new = np.random.default_rng(1).normal(size=(40, 1)) + np.repeat([[-2.0], [2.0]], 20, axis=0)
    method = tp.SVI(batch_size=10, passes=200, held_out=new, elbo=True, patience=3, tol=0.01)
    return new, tp.fit(mixture(), X, method)


def test_held_out_data_end_the_run_and_the_best_posterior_is_kept() -> None:
    new, fit = watched()
    scores = fit.history["held_out"]
    assert fit.converged and len(scores) < 200
    np.testing.assert_allclose(fit.log_predictive(new).mean(), scores.max(), rtol=1e-10)
    assert (scores[-3:] <= scores[:-3].max() + 0.01).all()
    np.testing.assert_array_equal(np.diff(fit.history["step"]), N // 10)


@pytest.mark.slow
def test_share_held_out_is_not_fitted() -> None:
    fit = tp.fit(mixture(), X, tp.SVI(batch_size=10, passes=3, held_out=0.25, elbo=True))
    assert fit.data.size == 45 and fit.data.held_out.size == 15
    rows = np.concatenate([fit.data.values, fit.data.held_out.values])
    np.testing.assert_allclose(np.sort(rows[:, 0]), np.sort(X[:, 0] - X.mean()), atol=1e-12)
    bound = fit.model.bound(fit.state, fit.data)
    np.testing.assert_allclose(fit.log_evidence, bound, rtol=1e-12)


@pytest.mark.slow
def test_bound_of_all_the_data_is_reported_and_close_to_that_of_vb() -> None:
    fit = tp.fit(mixture(), X, tp.SVI(batch_size=10, passes=60, elbo=True))
    vb = tp.fit(mixture(), X, tp.VB())
    assert fit.history["elbo"][-1] == fit.log_evidence and len(fit.history["elbo"]) == 60
    assert vb.log_evidence - 0.1 < fit.log_evidence < vb.log_evidence + 1e-6
    assert not fit.converged


@pytest.mark.slow
def test_the_budget_is_exact_and_seeds_give_the_same_bits() -> None:
    method = tp.SVI(batch_size=10, steps=20, report=6, restarts=2)
    one, two = (tp.fit(mixture(), X, method, seed=3) for _ in range(2))
    assert list(one.history["step"]) == [6, 12, 18, 20]
    assert one.log_evidence == two.log_evidence == max(one.history["restarts"])


@pytest.mark.slow
def test_local_blocks_start_afresh_and_rates_touch_globals_only() -> None:
    """Of a whole batch, two local passes and a full step: the sweep of coordinate ascent from fresh locals."""
    model, data = tp.FactorialMixture(2, noise=0.5, probability=0.4, factor_variance=2.0).prepare(X)
    q = model.initial(jax.random.key(0), data)
    fresh = model.initial_local(means(q.blocks), data.values)
    target, _ = model.sweep(Posterior(q.blocks, fresh), data, Way(local_steps=2))
    moved, _ = jax.jit(lambda rate: stochastic_step(model, q.blocks, data, rate, 2))(jnp.asarray(0.25))
    halfway = q.blocks["factors"].mix(target.blocks["factors"], 0.25)
    for ours, theirs in zip(leaves(moved["factors"]), leaves(halfway), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"steps": 10, "passes": 2}, "give steps or passes, not both"),
        ({"passes": float("nan")}, "passes must be a finite number"),
        ({"step_size": (1.0, 1.5)}, "step_size must be a constant"),
        ({"step_size": "slow"}, "step_size must be a constant"),
        ({"step_size": 2.0}, "step_size must be a constant"),
        ({"held_out": 1.5}, "held_out must be a share between 0 and 1"),
        ({"patience": 0}, "patience must be a whole number"),
    ],
)
def test_mistakes_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.SVI(**wrong)


def test_holding_out_everything_is_an_error() -> None:
    with pytest.raises(InvalidParameter, match="leaves none"):
        tp.fit(mixture(), X[:3], tp.SVI(held_out=0.99))


@pytest.mark.slow
def test_tutorial_steps() -> None:
    """Tutorial, section 7: with 1/(t + 100) minibatches of 20 and 50 stay nats below batch; κ = 0.7 does not."""
    draw = np.random.default_rng(1)
    means_, weights = np.sqrt(3) * draw.normal(size=(3, 1)), draw.dirichlet(np.ones(3))
    x = means_[draw.choice(3, 1000, p=weights)] + draw.normal(size=(1000, 1))
    model = tp.GaussianMixture(3, covariance=[[1.0]], prior=tp.Normal([0.0], [[3.0]]), init="prior")
    batch = tp.fit(model, x, tp.VB(restarts=5, max_iter=100, tol=0.0)).log_evidence
    for size in (20, 50):
        slow, fast = (
            tp.fit(model, x, tp.SVI(batch_size=size, steps=500, report=500, step_size=step, restarts=5))
            for step in ((100, 1.0), (10, 0.7))
        )
        assert np.median(batch - slow.history["restarts"]) > 2.0
        assert np.median(batch - fast.history["restarts"]) < 1.0
