"""Moves out of bad optima: they find the way where coordinate ascent is stuck, and never do harm."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.inference.variational import moves

X = (np.repeat([-6.0, 2.0, 6.0], 12) + np.random.default_rng(0).normal(scale=0.7, size=36))[:, None]
PRIOR = tp.NormalWishart([0.0], 0.05, 3.0, [[1.0]])


def mixture(share: np.ndarray) -> tp.GaussianMixture:
    """All tests start from responsibilities: one structure, one compilation."""
    return tp.GaussianMixture(3, prior=PRIOR, concentration=5.0, init=share)


@pytest.mark.slow
def test_bad_start_is_left() -> None:
    """Two components on one cluster and one over the other two: stuck without moves."""
    cluster, upper = np.repeat([0, 1, 2], 12), X[:, 0] > np.median(X[:12])
    bad = np.eye(3)[np.where(cluster == 0, upper.astype(int), 2)]
    stuck = tp.fit(mixture(bad), X, tp.VB())
    fit = tp.fit(mixture(bad), X, tp.VB(moves=True))
    truth = tp.fit(mixture(np.eye(3)[cluster]), X, tp.VB())
    assert np.all(stuck.responsibilities(X).sum(axis=0) > 1)
    assert stuck.log_evidence < truth.log_evidence - 10
    assert fit.log_evidence == pytest.approx(truth.log_evidence, abs=1e-3)
    assert len(fit.history["moves"]) >= 1
    assert fit.converged
    # The bound that decided is the exact one of the state that is returned.
    exact = eqx.filter_jit(fit.model.bound)(fit.state, fit.data)
    assert fit.log_evidence == pytest.approx(float(exact), abs=1e-9)
    assert fit.history["elbo"][-1] == fit.log_evidence


@pytest.mark.slow
def test_never_worse_over_fifty_problems() -> None:
    better = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        x = rng.normal(rng.normal(scale=4.0, size=(4, 1))[rng.integers(4, size=36)], 10 ** rng.uniform(-0.5, 0.5))
        model = mixture(rng.dirichlet(np.full(3, 0.1), size=36))
        plain, fit = (tp.fit(model, x, method, seed=seed) for method in (tp.VB(), tp.VB(moves=True)))
        if len(fit.history["moves"]) == 0:
            assert fit.log_evidence == pytest.approx(plain.log_evidence, rel=1e-14)  # another engine
        else:
            assert fit.log_evidence > plain.log_evidence
            better += 1
    assert better >= 5


@pytest.fixture(scope="module")
def start() -> tuple:
    share = np.random.default_rng(1).dirichlet(np.ones(3), size=36)
    model, data = mixture(share).prepare(X)
    return model, eqx.filter_jit(model.initial)(jax.random.key(1), data), data


def applied(start: tuple, move: moves.Move) -> tuple[np.ndarray, np.ndarray]:
    """Data in each component as its statistics say, before and after a move."""
    model, q, data = start
    study = moves._study(jax.random.key(0), model, q, data)
    after = moves._apply(model, q, data, study, jax.tree.map(lambda leaf: leaf[None], move))
    counts = after.blocks["components"].natural.count[0] - model.prior["components"].natural.count
    return np.asarray(study.held), np.asarray(counts)


def test_each_move_does_what_it_says(start: tuple) -> None:
    held, unchanged = applied(start, moves._move(3))
    np.testing.assert_allclose(unchanged, held, atol=1e-9)
    _, merged = applied(start, moves._move(3, fold=moves._merge(3, 0, 2)))
    np.testing.assert_allclose(merged, [held[0] + held[2], held[1], 0.0], atol=1e-9)
    _, without = applied(start, moves._move(3, without=1))
    assert without[1] == pytest.approx(0.0, abs=1e-12)
    assert without.sum() == pytest.approx(36.0)
    _, both = applied(start, moves._move(3, fold=moves._merge(3, 0, 2), source=1, target=2))
    assert both[0] == pytest.approx(held[0] + held[2])
    assert both[1] + both[2] == pytest.approx(held[1])
    assert min(both[1], both[2]) > 0.05 * held[1]


def test_stick_breaking_weights_are_put_in_order() -> None:
    held = jnp.asarray([2.0, 20.0, 14.0])
    study = moves.Study(held, jnp.eye(3), jnp.ones((3, 1)), jnp.zeros(3))
    process = dict(moves._proposals(tp.DirichletProcessMixture(3), study, moves.KINDS))
    np.testing.assert_array_equal(held @ process["sort"].fold, [20.0, 14.0, 2.0])
    # Where the order means nothing, it is left alone.
    assert "sort" not in dict(moves._proposals(tp.GaussianMixture(3), study, moves.KINDS))


def test_an_empty_component_is_where_a_split_goes() -> None:
    study = moves.Study(jnp.asarray([20.0, 0.1, 15.9]), jnp.eye(3), jnp.ones((3, 1)), jnp.zeros(3))
    names = [name for name, _ in moves._proposals(tp.GaussianMixture(3), study, moves.KINDS)]
    assert names == ["delete 2", "delete 0", "merge 2 into 0", "split 0 into 1", "split 2 into 1"]


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidParameter, match="moves must be True, False or some of 'delete', 'merge', 'split'"):
        tp.VB(moves=("swap",))
    with pytest.raises(UnsupportedMethod, match="moves are for mixtures, not for this LinearRegression"):
        tp.fit(tp.LinearRegression(), (np.eye(3), np.arange(3.0)), tp.VB(moves=True))
