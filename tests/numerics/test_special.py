"""Special functions against forty-digit references and SciPy, over the whole range that families use."""

from decimal import Decimal
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from temperance.numerics import special
from tests.numerics import reference
from tests.tiers import with_slow

EPS = np.finfo(np.float64).eps
POINTS = np.concatenate([np.logspace(-8, 8, 129), [0.5, 1.0, 1.4616321449683622, 2.0, 8.0, 20.0, 20.5]])


@cache
def truth(function, points=tuple(POINTS.tolist())):
    return np.array([float(function(x)) for x in points])


@pytest.mark.parametrize("name", ["log_gamma", "digamma", "trigamma"])
def test_the_gamma_chain(name):
    exact = truth(getattr(reference, name))
    found = jax.jit(getattr(special, name))(POINTS)
    # Relative, except near the zeros of log Γ and ψ.
    np.testing.assert_allclose(found, exact, rtol=20 * EPS, atol=20 * EPS)


@pytest.mark.parametrize(("name", "derivative"), [("log_gamma", "digamma"), ("digamma", "trigamma")])
def test_each_is_the_derivative_of_the_one_before(name, derivative):
    slope = jax.jit(jax.vmap(jax.grad(getattr(special, name))))(POINTS)
    np.testing.assert_allclose(slope, truth(getattr(reference, derivative)), rtol=20 * EPS, atol=20 * EPS)


def test_trigamma_can_be_differentiated():
    slope = jax.jit(jax.vmap(jax.grad(special.trigamma)))(POINTS)
    np.testing.assert_allclose(slope, scipy.special.polygamma(2, POINTS), rtol=1e-13)


def test_log_minus_digamma_keeps_its_digits():
    exact = truth(lambda x: Decimal(x).ln() - reference.digamma(x))
    found = jax.jit(special._log_minus_digamma)(POINTS)[0]
    # Below 20 it is a difference of two numbers up to a hundred times its size.
    np.testing.assert_allclose(found, exact, rtol=200 * EPS)


def test_trigamma_deficit_keeps_its_digits():
    exact = truth(lambda x: Decimal(x) - 1 / reference.trigamma(x))
    found = jax.jit(lambda x: special.trigamma_deficit(x, special.trigamma(x)))(POINTS)
    np.testing.assert_allclose(found, exact, rtol=100 * EPS)
    assert np.all((found > 0) & (found < 0.5))


@pytest.mark.parametrize("d", with_slow([1, 2, 3, 4, 5, 30, 500], 30))
def test_multivariate_gamma(d):
    a = (d - 1) / 2 + np.logspace(-3, 6, 40)
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(lambda a: special.log_multigamma(a, d))))(a)
    np.testing.assert_allclose(value, scipy.special.multigammaln(a, d), rtol=1e-13, atol=1e-12)
    psi = sum(scipy.special.digamma(a - i / 2) for i in range(d))
    # Near its pole a digamma of a − (d − 1)/2 knows its argument only to rounding.
    tolerance = 1e-13 + d * EPS / (a - (d - 1) / 2)
    assert np.all(np.abs(slope - psi) <= tolerance * np.maximum(np.abs(psi), 1))
    np.testing.assert_allclose(jax.jit(lambda a: special.multidigamma(a, d))(a), slope, rtol=1e-14)
    second = jax.jit(jax.vmap(jax.grad(lambda a: special.multidigamma(a, d))))(a)
    exact = sum(scipy.special.polygamma(1, a - i / 2) for i in range(d))
    assert np.all(np.abs(second - exact) <= 2.0 * tolerance * exact)


@pytest.mark.parametrize("name", ["log_multigamma", "multidigamma", "inverse_wishart_gap"])
def test_the_program_does_not_grow_with_the_dimension(name):
    def size(d):
        slopes = jax.jacfwd(lambda a: getattr(special, name)(a, d))
        return str(jax.make_jaxpr(slopes)(jnp.full(3, 1e3))).count(" = ")

    assert size(500) == size(20)
    assert size(501) == size(21)


def test_inverse_digamma():
    found = jax.jit(special.inverse_digamma)(truth(reference.digamma))
    # An error of one rounding in y = ψ(x) is one of |ψ(x)| / ψ′(x) in x.
    sensitivity = np.abs(truth(reference.digamma)) / truth(reference.trigamma)
    assert np.all(np.abs(found - POINTS) <= 20 * EPS * (POINTS + sensitivity))


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_inverse_of_the_wishart_gap(d):
    dof = d - 1 + np.logspace(-8, 8, 33)

    def gap(nu: float) -> Decimal:
        half = Decimal(nu) / 2
        return sum((half.ln() - reference.digamma(half - Decimal(i) / 2) for i in range(d)), Decimal(0))

    exact = truth(gap, tuple(dof.tolist()))
    found = jax.jit(lambda y: special.inverse_wishart_gap(y, d))(exact)
    np.testing.assert_allclose(found, dof, rtol=1e-13)
    # Just above d − 1 the distance from the limit is what matters, as far as dof itself can say it.
    assert np.all(np.abs(found - dof) <= 1e-11 * (dof - d + 1) + 4 * EPS * dof)


def test_a_wishart_gap_lost_to_rounding_is_a_large_number_not_nan():
    found = jax.jit(lambda y: special.inverse_wishart_gap(y, 3))(np.array([0.0, -1e-16, 1e-18]))
    assert np.all(np.isfinite(found)) and np.all(found > 1e14)


def test_safe_log_of_zero():
    value, slope = jax.vmap(jax.value_and_grad(special.safe_log))(jnp.asarray([0.0, 0.5, 2.0]))
    np.testing.assert_array_equal(value, [-np.inf, np.log(0.5), np.log(2.0)])
    np.testing.assert_array_equal(slope, [0.0, 2.0, 0.5])


def test_xlogy_at_zero():
    x, y = jnp.asarray([0.0, 0.0, 2.0, 0.0]), jnp.asarray([0.0, 3.0, 3.0, np.inf])
    value = special.xlogy(x, y)
    slopes = jax.vmap(jax.grad(special.xlogy, argnums=(0, 1)))(x, y)
    np.testing.assert_allclose(value, [0.0, 0.0, 2 * np.log(3), 0.0])
    np.testing.assert_allclose(slopes[0], [0.0, np.log(3), np.log(3), 0.0])
    np.testing.assert_allclose(slopes[1], [0.0, 0.0, 2 / 3, 0.0])


def test_log_mix_is_a_weighted_sum():
    rng = np.random.default_rng(0)
    weights, values = rng.dirichlet(np.ones(4), 20), rng.normal(size=(20, 4))
    found = jax.jit(special.log_mix)(np.log(weights), values)
    np.testing.assert_allclose(found, np.log(np.sum(weights * np.exp(values), axis=-1)), rtol=1e-13)
    across = jax.jit(lambda w, v: special.log_mix(w, v, axis=0))(np.log(weights).T, values.T)
    np.testing.assert_allclose(across, found, rtol=1e-14)


def test_log_mix_of_weight_zero():
    log_weights = jnp.log(jnp.asarray([0.0, 0.25, 0.75]))
    for silenced in (1e3, np.inf, np.nan, -np.inf):
        values = jnp.asarray([silenced, -1000.0, -1001.0])
        value, slopes = jax.value_and_grad(special.log_mix, argnums=(0, 1))(log_weights, values)
        expected = np.array([0.0, 0.25, 0.75 * np.exp(-1)])
        np.testing.assert_allclose(value, -1000 + np.log(expected.sum()))
        for slope in slopes:
            np.testing.assert_allclose(slope, expected / expected.sum(), atol=1e-15)


def test_log_mix_of_nothing():
    nothing = jnp.full(3, -jnp.inf)
    assert special.log_mix(nothing, jnp.zeros(3)) == -jnp.inf
    assert np.all(jax.grad(special.log_mix)(nothing, jnp.zeros(3)) == 0)
