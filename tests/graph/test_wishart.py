"""An unknown mean and an unknown precision matrix, apart: x ~ N(μ, Λ⁻¹), μ ~ N(0, P⁻¹), Λ ~ Wishart.

The data are far from the prior of μ, so that μ is not parallel to their mean: the message to Λ must still be symmetric.
"""

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp, multigammaln

import temperance as tp

ROWS = np.random.default_rng(0).normal(size=(12, 2)) * [0.5, 2.0] + [2.0, 3.0]
N, D = ROWS.shape
NEAR, DOF = np.eye(D), 4.0  # the scatter of Λ is the unit matrix


def model() -> Any:
    g = tp.Graph()
    mu = g.normal("mu", np.zeros(D), NEAR)
    g.normal("x", mu, g.wishart("precision", DOF, np.eye(D)), plates="n", observed=True)
    return g.model()


def test_coordinate_ascent_is_that_of_the_equations() -> None:
    fit = tp.fit(model(), ROWS, tp.VB(tol=1e-12), seed=0)
    scatter = np.eye(D)
    for dof in [DOF, *[DOF + N] * 60]:
        expected = dof * np.linalg.inv(scatter)
        spread = np.linalg.inv(NEAR + N * expected)
        mean = spread @ expected @ ROWS.sum(axis=0)
        scatter = np.eye(D) + (ROWS - mean).T @ (ROWS - mean) + N * spread
    # A bound within 1e-12 of its limit leaves the parameters within √1e-12 of theirs.
    np.testing.assert_allclose(fit.posterior["mu"].location, mean, rtol=1e-6)
    np.testing.assert_allclose(fit.posterior["precision"].scatter, scatter, rtol=1e-6)


def exact() -> tuple[float, np.ndarray, np.ndarray]:
    """ln p(x), E[μ | x] and E[Λ | x] by quadrature over μ: Λ is integrated out in closed form."""
    axes = [np.linspace(-1.0, 4.0, 300), np.linspace(-4.0, 7.0, 300)]
    mu = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, D)
    apart = ROWS - mu[:, None]
    scatter = np.eye(D) + np.einsum("kni,knj->kij", apart, apart)
    log = -0.5 * (DOF + N) * np.linalg.slogdet(scatter)[1] + multigammaln((DOF + N) / 2, D) - multigammaln(DOF / 2, D)
    log -= 0.5 * N * D * np.log(np.pi)
    log += 0.5 * np.linalg.slogdet(NEAR)[1] - 0.5 * D * np.log(2 * np.pi) - 0.5 * np.sum(mu @ NEAR * mu, axis=-1)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    evidence = float(logsumexp(log) + np.log(cell))
    weights = np.exp(log + np.log(cell) - evidence)
    return evidence, weights @ mu, np.einsum("k,kij->ij", weights, (DOF + N) * np.linalg.inv(scatter))


def test_draws_and_evidence_are_those_of_quadrature() -> None:
    evidence, mean, precision = exact()
    fit = tp.fit(model(), ROWS, tp.Gibbs(draws=2000, warmup=100, chains=2), seed=0)
    for name, expected in (("mu", mean), ("precision", precision)):
        draws = fit.posterior[name].reshape(-1, *expected.shape)
        error = draws.std(axis=0) / np.sqrt(1000)  # of 4,000 draws that are nearly independent
        assert np.all(np.abs(draws.mean(axis=0) - expected) < 4 * error), name
    sampled = tp.fit(model(), ROWS, tp.ImportanceSampling(), seed=0)
    assert sampled.log_evidence == pytest.approx(evidence, abs=4 * sampled.standard_error + 1e-3)
