"""The references themselves, against chains of Student-t densities, quadrature and sums to one."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import gamma, multivariate_normal, multivariate_t

from tests.exact import marginals
from tests.exact.enumeration import log_evidence, log_joints, log_predictive, same_component

X = np.random.default_rng(0).normal(size=(4, 2))
MEAN, SCATTER = np.array([0.3, -0.2]), np.array([[1.2, 0.4], [0.4, 0.7]])


def test_gaussian_is_a_chain_of_students() -> None:
    total, mean, count, dof, scatter = 0.0, MEAN, 0.5, 2.5, SCATTER
    for x in X:
        total += multivariate_t(mean, scatter * (count + 1) / (count * (dof - 1)), dof - 1).logpdf(x)
        scatter = scatter + count / (count + 1) * np.outer(x - mean, x - mean)
        mean, count, dof = (count * mean + x) / (count + 1), count + 1, dof + 1
    assert marginals.gaussian(X, MEAN, 0.5, 2.5, SCATTER) == pytest.approx(total, abs=1e-12)


def test_forms_agree_in_one_column() -> None:
    column = X[:, :1]
    full = marginals.gaussian(column, [0.3], 0.5, 2.5, [[1.2]])
    assert marginals.diagonal(column, 0.3, 0.5, 2.5, 1.2) == pytest.approx(full, abs=1e-12)
    assert marginals.spherical(column, [0.3], 0.5, 2.5, 1.2) == pytest.approx(full, abs=1e-12)


def test_spherical_by_quadrature() -> None:
    def density(precision: float) -> float:
        cover = (np.eye(4) + 1 / 0.5) / precision
        columns = [multivariate_normal(np.full(4, m), cover).pdf(x) for m, x in zip(MEAN, X.T, strict=True)]
        return np.prod(columns) * gamma(2.5 / 2, scale=2 / 1.2).pdf(precision)

    exact = quad(density, 0, np.inf, epsabs=0, epsrel=1e-10)[0]
    assert marginals.spherical(X, MEAN, 0.5, 2.5, 1.2) == pytest.approx(np.log(exact), abs=1e-8)


def test_known_covariance_of_one_row() -> None:
    exact = multivariate_normal(MEAN, SCATTER + np.eye(2)).logpdf(X[0])
    assert marginals.known(X[:1], SCATTER, MEAN, np.eye(2)) == pytest.approx(exact, abs=1e-12)
    half = np.array([[X[0, 0], np.nan]])
    exact = multivariate_normal(MEAN[:1], SCATTER[:1, :1] + 1).logpdf(X[0, 0])
    assert marginals.known(half, SCATTER, MEAN, np.eye(2)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("marginal", "values"),
    [
        (lambda x: marginals.poisson(x, 1.7, 2.3), range(60)),
        (lambda x: marginals.bernoulli(x, 1.7, 0.3), range(2)),
        (lambda x: marginals.categorical(x, [0.7, 0.3, 2.0]), range(3)),
    ],
)
def test_discrete_marginals_sum_to_one(marginal, values) -> None:
    total = logsumexp([marginal(np.array([[a], [b]], float)) for a, b in itertools.product(values, repeat=2)])
    assert total == pytest.approx(0, abs=1e-9)


def test_multinomial_sums_to_one() -> None:
    rows = [[a, b, 4 - a - b] for a in range(5) for b in range(5 - a)]
    pairs = itertools.product(rows, repeat=2)
    total = logsumexp([marginals.multinomial(np.array(pair, float), [0.7, 0.3, 2.0]) for pair in pairs])
    assert total == pytest.approx(0, abs=1e-12)


def test_enumeration() -> None:
    def marginal(x: np.ndarray) -> float:
        return marginals.gaussian(x, MEAN, 0.5, 2.5, SCATTER)

    assert log_evidence(X, marginal, [0.7]) == pytest.approx(marginal(X), abs=1e-12)
    # With a concentration that forces all data into one of two components.
    assert log_evidence(X, marginal, [1e-9, 1e-9]) == pytest.approx(marginal(X), abs=1e-7)
    assignments, _ = log_joints(X, lambda x: 0.0, [1.0, 2.0, 3.0])
    assert len(np.unique(assignments, axis=0)) == 3**4
    assert log_evidence(X, lambda x: 0.0, [1.0, 2.0, 3.0]) == pytest.approx(0, abs=1e-12)
    # Two data: p(z₁ = z₂) = Σ δ(δ + 1) / (Δ (Δ + 1)).
    assert same_component(X[:2], lambda x: 0.0, [1.0, 2.0])[0, 1] == pytest.approx((2 + 6) / 12, abs=1e-12)
    bernoulli = [
        log_predictive(X[:3, :1] > 0, np.array([[v]]), lambda x: marginals.bernoulli(x, 1.0, 2.0), [1.0, 1.0])
        for v in (0.0, 1.0)
    ]
    assert logsumexp(bernoulli) == pytest.approx(0, abs=1e-12)
