"""Draws so far away that they have no weight do not count, although what they predict is infinite."""

import jax
import numpy as np

import temperance as tp
from temperance.inference.monte_carlo.draws import Draws

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 1))


def averaged(model, data, blocks, far):
    """Answers of three draws of equal weight, with and without a fourth that has none."""
    fit = tp.fit(model, data, tp.VB(max_iter=3), seed=0)
    few = {name: np.asarray(values)[None] for name, values in blocks.items()}
    more = {name: np.concatenate([values, np.asarray(far[name])[None, None]], axis=1) for name, values in few.items()}
    log_weights = np.array([[0.0, 0.0, 0.0, -np.inf]])
    return [
        fit.model.predict(jax.tree.map(np.asarray, Draws(of, weights)), X)
        for of, weights in ((few, None), (more, log_weights))
    ]


def test_counts():
    weights = RNG.normal(size=(3, 2))
    expected, found = averaged(
        tp.PoissonRegression(), (X, RNG.poisson(3.0, 12)), {"weights": weights}, {"weights": [1e5, 1e5]}
    )
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-12)
    assert np.isfinite(found.variance).all()


def test_numbers():
    blocks = {"weights": RNG.normal(size=(3, 2)), "noise": np.array([1.0, 2.0, 3.0])}
    expected, found = averaged(
        tp.LinearRegression(), (X, RNG.normal(size=12)), blocks, {"weights": [0.0, 0.0], "noise": 0.0}
    )
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-12)
