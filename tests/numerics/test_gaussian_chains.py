"""Chains of Gaussian latents against one dense Gaussian with the same precision matrix."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperance.numerics.gaussian_chains import chain_integral, chain_moments

T, K = 5, 2


def problem(cut: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    coupling = rng.normal(size=(K, K))
    each = rng.normal(size=(T, K, K))
    precision = each @ each.swapaxes(1, 2) + 6.0 * np.eye(K)
    links = np.ones(T)
    links[3] = 0.0 if cut else 1.0
    return tuple(map(jnp.asarray, (rng.normal(size=(T, K)), precision, coupling, links)))


def dense(linear: Any, precision: Any, coupling: Any, links: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """The value, mean and covariance of all T K latents together."""
    matrix = np.zeros((T, K, T, K))
    for t in range(T):
        matrix[t, :, t] = precision[t]
        if t:
            matrix[t, :, t - 1] = -links[t] * np.asarray(coupling)
            matrix[t - 1, :, t] = matrix[t, :, t - 1].T
    flat = matrix.reshape(T * K, T * K)
    assert np.linalg.eigvalsh(flat).min() > 0
    covariance, h = np.linalg.inv(flat), np.asarray(linear).ravel()
    mean = covariance @ h
    value = 0.5 * h @ mean + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return value, mean.reshape(T, K), covariance.reshape(T, K, T, K)


@pytest.mark.parametrize("cut", [False, True])
def test_value_moments_and_derivative_are_those_of_the_dense_gaussian(cut: bool) -> None:
    arguments = problem(cut)
    value, mean, covariance = dense(*arguments)
    links = np.asarray(arguments[3])
    moments = jax.jit(chain_moments)(*arguments)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-10)
    for t in range(T):
        np.testing.assert_allclose(moments.covariance[t], covariance[t, :, t], rtol=1e-10, atol=1e-14)
        lagged = covariance[t, :, t - 1] * links[t] if t else np.zeros((K, K))
        np.testing.assert_allclose(moments.lagged[t], lagged, rtol=1e-10, atol=1e-14)
    found, (d_linear, d_precision, d_coupling) = jax.jit(jax.value_and_grad(chain_integral, (0, 1, 2)))(*arguments)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    second = covariance + mean[:, :, None, None] * mean[None, None]
    np.testing.assert_allclose(d_linear, mean, rtol=1e-10)
    np.testing.assert_allclose(d_precision, [-0.5 * second[t, :, t] for t in range(T)], rtol=1e-10)
    pairs = sum(links[t] * second[t, :, t - 1] for t in range(1, T))
    np.testing.assert_allclose(d_coupling, pairs, rtol=1e-10)


def test_draws_have_the_moments_and_give_their_own_statistics() -> None:
    arguments = problem(True)
    value, mean, covariance = dense(*arguments)
    keys = jax.random.split(jax.random.key(0), 20000)
    draw = jax.vmap(jax.grad(lambda linear, key: chain_integral(linear, *arguments[1:], key)), (None, 0))
    draws = np.asarray(jax.jit(draw)(arguments[0], keys)).reshape(len(keys), -1)
    error = draws.std(axis=0) / np.sqrt(len(keys))
    assert (np.abs(draws.mean(axis=0) - mean.ravel()) < 5 * error).all()
    flat = covariance.reshape(T * K, T * K)
    spread = np.sqrt((np.outer(np.diag(flat), np.diag(flat)) + flat**2) / len(keys))
    assert (np.abs(np.cov(draws.T) - flat) < 5 * spread).all()

    one = jax.jit(jax.value_and_grad(lambda *a: chain_integral(*a, arguments[3], keys[0]), (0, 1, 2)))
    found, (z, square, pairs) = one(*arguments[:3])
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(square, -0.5 * np.asarray(z)[:, :, None] * np.asarray(z)[:, None], rtol=1e-10)
    expected = sum(np.outer(z[t], z[t - 1]) for t in range(1, T) if arguments[3][t])
    np.testing.assert_allclose(pairs, expected, rtol=1e-10)
