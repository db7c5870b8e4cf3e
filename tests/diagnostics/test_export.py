"""Draws as ArviZ knows them."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import temperance as tp
from tests.inference.monte_carlo import tiny


@cache
def fitted() -> tp.Fit:
    return tp.fit(tiny.MODEL, tiny.X, tp.Gibbs(draws=50, warmup=20, chains=4), seed=0)


@cache
def exported() -> Any:
    return fitted().to_arviz()


@pytest.mark.slow
def test_groups_and_shapes() -> None:
    data = exported()
    assert set(data.groups()) == {"posterior", "sample_stats", "log_likelihood", "posterior_predictive"}
    assert data.posterior["weights"].shape == (4, 50, 2)
    assert data.posterior["components_mean"].shape == (4, 50, 2, 1)
    assert data.posterior["components_precision"].shape == (4, 50, 2, 1, 1)
    assert data.sample_stats["lp"].shape == (4, 50)
    assert data.log_likelihood["x"].shape == (4, 50, 6)
    assert data.posterior_predictive["x"].shape == (4, 50, 1)


@pytest.mark.slow
def test_values_are_in_the_users_coordinates() -> None:
    """The model centres its data; the log likelihood, recomputed from what is exported, must not notice."""
    data = exported()
    np.testing.assert_array_equal(data.sample_stats["lp"], fitted().history["log_joint"].T)
    weights = data.posterior["weights"].values[0, 0]
    mean = data.posterior["components_mean"].values[0, 0, :, 0]
    precision = data.posterior["components_precision"].values[0, 0, :, 0, 0]
    density = np.sqrt(precision / (2 * np.pi)) * np.exp(-0.5 * precision * np.square(tiny.X - mean))
    np.testing.assert_allclose(data.log_likelihood["x"].values[0, 0], np.log(density @ weights), rtol=1e-9)
