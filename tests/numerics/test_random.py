"""Random variables against their distributions."""

import jax
import numpy as np
import pytest
from scipy import stats

from temperance.numerics import random

N = 20_000


def test_uniform_and_normal():
    key = jax.random.key(0)
    u = np.asarray(random.uniform(key, (N // 2, 2))).ravel()
    assert np.all(u > 0) and np.all(u < 1)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(np.asarray(random.normal(key, (N // 2, 2))).ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("shape", [0.05, 0.9, 1.0, 3.5, 200.0])
def test_log_gamma_variate(shape):
    draws = np.asarray(jax.jit(random.log_gamma_variate)(jax.random.key(1), np.full(N, shape)))
    assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue > 1e-3


def test_log_gamma_variate_where_the_variable_underflows():
    draws = np.asarray(jax.jit(random.log_gamma_variate)(jax.random.key(2), np.full(N, 1e-8)))
    # −a log G(a) tends to an exponential variable.
    assert stats.kstest(-1e-8 * draws, "expon").pvalue > 1e-3


def test_log_gamma_variate_of_an_impossible_shape_ends():
    shapes = np.array([np.nan, -1.0, 0.0, np.inf, 2.0])
    draws = np.asarray(jax.jit(random.log_gamma_variate)(jax.random.key(0), shapes))
    assert np.all(np.isnan(draws[:4])) and np.isfinite(draws[4])
