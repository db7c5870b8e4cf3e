"""Matrix-Normal families against the vector families they are made of, quadrature over the noise, and draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import temperance as tp

K, D = 3, 2
rng = np.random.default_rng(0)
MEAN = rng.normal(size=(K, D))
ROOT = rng.normal(size=(K, K))
MATRIX = ROOT @ ROOT.T + 0.5 * np.eye(K)


def test_is_one_normal_for_each_column() -> None:
    matrix = tp.MatrixNormal(MEAN, MATRIX)
    columns = tp.Normal(MEAN.T, precision=np.broadcast_to(MATRIX, (D, K, K)))
    np.testing.assert_allclose(matrix.log_normaliser(), columns.log_normaliser().sum(), rtol=1e-13)
    np.testing.assert_allclose(matrix.entropy(), columns.entropy().sum(), rtol=1e-12)
    np.testing.assert_allclose(matrix.mean().cross, columns.mean().linear.T, rtol=1e-11)
    np.testing.assert_allclose(matrix.mean().gram, columns.mean().precision.sum(axis=0), rtol=1e-11)
    draw = rng.normal(size=(K, D))
    np.testing.assert_allclose(matrix.log_prob(draw), columns.log_prob(draw.T).sum(), rtol=1e-11)


def test_with_one_row_it_is_the_isotropic_normal_gamma() -> None:
    wide = tp.MatrixNormalGamma(MEAN[:1], [[0.7]], 3.0, 1.3)
    plain = tp.IsotropicNormalGamma(MEAN[0], 0.7, 3.0, 1.3)
    np.testing.assert_allclose(wide.log_normaliser(), plain.log_normaliser(), rtol=1e-13)
    np.testing.assert_allclose(wide.mean().features(), plain.mean().features(), rtol=1e-12)


def test_normaliser_is_the_integral_over_the_noise() -> None:
    """Given λ the integral over W is that of a matrix-Normal; the one over λ is done numerically."""
    family = tp.MatrixNormalGamma(MEAN, MATRIX, 3.0, 1.3)
    eta = family.natural
    quadratic = float(np.sum(MEAN * (MATRIX @ MEAN)))
    log_det = np.linalg.slogdet(2 * np.pi * np.linalg.inv(MATRIX))[1]

    def integrand(lam: float) -> float:
        log_w = 0.5 * lam * quadratic + 0.5 * D * (log_det - K * np.log(lam))
        return float(np.exp(log_w - 0.5 * lam * eta.second + 0.5 * eta.dof * np.log(lam)))

    value, _ = quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-10)
    np.testing.assert_allclose(family.log_normaliser(), np.log(value), rtol=1e-8)


@pytest.mark.parametrize(
    "family",
    [
        tp.MatrixNormal(MEAN, MATRIX),
        pytest.param(tp.MatrixNormalGamma(MEAN, MATRIX, 3.0, 1.3), marks=pytest.mark.slow),
    ],
    ids=["normal", "gamma"],
)
def test_round_trip_and_draws(family: tp.Family) -> None:
    assert family.is_proper()
    back = type(family).from_mean(family.mean())
    np.testing.assert_allclose(back.natural.features(), family.natural.features(), rtol=1e-9)
    n = 20_000
    draws = jax.vmap(family.sample)(jax.random.split(jax.random.key(0), n))
    seen = jax.vmap(family.statistics)(draws).features()
    error = jnp.std(seen, axis=0) / np.sqrt(n)
    assert jnp.all(jnp.abs(seen.mean(axis=0) - family.mean().features()) < 4.5 * error)
    mode = family.mode()
    best = family.log_prob(mode)
    for index in range(20):
        near = jax.tree.map(lambda a, b: a + 0.05 * (b - a), mode, jax.tree.map(lambda a: a[index], draws))  # noqa: B023
        assert family.log_prob(near) < best
