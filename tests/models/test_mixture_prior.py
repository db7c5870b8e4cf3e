"""The default prior has no units and no origin; sample weights are repeated rows; distant data lose nothing."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import temperance as tp
from temperance.models import Data, Posterior
from temperance.models._data import make_data
from tests.matrix.problems import scattered
from tests.models.small import VB, X, mixture
from tests.tiers import with_slow


def in_order(fit: tp.Fit, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Locations and responsibilities, the components sorted: restarts that end alike may be labelled differently."""
    components = fit.posterior["components"]
    locations = np.asarray(getattr(components, "inner", components).location)
    order = np.argsort(locations[:, 0])
    return locations[order], fit.responsibilities(rows)[:, order]


def same_up_to(scale: np.ndarray, shift: np.ndarray, form: str, tolerance: float) -> None:
    """Scaling the columns divides densities by |scale| and changes nothing else."""
    moved = X * scale + shift
    before, after = tp.fit(mixture(form), X, VB, seed=1), tp.fit(mixture(form), moved, VB, seed=1)
    jacobian = np.log(np.abs(scale)).sum()
    assert after.log_evidence == pytest.approx(before.log_evidence - len(X) * jacobian, abs=tolerance)
    np.testing.assert_allclose(after.log_predictive(moved), before.log_predictive(X) - jacobian, atol=tolerance)
    locations, shares = in_order(before, X)
    moved_locations, moved_shares = in_order(after, moved)
    np.testing.assert_allclose(moved_shares, shares, rtol=0, atol=tolerance)
    np.testing.assert_allclose(moved_locations, locations * scale + shift, rtol=1e-11)


@pytest.mark.parametrize("form", with_slow(["full", "diag"], "diag"))
def test_scaling_and_shifting_each_column(form: str) -> None:
    same_up_to(np.array([1e-3, 250.0]), np.array([5.0, -70.0]), form, 1e-8)


@pytest.mark.slow
def test_spherical_may_only_scale_all_columns_alike() -> None:
    same_up_to(np.array([40.0, 40.0]), np.array([5.0, -70.0]), "spherical", 1e-8)


@pytest.mark.parametrize("form", with_slow(["full", "diag", "spherical", "known"], "diag", "spherical", "known"))
def test_distant_data(form: str) -> None:
    """Where the mean is a million standard deviations from the origin (a power of two, so that adding it is exact)."""
    same_up_to(np.ones(2), np.full(2, 2.0**22), form, 1e-8)


@eqx.filter_jit
def one_sweep(model: tp.Mixture, data: Data, q: Posterior) -> Any:
    return model.sweep(q, data)


@pytest.mark.slow
def test_weights_are_repeated_rows_and_blocks_change_nothing() -> None:
    """In one sweep from the same place: weights; rows repeated; weighted rows in blocks of five, the last padded."""
    weights = np.array([1, 2, 1, 1, 3, 1, 1, 1, 2, 1, 1, 0])
    model, data = mixture(prior=tp.NormalWishart([0.0, 0.0], 0.1, 4.0, np.eye(2))).prepare(X, weights)
    rows = np.asarray(data.values)
    start = scattered(jax.random.key(0), model, data)
    found = jax.tree.leaves(one_sweep(model, data, start))
    pieces = make_data(rows, weights, block_size=5)
    assert pieces.blocks == 3 and pieces.weights.shape == (12,)
    uneven = make_data(rows[:11], weights[:11], block_size=5)
    assert uneven.blocks == 3 and uneven.weights.shape == (12,)
    for other in (make_data(np.repeat(rows, weights, axis=0)), pieces, uneven):
        for left, right in zip(found, jax.tree.leaves(one_sweep(model, other, start)), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["full", "tied", "diag"])
def test_draws_come_back_from_the_users_coordinates(form: str) -> None:
    model, _ = tp.GaussianMixture(2, covariance=form).prepare(X + 100.0)
    draws = model.sample_prior(jax.random.key(0))
    moved = model.units.draws_to_user(draws)
    assert not np.allclose(jax.tree.leaves(moved["components"])[0], jax.tree.leaves(draws["components"])[0])
    for found, given in zip(*map(jax.tree.leaves, (model.units.draws_from_user(moved), draws)), strict=True):
        np.testing.assert_allclose(found, given, rtol=1e-7, atol=1e-7)
