"""A Normal vector of each datum integrated out, beside the dense Gaussian it is a part of."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from temperance.graph import Graph

MATRIX = np.array([[1.0, 0.5], [0.0, -1.0], [2.0, 0.3]])
NOISE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 3.0]])
PRECISION = np.array([[1.5, 0.4], [0.4, 0.8]])
CENTRE = np.array([0.7, -0.2])


@pytest.fixture(scope="module")
def problem() -> tuple:
    """z is seen through a product with a latent, a sum with another, and a known matrix."""
    g = Graph()
    z = g.normal("z", CENTRE, PRECISION, plates="n")
    w, b, tau = g.normal("w", 0.0, 1.0, dim=2), g.normal("b", 0.0, 1.0), g.gamma("tau", 2.0, 2.0)
    g.normal("x", g.dot(z, w) + b, tau, observed=True)
    g.normal("y", MATRIX @ (2.0 * z) + 0.5, NOISE, observed=True)
    rng = np.random.default_rng(0)
    x = {"x": rng.normal(size=4), "y": rng.normal(size=(4, 3))}
    model, data = g.model().prepare(x)
    assert model.spec.integrated == "z"
    draws = {"w": rng.normal(size=2), "b": rng.normal(size=1), "tau": np.asarray(1.7)}

    @jax.jit
    def both(draws: dict) -> tuple:
        value, pull = jax.vjp(lambda d: model.log_evidence(model.statistics(d), data.values), draws)
        return value, pull(np.ones(4))[0]

    return np.column_stack([x["x"], x["y"]]), draws, *both(draws)


def dense(draws: dict, rows: np.ndarray) -> np.ndarray:
    through = np.vstack([draws["w"][None], 2.0 * MATRIX])
    mean = through @ CENTRE + np.append(draws["b"][0], np.full(3, 0.5))
    noise = np.zeros((4, 4))
    noise[0, 0], noise[1:, 1:] = 1.0 / float(draws["tau"]), np.linalg.inv(NOISE)
    covariance = through @ np.linalg.inv(PRECISION) @ through.T + noise
    return np.asarray([multivariate_normal.logpdf(row, mean, covariance) for row in rows])


def test_the_value_is_that_of_the_dense_gaussian(problem: tuple) -> None:
    rows, draws, found, _ = problem
    np.testing.assert_allclose(found, dense(draws, rows), rtol=1e-12)


def test_so_are_its_derivatives(problem: tuple) -> None:
    """In the parameters themselves, of which the statistics are functions."""
    rows, draws, _, gradient = problem
    for name, at in draws.items():
        for place in np.ndindex(at.shape):
            shift = np.zeros(at.shape)
            shift[place] = 1e-6
            above, below = (dense(draws | {name: at + sign * shift}, rows).sum() for sign in (1.0, -1.0))
            np.testing.assert_allclose(np.asarray(gradient[name])[place], (above - below) / 2e-6, rtol=1e-6)
