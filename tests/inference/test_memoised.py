"""VB one part of the data at a time: the bound is exact, never falls, and ends where VB ends."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.inference.variational.memoised import pass_over_parts, split, start_parts
from temperance.models import Posterior, Way
from temperance.models._model import entropy, means

N = 50
rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-2, 1, (N // 2, 1)), rng.normal(2, 1, (N // 2, 1))])


def mixture() -> tp.GaussianMixture:
    return tp.GaussianMixture(2, init=np.array([[-1.0], [1.0]]))


def factorial() -> tp.FactorialMixture:
    return tp.FactorialMixture(2, noise=0.5, probability=0.4, factor_variance=2.0)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


@pytest.mark.slow
def test_the_bound_is_that_of_the_responsibilities_each_part_was_given() -> None:
    """By hand: responsibilities kept in full, their bound summed over data and components."""
    model, data = mixture().prepare(X, rng.uniform(0.5, 2.0, N))
    q = model.initial(jax.random.key(0), data)
    parts = split(model, data, 3)
    state = start_parts(model, q, data, 3)
    r = np.array(jax.nn.softmax(model.log_joint_z(means(q.blocks), data.values), axis=1))
    blocks = q.blocks
    for index in np.asarray(parts):
        rows = index[index < N]
        r[rows] = jax.nn.softmax(model.log_joint_z(means(blocks), data.values[rows]), axis=1)
        messages = model._label_messages(means(blocks), data, jnp.asarray(r))
        blocks = {name: p + messages[name] for name, p in model.prior.items()}
    state, _ = pass_over_parts(model, state, data)
    for ours, theirs in zip(leaves(state.posterior.blocks), leaves(blocks), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    m = means(blocks)
    each = r * (np.asarray(model.log_joint_z(m, data.values)) - np.log(r))
    expected = np.sum(np.asarray(data.weights) * each.sum(axis=1)) + model.log_prior(m) + entropy(blocks)
    _, bound = pass_over_parts(model, state, data)
    np.testing.assert_allclose(bound, expected, rtol=1e-12)


@cache
def fits(name: str) -> tuple[tp.Fit, tp.Fit]:
    model = {"mixture": mixture, "factorial": factorial}[name]()
    whole = tp.fit(model, X, tp.VB(tol=1e-10), seed=1)
    return whole, tp.fit(model, X, tp.VB(tol=1e-10, batches=3), seed=1)


@pytest.mark.parametrize("name", ["mixture", "factorial"])
def test_ends_at_the_bound_of_vb_and_never_falls(name: str) -> None:
    whole, parts = fits(name)
    np.testing.assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-8)
    assert parts.converged and (np.diff(parts.history["elbo"]) > -1e-10).all()
    np.testing.assert_allclose(parts.model.bound(parts.state, parts.data), parts.log_evidence, rtol=1e-8)
    # Several updates a pass: no more passes than VB, where VB needs more than a few.
    assert len(parts.history["elbo"]) <= len(whole.history["elbo"])


def test_one_part_is_vb() -> None:
    whole = tp.fit(mixture(), X, tp.VB(max_iter=4, tol=0.0))
    parts = tp.fit(mixture(), X, tp.VB(max_iter=4, tol=0.0, batches=1))
    for ours, theirs in zip(leaves(parts.state.blocks), leaves(whole.state.blocks), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.slow
def test_local_blocks_that_are_not_kept_take_no_memory_and_the_bound_still_rises() -> None:
    method = tp.VB(batches=3, carry=False, local_steps=5, max_iter=40)
    fit = tp.fit(factorial(), X, method, seed=1)
    assert fit.state.locals == {} and (np.diff(fit.history["elbo"]) > -1e-10).all()
    fresh = fit.model.initial_local(means(fit.state.blocks), fit.data.values)
    walked = fit.model.walk(means(fit.state.blocks), fit.data, Way(local_steps=20), fresh)
    bound = fit.model.bound(Posterior(fit.state.blocks, walked.local), fit.data)
    assert bound >= fit.log_evidence - 1e-6
    assert walked.value.shape == ()


@pytest.mark.slow
def test_a_few_sequences_at_a_time() -> None:
    """The bound is exact: that of the posterior it ends with, and VB cannot raise it."""
    x = [np.array([[1.0], [1], [0], [1]]), np.array([[0.0], [0], [1]]), np.array([[1.0], [0], [0], [0]])]
    model = tp.HMM(2, "bernoulli", prior=tp.Beta(0.6, 0.8))
    fit = tp.fit(model, x, tp.VB(batches=3, tol=1e-12), seed=2)
    again = fit.model.bound(fit.state, fit.data)
    assert fit.log_evidence == pytest.approx(float(again), abs=1e-6)
    assert (np.diff(fit.history["elbo"], axis=0) > -1e-9).all()
    with pytest.raises(UnsupportedMethod, match="longer than the window of this HMM"):
        tp.fit(tp.HMM(2, "bernoulli", window=2), x, tp.EM(incremental=True))


def test_what_cannot_be_kept_in_parts_is_refused() -> None:
    with pytest.raises(UnsupportedMethod, match=r"FactorAnalysis are not; use tp.VB\(\) or tp.SVI\(\)"):
        tp.fit(tp.FactorAnalysis(1), X, tp.VB(batches=2))
    for wrong, message in (
        ({"batches": 0}, "batches must be a whole number of at least 1, got 0"),
        ({"carry": False}, "carry=False needs batches"),
        ({"batches": 2, "moves": True}, "moves need all data together"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            tp.VB(**wrong)


@pytest.mark.slow
def test_memory_of_the_state_does_not_grow_with_the_data() -> None:
    def size(n: int) -> int:
        model, data = factorial().prepare(np.zeros((n, 1)))
        method = tp.VB(batches=4, carry=False)
        return sum(leaf.size for leaf in leaves(method.init(jax.random.key(0), model, data)))

    assert size(40) == size(4000)
