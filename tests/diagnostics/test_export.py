"""Draws as ArviZ knows them."""

from functools import cache

import numpy as np
import pytest

import temperance as tp
from temperance.errors import UnsupportedMethod
from tests.inference.monte_carlo import tiny

SHIFTED = tiny.X + 50.0  # far from the origin, where the model works in other coordinates than the user


@cache
def fitted() -> tp.Fit:
    return tp.fit(tp.GaussianMixture(2), SHIFTED, tp.Gibbs(draws=50, warmup=20, chains=2), seed=0)


def test_groups_and_shapes() -> None:
    data = fitted().to_arviz()
    assert set(data.groups()) == {"posterior", "sample_stats", "log_likelihood", "posterior_predictive"}
    assert data.posterior["weights"].shape == (2, 50, 2)
    assert data.posterior["components_mean"].shape == (2, 50, 2, 1)
    assert data.posterior["components_precision"].shape == (2, 50, 2, 1, 1)
    assert data.sample_stats["lp"].shape == (2, 50)
    assert data.log_likelihood["x"].shape == (2, 50, 6)
    assert data.posterior_predictive["x"].shape == (2, 50, 1)


def test_values_are_in_the_users_coordinates() -> None:
    data = fitted().to_arviz()
    np.testing.assert_array_equal(data.sample_stats["lp"], fitted().history["log_joint"].T)
    weights = data.posterior["weights"].values[0, 0]
    mean = data.posterior["components_mean"].values[0, 0, :, 0]
    precision = data.posterior["components_precision"].values[0, 0, :, 0, 0]
    density = np.sqrt(precision / (2 * np.pi)) * np.exp(-0.5 * precision * np.square(SHIFTED - mean))
    np.testing.assert_allclose(data.log_likelihood["x"].values[0, 0], np.log(density @ weights), rtol=1e-9)
    assert abs(np.median(data.posterior_predictive["x"]) - 50) < 5


def test_parts_can_be_left_out() -> None:
    data = fitted().to_arviz(log_likelihood=False, predictive=False)
    assert set(data.groups()) == {"posterior", "sample_stats"}


def test_families_are_not_draws() -> None:
    with pytest.raises(UnsupportedMethod, match="no draws to export"):
        tp.fit(tiny.MODEL, tiny.X, tp.VB(max_iter=2)).to_arviz()
