"""Generalised regressions against quadrature in two dimensions, an independent EP, and their own simulations."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr
from scipy import optimize, stats
from scipy.integrate import quad
from scipy.special import expit, gammaln, logsumexp, ndtr

import temperance as tp
from temperance.errors import InvalidData, UnsupportedMethod
from temperance.kernels.regression_start import has_many
from temperance.numerics.quadrature import tilted_moments
from tests.matrix.truths import LIKELIHOODS
from tests.tiers import with_slow

N = 12
MODELS: dict[str, Any] = {
    "logistic": tp.LogisticRegression,
    "probit": tp.ProbitRegression,
    "poisson": tp.PoissonRegression,
}
EXACT = tp.VB(tol=1e-10)


def problem(link: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 1))
    a = rng.normal() + rng.normal(scale=1.5) * x[:, 0]
    chance = {"logistic": expit, "probit": ndtr}.get(link)
    return x, (rng.uniform(size=N) < chance(a)).astype(float) if chance else rng.poisson(np.exp(a)).astype(float)


def answers(link: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Forty data with both answers among them. EP itself is up to 0.015 nat off on them, on any grid."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 1))
    chance = {"logistic": expit, "probit": ndtr}[link](0.5 + 1.5 * x[:, 0])
    return x, (rng.uniform(size=40) < chance).astype(float)


class Grid:
    """The exact posterior over the intercept and the slope, with precision ½."""

    def __init__(self, link: str, x: np.ndarray, y: np.ndarray):
        line = np.linspace(-11, 11, 301)  # twice as many points change no digit
        self.weights = np.stack([axis.ravel() for axis in np.meshgrid(line, line)], axis=1)
        self.link = link
        a = self.weights @ np.stack([np.ones(len(x)), x[:, 0]])
        log_p = LIKELIHOODS[link](a, y).sum(axis=1) + stats.norm(0, np.sqrt(2)).logpdf(self.weights).sum(axis=1)
        self.log_evidence = logsumexp(log_p) + 2 * np.log(line[1] - line[0])
        self.share = np.exp(log_p - logsumexp(log_p))

    def yes(self, x: float) -> float:
        return float(self.share @ np.exp(LIKELIHOODS[self.link](self.weights @ [1.0, x], 1.0)))


@pytest.mark.parametrize("link", MODELS)
def test_the_bound_rises_and_is_never_above_the_evidence(link):
    for seed in range(8):
        x, y = problem(link, seed)
        fit = tp.fit(MODELS[link](prior=0.5), (x, y), EXACT)
        assert fit.converged and (np.diff(fit.history["elbo"]) > -1e-9 * abs(fit.log_evidence)).all()
        assert fit.log_evidence < Grid(link, x, y).log_evidence + 1e-9


def numpy_ep(phi: np.ndarray, y: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Minka's EP for probit factors, written from Rasmussen & Williams (3.57–3.65) in weight space."""
    s, p = 2 * y - 1, phi.shape[1]
    tau, nu = np.zeros((2, len(y)))
    for _ in range(60):
        for i in range(len(y)):
            covariance = np.linalg.inv(alpha * np.eye(p) + phi.T @ (tau[:, None] * phi))
            mean = covariance @ (phi.T @ nu)
            v, m = phi[i] @ covariance @ phi[i], phi[i] @ mean
            cavity = 1 / v - tau[i]
            mu = (m / v - nu[i]) / cavity
            z = s[i] * mu / np.sqrt(1 + 1 / cavity)
            ratio = stats.norm.pdf(z) / ndtr(z)
            first = mu + s[i] * ratio / cavity / np.sqrt(1 + 1 / cavity)
            second = 1 / cavity - ratio * (z + ratio) / cavity**2 / (1 + 1 / cavity)
            tau[i], nu[i] = 1 / second - cavity, first / second - mu * cavity
    covariance = np.linalg.inv(alpha * np.eye(p) + phi.T @ (tau[:, None] * phi))
    mean = covariance @ (phi.T @ nu)
    v, m = np.sum(phi @ covariance * phi, axis=1), phi @ mean
    cavity = 1 / v - tau
    mu = (m / v - nu) / cavity
    # ln s̃ = ln Z + A(cavity) − A(q), with A(η) = linear²/(2 precision) − ½ log precision.
    scales = np.log(ndtr(s * mu / np.sqrt(1 + 1 / cavity)))
    scales += 0.5 * (mu**2 * cavity - np.log(cavity) - m**2 / v - np.log(v))
    value = 0.5 * (mean @ np.linalg.solve(covariance, mean) + np.linalg.slogdet(covariance)[1] + p * np.log(alpha))
    return mean, covariance, float(scales.sum() + value)


def test_probit_ep_equals_an_independent_one_and_is_close_to_quadrature():
    for seed in range(3):
        x, y = answers("probit", seed)
        fit = tp.fit(tp.ProbitRegression(prior=0.5), (x, y), tp.EP(tol=1e-11))
        mean, covariance, log_s = numpy_ep(np.column_stack([np.ones(40), x]), y, 0.5)
        assert fit.converged
        assert fit.details["log_s"] == pytest.approx(log_s, abs=1e-8)
        np.testing.assert_allclose(fit.posterior["weights"].location, mean, atol=1e-8)
        np.testing.assert_allclose(fit.posterior["weights"].covariance, covariance, atol=1e-8)
        exact = Grid("probit", x, y).log_evidence
        assert fit.details["log_s"] == pytest.approx(exact, abs=0.02)  # EP's own error
        assert fit.log_evidence == pytest.approx(exact, abs=1e-5)  # with all orders of the correction
        assert fit.corrected_log_evidence == pytest.approx(exact, abs=0.003)


@pytest.mark.slow
@pytest.mark.parametrize("link", MODELS)
def test_the_second_order_is_within_a_hundredth_of_quadrature(link):
    for seed in range(8):
        x, y = problem(link, seed) if link == "poisson" else answers(link, seed)
        fit = tp.fit(MODELS[link](prior=0.5), (x, y), tp.EP(tol=1e-11))
        exact = Grid(link, x, y).log_evidence
        assert abs(fit.corrected_log_evidence - exact) < min(0.01, 0.5 * abs(fit.details["log_s"] - exact))


def test_the_second_order_of_two_data_is_exact_and_needs_a_known_prior():
    x, y = answers("probit", 0)
    fit = tp.fit(tp.ProbitRegression(prior=0.5), (x[:2], y[:2]), tp.EP(tol=1e-12))
    assert fit.corrected_log_evidence == pytest.approx(Grid("probit", x[:2], y[:2]).log_evidence, abs=1e-6)
    with pytest.raises(UnsupportedMethod, match="of order 2, at alpha=1, and for weights with a known prior"):
        tp.fit(tp.ProbitRegression(), (x, y), tp.EP()).corrected_log_evidence  # noqa: B018


@pytest.mark.parametrize("link", with_slow(["logistic", "probit"], "probit"))
def test_ep_predicts_as_quadrature_does(link):
    for seed in range(3):
        x, y = answers(link, seed)
        grid = Grid(link, x, y)
        fit = tp.fit(MODELS[link](prior=0.5), (x, y), tp.EP())
        new = np.array([-3.0, 0.0, 0.7, 4.0])
        np.testing.assert_allclose(fit.predict(new).mean, [grid.yes(value) for value in new], atol=0.01)
        assert fit.log_evidence == pytest.approx(grid.log_evidence, abs=1e-4)


@pytest.mark.parametrize("link", MODELS)
def test_alpha_zero_is_the_best_gaussian_bound(link):
    """Above the bounds that VB uses (the same for counts, whose expectation is exact), and below the evidence."""
    x, y = problem(link, 1)
    best = tp.fit(MODELS[link](prior=0.5), (x, y), tp.MessagePassing(0.0, tol=1e-10)).log_evidence
    used = tp.fit(MODELS[link](prior=0.5), (x, y), EXACT).log_evidence
    assert best < Grid(link, x, y).log_evidence
    assert best == pytest.approx(used, abs=1e-6) if link == "poisson" else best > used + 1e-3


@pytest.mark.parametrize("link", with_slow(MODELS, "probit", "poisson"))
def test_predictive_probabilities_sum_to_one(link):
    x, y = problem(link, 2)
    values = np.arange(2000) if link == "poisson" else np.arange(2)
    for method in (EXACT, tp.EP()):
        fit = tp.fit(MODELS[link](), (x, y), method)
        for at in (0.0, 1.5):
            log_p = fit.log_predictive((np.full((len(values), 1), at), values))
            assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-6)
            if link == "poisson":
                assert np.exp(log_p) @ values == pytest.approx(fit.predict([at]).mean[0], rel=1e-3)


@pytest.mark.slow
def test_relevance_determination_prunes_a_column_of_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = (rng.uniform(size=400) < expit(2.0 * x[:, 0])).astype(float)
    x[:, 1] = rng.permutation(x[:, 1])
    for method in (tp.VB(), tp.EP()):
        table = tp.fit(tp.LogisticRegression(ard=True), (x, y), method).table()
        assert abs(table["mean"][2]) < 0.1 < 1.5 < table["mean"][1] < 2.5
        assert table["alpha"][2] > 20 * table["alpha"][1]


def test_exposure_multiplies_the_rate():
    """A constant rate with known exposures: the sum of the counts over the sum of the exposures."""
    exposure, y = np.array([1.0, 10.0, 100.0, 1000.0]), np.array([2.0, 31.0, 290.0, 3050.0])
    model = tp.PoissonRegression(lambda x: x[:, :0], prior=1e-4, exposure=0)
    fit = tp.fit(model, (exposure[:, None], y))
    assert fit.posterior["weights"].location[0] == pytest.approx(np.log(y.sum() / exposure.sum()), abs=1e-3)
    np.testing.assert_allclose(
        fit.predict([[1.0], [50.0]]).mean, np.array([1, 50]) * y.sum() / exposure.sum(), rtol=1e-3
    )
    with pytest.raises(InvalidData, match="exposure must be positive, found 0"):
        tp.fit(model, ([[0.0], [1.0]], [1, 2]))


@pytest.mark.slow
def test_the_evidence_chooses_the_order_of_a_polynomial():
    rng = np.random.default_rng(3)
    x = np.linspace(-2, 2, 300)
    y = rng.poisson(np.exp(1.0 + 0.8 * x - 0.6 * x**2)).astype(float)
    hill = tp.compare([tp.PoissonRegression(tp.Polynomial(k)) for k in range(5)], (x, y), tp.VB())
    assert hill.best == 2


def test_large_counts_start_close_enough():
    """The first step would overshoot to exp(1000) from weights of zero."""
    x = np.linspace(-1, 1, N)
    fit = tp.fit(tp.PoissonRegression(), (x, np.round(np.exp(9.0 + 2.0 * x))))
    assert fit.converged
    np.testing.assert_allclose(fit.posterior["weights"].location, [9.0, 2.0], atol=0.02)


@pytest.mark.parametrize("mean, variance", [(0.0, 1.0), (-3.0, 400.0), (2.0, 1e-6)])
def test_tilted_moments_of_a_probit_factor(mean, variance):
    """Rasmussen & Williams, 3.58 and 3.85–3.87."""
    found = tilted_moments(log_ndtr, jnp.asarray([mean]), jnp.asarray([variance]))
    z = mean / np.sqrt(1 + variance)
    ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
    assert found.log_z[0] == pytest.approx(stats.norm.logcdf(z), abs=1e-10)
    assert found.mean[0] == pytest.approx(mean + variance * ratio / np.sqrt(1 + variance), rel=1e-9)
    expected = variance - variance**2 * ratio / (1 + variance) * (z + ratio)
    assert found.variance[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("mean", "variance"), [(3.0, 0.5), (40.0, 9.0), (800.0, 4.0), (1e6, 1e10), (1e12, 1e30)])
def test_tilted_moments_of_a_count_whose_rate_overflows(mean: float, variance: float) -> None:
    """e^μ is no float from μ = 710 on; the integrand is one, and SciPy integrates it around its mode."""

    def log_integrand(a: Any) -> Any:
        return 7.0 * a - np.exp(a) - gammaln(8.0) - 0.5 * (a - mean) ** 2 / variance

    with np.errstate(over="ignore"):
        mode = optimize.brentq(lambda a: 7.0 - np.exp(a) - (a - mean) / variance, -100.0, 700.0)
        top, width = log_integrand(mode), 1.0 / np.sqrt(np.exp(mode) + 1.0 / variance)
        z, _ = quad(
            lambda t: np.exp(log_integrand(mode + width * t) - top), -40.0, 40.0, limit=500, points=[-8.0, 0.0, 8.0]
        )
    exact = top + np.log(z * width) - 0.5 * np.log(2.0 * np.pi * variance)
    factor = lambda a: 7.0 * a - jnp.exp(a) - gammaln(8.0)  # noqa: E731
    found = tilted_moments(factor, jnp.asarray([mean]), jnp.asarray([variance]))
    assert found.log_z[0] == pytest.approx(exact, rel=1e-9)
    assert found.mean[0] == pytest.approx(mode, abs=2.0 * width) and found.variance[0] > 0.0


def test_mistakes_are_one_sentence():
    x = np.zeros((2, 1))
    with pytest.raises(InvalidData, match="y must be 0 or 1 for LogisticRegression, got 2"):
        tp.fit(tp.LogisticRegression(), (x, [0, 2]))
    with pytest.raises(InvalidData, match="y must be counts"):
        tp.fit(tp.PoissonRegression(), (x, [0, 0.5]))
    with pytest.raises(InvalidData, match="offset is column 3 of X"):
        tp.fit(tp.ProbitRegression(offset=3), (x, [0, 1]))
    with pytest.raises(UnsupportedMethod, match="the double loop is for mixtures"):
        tp.fit(tp.ProbitRegression(), (x, [0, 1]), tp.EP(double_loop=True))
    with pytest.raises(UnsupportedMethod, match="no bound on the likelihood of PoissonRegression"):
        tp.fit(tp.PoissonRegression(), (x, [0, 1]), tp.VB(batches=2))


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_a_fit_to_many_rows_ends_where_an_update_changes_nothing(scale):
    """The start is next to it, also where the classes are so far apart that sweeps creep."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(17_000, 64))
    y = (rng.uniform(size=17_000) < expit(x @ rng.normal(scale=scale / 8, size=64))).astype(float)
    assert has_many(x)
    fit = tp.fit(tp.LogisticRegression(prior=1.0), (x, y), tp.VB())
    plain = tp.fit(tp.LogisticRegression(prior=1.0), (x, y), tp.VB(), engine="plain")
    assert fit.converged and fit.log_evidence - fit.history["elbo"][0] < 0.2
    assert fit.log_evidence == pytest.approx(plain.log_evidence, rel=2e-6)
    # Jaakkola and Jordan's update, written out.
    phi = np.column_stack([np.ones(len(x)), x])
    mean, covariance = np.asarray(fit.posterior["weights"].location), np.asarray(fit.posterior["weights"].covariance)
    xi = np.sqrt((phi @ mean) ** 2 + np.sum(phi @ covariance * phi, axis=1))
    precision = np.eye(65) + (phi.T * (np.tanh(xi / 2) / (2 * xi))) @ phi
    apart = np.linalg.solve(precision, phi.T @ (y - 0.5)) - mean
    assert apart @ precision @ apart < 2.0 * fit.method.tol * abs(fit.log_evidence)
    bound = (
        np.log(expit(xi)).sum()
        - 0.5 * xi.sum()
        + phi.T @ (y - 0.5) @ mean
        - 0.5 * np.trace(mean[:, None] * mean + covariance)
        + 0.5 * np.linalg.slogdet(covariance)[1]
        + 0.5 * 65
    )
    assert fit.log_evidence == pytest.approx(bound, abs=1e-4)


def test_the_moments_of_a_count_are_those_of_a_lognormal_rate() -> None:
    """And never NaN, where a mean is infinite and known, or zero and of any size."""
    mean, variance = np.array([0.3, -2.0, 3.0, -700.0, 1.5]), np.array([0.5, 4.0, 1e-12, 9.0, 0.0])
    found = tp.PoissonRegression().target_moments(jnp.asarray(mean), jnp.asarray(variance))
    rate = np.exp(mean + variance / 2)
    spread = [
        stats.lognorm(np.sqrt(v), scale=np.exp(m)).var() if v else 0.0 for m, v in zip(mean, variance, strict=True)
    ]
    np.testing.assert_allclose(found, [rate, rate + spread], rtol=1e-10)
    far = tp.PoissonRegression().target_moments(jnp.array([1e3, 1e12, -1e12, -1e4]), jnp.array([0.0, 1e9, 10.0, 2e4]))
    np.testing.assert_array_equal(far, [[np.inf, np.inf, 0.0, 1.0], [np.inf, np.inf, 0.0, np.inf]])
