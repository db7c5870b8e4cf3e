"""Conjugate pairs: predictive densities against SciPy, posteriors against quadrature, missing data."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import temperance as tp

rng = np.random.default_rng(0)
CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


def predictive(pair: tp.Pair, family: tp.Family, x: Any, power: float = 1.0) -> np.ndarray:
    return np.asarray(eqx.filter_jit(pair.log_predictive)(family, x, power))


def by_normalisers(pair: tp.Pair, family: tp.Family, x: Any, power: float = 1.0) -> np.ndarray:
    """log h(x)^power + A(η + power T(x)) − A(η), whatever short cut the pair has of its own."""
    return np.asarray(eqx.filter_jit(lambda f, x, p: tp.Pair.log_predictive(pair, f, x, p))(family, x, power))


def spd(n: int, d: int) -> np.ndarray:
    root = rng.normal(size=(n, d, d))
    return root @ root.swapaxes(-1, -2) + 0.3 * np.eye(d)


K, D, P, N = 3, 2, 3, 5  # components, columns, inputs, data
GAUSSIAN_DATA = rng.normal(size=(N, D)) * 2
NORMAL_WISHART = tp.NormalWishart(rng.normal(size=(K, D)), [0.1, 1.0, 20.0], [1.3, 2.5, 30.0], spd(K, D))
NORMAL_GAMMA = tp.NormalGamma(rng.normal(size=K), [0.1, 1.0, 20.0], [0.3, 2.5, 30.0], [0.5, 1.0, 9.0])
ISOTROPIC = tp.IsotropicNormalGamma(rng.normal(size=(K, D)), [0.1, 1.0, 20.0], [0.3, 2.5, 30.0], [0.5, 1.0, 9.0])
NORMAL = tp.Normal(rng.normal(size=(K, D)), spd(K, D))
NOISE = spd(1, D)[0]
REGRESSION = tp.MatrixNormalWishart(rng.normal(size=(K, D, P)), spd(K, P), [1.3, 2.5, 30.0], spd(K, D))


def test_the_quick_features_of_a_gaussian_are_its_packed_statistics() -> None:
    x = jnp.asarray(GAUSSIAN_DATA)
    np.testing.assert_array_equal(tp.Gaussian().features(x), tp.Gaussian().statistics(x).features().T)


def student(x: np.ndarray, location: Any, shape: Any, dof: Any) -> np.ndarray:
    return np.atleast_1d(stats.multivariate_t.logpdf(x, np.asarray(location), np.asarray(shape), float(dof)))


def test_gaussian_predictive_is_student() -> None:
    f = NORMAL_WISHART
    exact = []
    for k in range(K):
        dof = f.dof[k] - D + 1
        shape = f.scatter[k] * (f.pseudo_count[k] + 1) / (f.pseudo_count[k] * dof)
        exact.append(student(GAUSSIAN_DATA, f.location[k], shape, dof))
    for form in (predictive, by_normalisers):
        np.testing.assert_allclose(form(tp.Gaussian(), f, GAUSSIAN_DATA), np.stack(exact, 1), **CLOSE)


def test_scalar_and_spherical_gaussian_predictive_is_student() -> None:
    for family, pair, d in ((NORMAL_GAMMA, tp.ScalarGaussian(), 1), (ISOTROPIC, tp.SphericalGaussian(), D)):
        x = GAUSSIAN_DATA[:, :d]
        exact = []
        for k in range(K):
            dof, count = family.dof[k], family.pseudo_count[k]
            shape = np.eye(d) * float(family.scatter[k] / dof * (1 + 1 / count))
            exact.append(student(x, np.atleast_1d(family.location[k]), shape, dof))
        found = predictive(pair, family, x[:, 0] if d == 1 else x)
        np.testing.assert_allclose(found, np.stack(exact, 1), **CLOSE)


def test_gaussian_of_known_covariance_predictive_is_gaussian() -> None:
    exact = [
        stats.multivariate_normal.logpdf(GAUSSIAN_DATA, NORMAL.location[k], np.asarray(NORMAL.covariance[k]) + NOISE)
        for k in range(K)
    ]
    found = predictive(tp.KnownCovarianceGaussian(NOISE), NORMAL, GAUSSIAN_DATA)
    np.testing.assert_allclose(found, np.stack(exact, 1), **CLOSE)


def test_regression_predictive_is_student() -> None:
    f, x = REGRESSION, rng.normal(size=(N, P))
    exact = np.empty((N, K))
    for k in range(K):
        dof = f.dof[k] - D + 1
        for n in range(N):
            spread = 1 + x[n] @ np.linalg.solve(f.pseudo_inputs[k], x[n])
            exact[n, k] = student(GAUSSIAN_DATA[n], f.location[k] @ x[n], f.scatter[k] * spread / dof, dof)[0]
    np.testing.assert_allclose(predictive(tp.LinearGaussian(), f, (x, GAUSSIAN_DATA)), exact, **CLOSE)


def test_poisson_predictive_is_negative_binomial() -> None:
    family, x = tp.Gamma([0.2, 1.0, 40.0], [0.5, 3.0, 10.0]), np.arange(3000.0)
    exact = stats.nbinom.logpmf(x[:, None], family.shape, family.rate / (family.rate + 1))
    found = predictive(tp.Poisson(), family, x)
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(np.exp(found).sum(axis=0), 1.0, rtol=1e-10)


def test_bernoulli_predictive_is_beta_binomial() -> None:
    family, x = tp.Beta([0.2, 1.0, 40.0], [0.5, 3.0, 10.0]), np.array([0.0, 1.0])
    exact = stats.betabinom.logpmf(x[:, None], 1, family.a, family.b)
    found = predictive(tp.Bernoulli(), family, x)
    np.testing.assert_allclose(found, exact, **CLOSE)
    np.testing.assert_allclose(np.exp(found).sum(axis=0), 1.0, rtol=1e-12)


def test_counts_of_bernoulli_data_are_beta_binomial() -> None:
    """Ten trials by ten updates, in the order that has the successes first, times the number of orders."""
    family, n = tp.Beta(0.7, 2.5), 10
    for successes in range(n + 1):
        posterior, total = family, np.log(float(np.prod(np.arange(n, n - successes, -1.0))))
        total -= np.log(float(np.prod(np.arange(1.0, successes + 1))))
        for i in range(n):
            x = jnp.asarray([float(i < successes)])
            total += float(predictive(tp.Bernoulli(), posterior[None], x)[0, 0])
            posterior = posterior + tp.Bernoulli().statistics(x)[0]
        np.testing.assert_allclose(total, stats.betabinom.logpmf(successes, n, 0.7, 2.5), **CLOSE)


def test_categorical_and_multinomial_predictive_is_dirichlet_multinomial() -> None:
    family = tp.Dirichlet([[0.2, 1.0, 5.0], [1.0, 1.0, 1.0]])
    delta = np.asarray(family.concentration)
    found = predictive(tp.Categorical(3), family, np.arange(3.0))
    np.testing.assert_allclose(np.exp(found), (delta / delta.sum(-1, keepdims=True)).T, rtol=1e-12)
    x = np.array([[i, j, 4 - i - j] for i in range(5) for j in range(5 - i)])
    found = predictive(tp.Multinomial(), family, x.astype(float))
    exact = [stats.dirichlet_multinomial.logpmf(x, delta[k], 4) for k in range(2)]
    np.testing.assert_allclose(found, np.stack(exact, 1), **CLOSE)
    np.testing.assert_allclose(np.exp(found).sum(axis=0), 1.0, rtol=1e-12)


CONTINUOUS = {
    "Gaussian": (tp.Gaussian(), tp.NormalWishart([0.3], 0.5, 1.7, [[0.8]]), lambda x: x[:, None]),
    "ScalarGaussian": (tp.ScalarGaussian(), tp.NormalGamma(0.3, 0.5, 1.7, 0.8), lambda x: x),
    "SphericalGaussian": (
        tp.SphericalGaussian(),
        tp.IsotropicNormalGamma([0.3], 0.5, 1.7, 0.8),
        lambda x: x[:, None],
    ),
    "KnownCovarianceGaussian": (
        tp.KnownCovarianceGaussian([[0.7]]),
        tp.Normal([0.3], [[2.0]]),
        lambda x: x[:, None],
    ),
    "LinearGaussian": (
        tp.LinearGaussian(),
        tp.MatrixNormalWishart([[0.3, 1.0]], np.eye(2), 1.7, [[0.8]]),
        lambda x: (np.broadcast_to([0.4, -1.0], (len(x), 2)), x[:, None]),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_predictive_integrates_to_one(name: str) -> None:
    """In x = sinh u, where the long tails of a Student-t are short."""
    pair, family, arrange = CONTINUOUS[name]
    u = np.linspace(-25, 25, 4001)
    density = np.exp(predictive(pair, family[None], arrange(np.sinh(u)))[:, 0])
    np.testing.assert_allclose(np.trapezoid(density * np.cosh(u), u), 1.0, rtol=1e-8)


# A prior, two data and the power of the likelihood; θ over a grid in coordinates that reach the whole domain.
def line(low: float, high: float, n: int = 4001) -> np.ndarray:
    return np.linspace(low, high, n)


def probability_grid() -> tuple[Any, np.ndarray]:
    u = line(-60, 60)
    p = 1 / (1 + np.exp(-u))
    return jnp.asarray(p), np.log(u[1] - u[0]) - np.logaddexp(0, u) - np.logaddexp(0, -u)


def rate_grid() -> tuple[Any, np.ndarray]:
    u = line(-60, 10)
    return jnp.asarray(np.exp(u)), np.log(u[1] - u[0]) + u


def real_grid() -> tuple[Any, np.ndarray]:
    x = line(-40, 40)
    return jnp.asarray(x[:, None]), np.full(x.shape, np.log(x[1] - x[0]))


def plane_grid(shape: Any) -> tuple[Any, np.ndarray]:
    """(μ, λ): μ scaled by λ^−½ about its prior mean, log λ."""
    z, u = np.meshgrid(line(-60, 60, 1201), line(-30, 8, 500), indexing="ij")
    z, u = z.ravel(), u.ravel()
    step = 120 / 1200 * 38 / 499
    return shape(0.3 + z * np.exp(-u / 2), np.exp(u)), np.log(step) + u / 2


def as_scalar(mean: np.ndarray, precision: np.ndarray) -> Any:
    return tp.MeanAndPrecision(jnp.asarray(mean), jnp.asarray(precision))


def as_vector(mean: np.ndarray, precision: np.ndarray) -> Any:
    return tp.MeanAndPrecision(jnp.asarray(mean[:, None]), jnp.asarray(precision))


def as_matrix(mean: np.ndarray, precision: np.ndarray) -> Any:
    return tp.MeanAndPrecision(jnp.asarray(mean[:, None]), jnp.asarray(precision[:, None, None]))


def as_weights(mean: np.ndarray, precision: np.ndarray) -> Any:
    return tp.WeightsAndPrecision(jnp.asarray(mean[:, None, None]), jnp.asarray(precision[:, None, None]))


GRIDS = {
    "Bernoulli": (tp.Bernoulli(), tp.Beta(0.7, 2.0), np.array([1.0, 0.0]), probability_grid),
    "Poisson": (tp.Poisson(), tp.Gamma(0.7, 2.0), np.array([3.0, 0.0]), rate_grid),
    "KnownCovarianceGaussian": (
        tp.KnownCovarianceGaussian([[0.7]]),
        tp.Normal([0.3], [[2.0]]),
        np.array([[1.0], [-0.4]]),
        real_grid,
    ),
    "ScalarGaussian": (
        tp.ScalarGaussian(),
        tp.NormalGamma(0.3, 0.5, 1.7, 0.8),
        np.array([1.0, -0.4]),
        lambda: plane_grid(as_scalar),
    ),
    "SphericalGaussian": (
        tp.SphericalGaussian(),
        tp.IsotropicNormalGamma([0.3], 0.5, 1.7, 0.8),
        np.array([[1.0], [-0.4]]),
        lambda: plane_grid(as_vector),
    ),
    "Gaussian": (
        tp.Gaussian(),
        tp.NormalWishart([0.3], 0.5, 1.7, [[0.8]]),
        np.array([[1.0], [-0.4]]),
        lambda: plane_grid(as_matrix),
    ),
    "LinearGaussian": (
        tp.LinearGaussian(),
        tp.MatrixNormalWishart([[0.3]], [[0.5]], 1.7, [[0.8]]),
        (np.array([[1.0], [2.0]]), np.array([[1.0], [-0.4]])),
        lambda: plane_grid(as_weights),
    ),
}


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("name", GRIDS)
def test_posterior_is_prior_plus_statistics(name: str, power: float) -> None:
    """Against prior × likelihood^power on a grid: its integral, and the posterior density everywhere."""
    pair, prior, x, make_grid = GRIDS[name]
    theta, log_volume = make_grid()

    @jax.jit
    def compute(prior: tp.Family, x: Any, theta: Any) -> tuple[jax.Array, ...]:
        seen = pair.statistics(x).sum(0) * power
        posterior = prior + seen
        likelihood = pair.log_likelihood(prior.statistics(theta), x).sum(0) * power
        joint = jax.vmap(prior.log_prob)(theta) + likelihood
        evidence = power * pair.log_base(x).sum() + posterior.log_normaliser() - prior.log_normaliser()
        return joint, evidence, jax.vmap(posterior.log_prob)(theta)

    joint, evidence, found = map(np.asarray, compute(prior, x, theta))
    integral = np.logaddexp.reduce(joint + log_volume)
    np.testing.assert_allclose(evidence, integral, atol=1e-7)
    np.testing.assert_allclose(found, joint - integral, atol=1e-6)


@pytest.mark.slow
def test_missing_columns_add_nothing() -> None:
    family = tp.Independent(tp.NormalGamma(np.zeros((1, 3)), 0.5, 2.0, 1.0))
    pair = tp.IndependentPair(tp.ScalarGaussian())
    x = np.array([[0.4, np.nan, -1.0], [np.nan, np.nan, np.nan], [0.1, 2.0, 0.3]])
    found = predictive(pair, family, x)[:, 0]
    single = predictive(tp.ScalarGaussian(), tp.NormalGamma(np.zeros(1), 0.5, 2.0, 1.0), np.nan_to_num(x).ravel())
    each = np.where(np.isnan(x), 0.0, single.reshape(3, 3))
    np.testing.assert_allclose(found, each.sum(axis=1), rtol=1e-12, atol=1e-14)
    posterior = family + pair.statistics(x).sum(0).expand(0)
    seen = (~np.isnan(x)).sum(axis=0)
    np.testing.assert_allclose(posterior.inner.pseudo_count[0], 0.5 + seen)
    np.testing.assert_allclose(posterior.inner.location[0], np.nansum(x, axis=0) / (0.5 + seen))
    assert np.all(np.isfinite(jax.grad(lambda x: pair.log_predictive(family, x).sum())(jnp.nan_to_num(x))))


def test_missing_columns_of_other_pairs() -> None:
    x = np.array([[1.0, np.nan], [0.0, 1.0]])
    for inner, prior, count in (
        (tp.Bernoulli(), tp.Beta(np.ones((1, 2)), 1.0), lambda f: f.a + f.b - 2),
        (tp.Poisson(), tp.Gamma(np.ones((1, 2)), 1.0), lambda f: f.rate - 1),
        (tp.Categorical(2), tp.Dirichlet(np.ones((1, 2, 2))), lambda f: f.concentration.sum(-1) - 2),
    ):
        pair, family = tp.IndependentPair(inner), tp.Independent(prior)
        posterior = family + pair.statistics(x).sum(0).expand(0)
        np.testing.assert_allclose(count(posterior.inner), [[2.0, 1.0]])
        assert np.all(np.isfinite(predictive(pair, family, x)))


def test_known_covariance_with_missing_columns_is_the_marginal() -> None:
    pair = tp.KnownCovarianceGaussian(NOISE, missing=True)
    x = np.array([[0.4, np.nan], [np.nan, 1.2], [0.4, 1.2]])
    found = predictive(pair, NORMAL, x)
    for n, seen in enumerate(([0], [1], [0, 1])):
        for k in range(K):
            covariance = (np.asarray(NORMAL.covariance[k]) + NOISE)[np.ix_(seen, seen)]
            exact = stats.multivariate_normal.logpdf(x[n, seen], NORMAL.location[k, np.array(seen)], covariance)
            np.testing.assert_allclose(found[n, k], exact, **CLOSE)


def test_mixed_columns_add_their_predictives() -> None:
    family = tp.Product(count=tp.Gamma(np.ones(2), [1.0, 5.0]), flag=tp.Beta(np.ones(2), [1.0, 3.0]))
    pair = tp.ProductPair(count=tp.Poisson(), flag=tp.Bernoulli())
    x = {"count": np.array([0.0, 3.0, 7.0]), "flag": np.array([1.0, 0.0, 1.0])}
    found = predictive(pair, family, x)
    parts = [predictive(pair.factors[name], family.factors[name], x[name]) for name in x]
    np.testing.assert_allclose(found, sum(parts), rtol=1e-13)
    m = eqx.filter_jit(lambda f: f.mean())(family)
    likelihood = eqx.filter_jit(pair.log_likelihood)(m, x)
    parts = [eqx.filter_jit(pair.factors[name].log_likelihood)(m.factors[name], x[name]) for name in x]
    np.testing.assert_allclose(likelihood, sum(parts), rtol=1e-12)


@pytest.mark.slow
def test_simulated_data_have_the_moments_of_their_likelihood() -> None:
    n = 20_000
    key = jax.random.key(0)

    def simulate(pair: tp.Pair, draw: Any) -> np.ndarray:
        repeated = jax.tree.map(lambda leaf: jnp.broadcast_to(jnp.asarray(leaf), (n, *np.shape(leaf))), draw)
        return np.asarray(pair.sample(key, repeated), dtype=float)

    def check(x: np.ndarray, mean: Any, covariance: Any) -> None:
        x = x.reshape(n, -1)
        mean, covariance = np.atleast_1d(mean), np.atleast_2d(covariance)
        assert np.all(np.abs(x.mean(0) - mean) <= 5 * np.sqrt(np.diag(covariance) / n))
        products = np.einsum("ni,nj->nij", x - mean, x - mean)
        assert np.all(np.abs(products.mean(0) - covariance) <= 5 * products.std(0) / np.sqrt(n) + 1e-12)

    normal = NORMAL_WISHART[0].mode()
    check(simulate(tp.Gaussian(), normal), normal.mean, np.linalg.inv(normal.precision))
    check(simulate(tp.KnownCovarianceGaussian(NOISE), np.array([1.0, -2.0])), [1.0, -2.0], NOISE)
    check(simulate(tp.Poisson(), 3.5), 3.5, 3.5)
    check(simulate(tp.Bernoulli(), 0.3), 0.3, 0.21)
    p = np.array([0.2, 0.5, 0.3])
    values = np.arange(3.0)
    check(simulate(tp.Categorical(3), p), p @ values, p @ values**2 - (p @ values) ** 2)
    check(simulate(tp.Multinomial(total=7), p), 7 * p, 7 * (np.diag(p) - np.outer(p, p)))
