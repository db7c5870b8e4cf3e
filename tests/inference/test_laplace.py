"""Laplace against exact evidences: where it is exact, how fast it gets there, and where it must refuse."""

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import multivariate_normal

import temperance as tp
from temperance.errors import InvalidParameter, NumericalFailure, UnsupportedMethod

TINY = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])


@pytest.fixture(scope="module")
def gaussian() -> tuple[np.ndarray, np.ndarray, np.ndarray, tp.Fit]:
    """A Gaussian of known covariance and unknown mean: the posterior is Gaussian."""
    x = np.random.default_rng(0).normal([1.0, -2.0], size=(6, 2))
    covariance, spread = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, -0.5], [-0.5, 3.0]])
    prior = tp.Normal(mean=[0.5, 0.0], covariance=spread)
    model = tp.GaussianMixture(1, covariance=covariance, prior=prior)
    return x, covariance, spread, tp.fit(model, x, tp.Laplace(draws=4000))


def test_exact_for_a_gaussian_posterior(gaussian) -> None:
    x, covariance, spread, fit = gaussian
    n = len(x)
    joint = np.kron(np.eye(n), covariance) + np.kron(np.ones((n, n)), spread)
    truth = multivariate_normal.logpdf(x.reshape(-1), np.tile([0.5, 0.0], n), joint)
    assert fit.log_evidence == pytest.approx(truth, abs=1e-9)
    assert fit.converged


def test_draws_are_those_of_the_gaussian(gaussian) -> None:
    x, covariance, spread, fit = gaussian
    precision = np.linalg.inv(spread) + len(x) * np.linalg.inv(covariance)
    centre = np.linalg.solve(
        precision, np.linalg.solve(spread, [0.5, 0.0]) + np.linalg.solve(covariance, x.sum(axis=0))
    )
    draws = np.asarray(fit.model.units.draws_to_user(fit.state.blocks)["components"])[0, :, 0]
    width = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.all(np.abs(draws.mean(axis=0) - centre) < 4.5 * width / np.sqrt(len(draws)))
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(precision), atol=0.1 * width.max() ** 2)
    np.testing.assert_allclose(fit.details["mode"]["components"][0], centre, rtol=1e-9)


@pytest.mark.slow
def test_counts_in_closed_form() -> None:
    """Bernoulli data and a Beta prior: the density over the logit, written out."""
    x = np.array([1, 1, 1, 0, 1, 1, 0])[:, None]
    a, b = 0.5 + x.sum(), 0.7 + (1 - x).sum()
    fit = tp.fit(tp.Mixture(1, "bernoulli", prior=tp.Beta(0.5, 0.7)), x, tp.Laplace())
    top = a / (a + b)
    # f(u) = a log p + b log(1 − p) − log B(½, 0.7), and −f″ = (a + b) p (1 − p).
    closed = (
        a * np.log(top) + b * np.log1p(-top) - betaln(0.5, 0.7) + 0.5 * np.log(2 * np.pi / ((a + b) * top * (1 - top)))
    )
    assert fit.log_evidence == pytest.approx(closed, abs=1e-9)


@pytest.mark.slow
def test_error_shrinks_like_one_over_n() -> None:
    x = np.random.default_rng(1).normal(size=(7, 1))
    model = tp.GaussianMixture(1, prior=tp.NormalWishart([0.0], 1.0, 3.0, [[1.0]]))
    errors = []
    for copies in (1, 10, 100):
        weights = np.full(len(x), copies)
        exact = tp.fit(model, x, tp.VB(), weights=weights).log_evidence  # exact for one component
        errors.append(abs(tp.fit(model, x, tp.Laplace(), weights=weights).log_evidence - exact))
    assert errors[1] < errors[0] / 6
    assert errors[2] < errors[1] / 9


@pytest.fixture(scope="module")
def mixture() -> tp.Fit:
    labels = np.repeat(np.eye(2), (3, 4), axis=0)
    return tp.fit(tp.GaussianMixture(2, prior=PRIOR, init=labels), TINY, tp.Laplace())


def test_close_to_the_enumerated_evidence(mixture: tp.Fit) -> None:
    # −11.082783 is the sum over all 2⁷ assignments; the two orders of the components are one mode each.
    assert mixture.log_evidence + np.log(2) == pytest.approx(-11.082783, abs=0.5)
    assert mixture.converged
    assert any("lacks ln 2! = 0.6931" in note for note in mixture.notes)


@pytest.mark.slow
def test_predictive_averages_over_the_draws(mixture: tp.Fit) -> None:
    angle = np.linspace(-np.pi / 2, np.pi / 2, 2002)[1:-1]
    density = np.exp(mixture.log_predictive(np.tan(angle)[:, None])) / np.cos(angle) ** 2
    assert np.trapezoid(density, angle) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
def test_a_saddle_is_refused() -> None:
    """Components that start alike stay alike: a stationary point, but not a maximum."""
    alike = np.full((7, 2), 0.5)
    with pytest.raises(NumericalFailure, match="is flat or a saddle; try more restarts"):
        tp.fit(tp.GaussianMixture(2, prior=PRIOR, init=alike), TINY, tp.Laplace())


def test_what_it_cannot_treat() -> None:
    with pytest.raises(UnsupportedMethod, match="'weights' of GaussianMixture is a point estimate"):
        tp.fit(tp.GaussianMixture(2, weights="point"), TINY, tp.Laplace())
    with pytest.raises(InvalidParameter, match="draws must be a whole number of at least 1, got 0"):
        tp.Laplace(draws=0)
