"""Variational tempering: normalisers against quadrature and enumeration, and a bound that rises."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma, logsumexp, roots_jacobi, softmax
from scipy.stats import beta as beta_distribution
from scipy.stats import multivariate_normal, norm

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from temperance.inference.variational.local_tempered import LVT
from temperance.inference.variational.tempered import VT
from temperance.models._blocks import expected_power, gaussian_heat
from temperance.models._data import make_data
from tests.inference.steps import walk_locally

rng = np.random.default_rng(2)
T = np.array([1.0, 1.3, 2.5, 9.0])


def data(n: int, d: int) -> Any:
    return make_data(np.zeros((n, d)))


def test_factorial_mixture_values() -> None:
    """Of an independent quadrature (errata to the paper)."""
    for n, d, k, value in ((1, 1, 2, 1.109348), (3, 2, 4, 6.656090)):
        model = tp.FactorialMixture(k, noise=0.1, probability=0.3)
        found = model.tempering.log_normaliser(T, data(n, d))
        assert found.log[2] == pytest.approx(value, abs=5e-7)
        assert found.log[0] == pytest.approx(0.0, abs=1e-12) and (found.error == 0).all()


def test_factorial_mixture_by_quadrature() -> None:
    """One datum of one pixel, two factors with given means: the integral does not depend on them."""
    model = tp.FactorialMixture(2, noise=0.3, probability=[0.2, 0.7])
    means, p = np.array([0.4, -1.1]), np.array([0.2, 0.7])

    def bracket(x: float, s: float) -> float:
        states = product((0, 1), repeat=2)
        density = [np.prod(np.where(z, p, 1 - p)) * norm(np.dot(z, means), np.sqrt(0.3)).pdf(x) for z in states]
        return float(np.sum(np.array(density) ** s))

    wanted = [np.log(quad(bracket, -20, 20, args=(1 / t,), limit=200)[0]) for t in T]
    np.testing.assert_allclose(model.tempering.log_normaliser(T, data(1, 1)).log, wanted, atol=1e-7)


def test_unknown_probabilities_by_quadrature() -> None:
    a, b, n = 1.5, 0.8, 6
    known = tp.FactorialMixture(1, noise=0.3, probability=0.5)
    model = tp.FactorialMixture(1, noise=0.3, probability=tp.Beta(a, b))
    gaussian = known.tempering.log_normaliser(T, data(n, 2)).log - n * np.log(2 * 0.5 ** (1 / T))
    integral = [
        quad(lambda p, s=1 / t: beta_distribution(a, b).pdf(p) * (p**s + (1 - p) ** s) ** n, 0, 1)[0] for t in T
    ]
    np.testing.assert_allclose(
        model.tempering.log_normaliser(T, data(n, 2)).log, gaussian + np.log(integral), atol=1e-6
    )


@pytest.mark.parametrize("delta", [[1.0, 1.0, 1.0], [0.7, 2.0, 1.2]])
def test_mixtures_by_quadrature_over_the_weights(delta: list[float]) -> None:
    n, covariance = 4, np.array([[1.0, 0.3], [0.3, 0.5]])
    pair = tp.KnownCovarianceGaussian(covariance)
    model = tp.Mixture(3, pair, prior=tp.Normal(np.zeros(2), np.eye(2)), concentration=delta)
    found = model.tempering.log_normaliser(T, data(n, 2)).log
    first, share_first = beta_nodes(delta[0], delta[1] + delta[2])
    second, share_second = beta_nodes(delta[1], delta[2])
    a, b = first[:, None], second[None]
    determinant = np.linalg.det(2 * np.pi * covariance)
    for t, value in zip(T, found, strict=True):
        s = 1 / t
        brackets = (a**s + (b * (1 - a)) ** s + ((1 - b) * (1 - a)) ** s) ** n
        gaussian = 0.5 * (1 - s) * np.log(determinant) - np.log(s)
        assert value == pytest.approx(n * gaussian + np.log(share_first @ brackets @ share_second), abs=1e-4)


def beta_nodes(a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss's quadrature under Beta(a, b)."""
    x, w = roots_jacobi(300, b - 1, a - 1)
    return (x + 1) / 2, w / w.sum()


@pytest.mark.parametrize(
    "model",
    [
        tp.FactorialMixture(2, noise=0.3, probability=0.2),
        tp.FactorialMixture(2, noise=0.3),
        tp.Mixture(2, tp.KnownCovarianceGaussian(np.eye(2)), prior=tp.Normal(np.zeros(2), np.eye(2))),
        tp.FactorAnalysis(1, noise=[0.3, 0.4]),
    ],
    ids=["factorial", "unknown probabilities", "mixture", "factor analysis"],
)
def test_a_weight_of_two_is_two_data(model: Any) -> None:
    weighted = make_data(np.zeros((3, 2)), np.array([2.0, 0.0, 3.0]))
    one, other = (model.tempering.log_normaliser(T, each).log for each in (weighted, data(5, 2)))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_many_data_in_many_components_stay_exact() -> None:
    """Two components by the sum over how many data are in the first; and a bound: 1 ≤ Σ π^s ≤ K^(1 − s)."""
    pair = tp.KnownCovarianceGaussian([[1.0 / (2 * np.pi)]])  # then ∫ N^s dx = s^(−1/2)
    n = 3000
    for k in (2, 8):
        model = tp.Mixture(k, pair, prior=tp.Normal([0.0], [[1.0]]))
        found = model.tempering.log_normaliser(T, data(n, 1)).log - 0.5 * n * np.log(T)
        assert found[0] == pytest.approx(0.0, abs=1e-6)
        assert (found[1:] > 0).all() and (found <= n * (1 - 1 / T) * np.log(k) + 1e-6).all()
        if k == 2:
            grid = (np.arange(200_000) + 0.5) / 200_000
            for t, value in zip(T, found, strict=True):
                logs = n * np.log(grid ** (1 / t) + (1 - grid) ** (1 / t))
                assert value == pytest.approx(np.log(np.mean(np.exp(logs - logs.max()))) + logs.max(), abs=1e-5)


def test_the_analytic_normaliser_of_the_paper_is_that_of_a_prior_without_variance() -> None:
    """(15), its sign corrected: N (a(β*/T) − a(β*)/T) at the mode, here N log Σ_k π_k^(1/T) with π = ½."""
    pair, n = tp.KnownCovarianceGaussian([[1.0 / (2 * np.pi)]]), 100
    apart = []
    for concentration in (2.0, 20.0, 200.0, 2000.0):
        model = tp.Mixture(2, pair, prior=tp.Normal([0.0], [[1.0]]), concentration=concentration)
        found = model.tempering.log_normaliser(T, data(n, 1)).log - 0.5 * n * np.log(T)
        apart.append(n * np.log(2 * 0.5 ** (1 / T)) - found)
    assert (np.abs(np.array(apart)[:, 0]) < 1e-6).all()
    assert (np.diff(np.array(apart)[:, 1:], axis=0) < 0).all() and (np.array(apart)[:, 1:] > 0).all()
    assert np.array(apart)[0, 1:].min() > 0.5 > 0.01 > np.array(apart)[-1, 1:].max()


@pytest.mark.slow
def test_bernoulli_mixtures_by_monte_carlo_with_an_honest_error() -> None:
    model = tp.Mixture(2, "bernoulli", prior=tp.Beta([2.0, 1.0], [1.0, 3.0]), columns=2)
    x = np.array([[0, 1], [1, 1], [0, 0]], dtype=float)
    model, rows = model.prepare(x)
    found = model.tempering.log_normaliser(T, rows)
    assert found.samples > 0 and found.log[0] == pytest.approx(0.0, abs=1e-12)
    many = np.random.default_rng(9)
    w = many.dirichlet([1, 1], 400_000)
    p = many.beta([2.0, 1.0], [1.0, 3.0], (400_000, 2, 2))
    for t, value, error in zip(T[1:], found.log[1:], found.error[1:], strict=True):
        brackets = np.sum(w ** (1 / t) * np.prod(p ** (1 / t) + (1 - p) ** (1 / t), axis=2), axis=1) ** 3
        wanted = np.log(brackets.mean())
        spread = np.hypot(error, brackets.std() / brackets.mean() / np.sqrt(len(brackets)))
        assert 0 < error < 0.02 and abs(value - wanted) < 4 * spread


def toy(n: int = 150) -> np.ndarray:
    factors = np.array([[2.0, 2, 0, 0, 0, 0], [0, 0, 2, 2, 0, 0], [0, 0, 0, 0, 2, 2]])
    return (rng.random((n, 3)) < 0.4) @ factors + np.sqrt(0.1) * rng.normal(size=(n, 6))


def test_the_tempered_bound_rises_and_the_temperature_falls_to_one() -> None:
    model = tp.FactorialMixture(3, noise=0.1, probability=0.4, factor_variance=2.0)
    fit = tp.fit(model, toy(), VT(method=tp.VB(restarts=4), length=60))
    bounds = fit.history["tempered_elbo"][:60]
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all() and bounds[-1] > bounds[0] + 1.0
    assert fit.history["temperature"][0] == pytest.approx(VT().grid().mean())
    assert (fit.history["temperature"][60:] == 1).all() and fit.converged
    # T is a scale of the noise, known from 900 numbers to about √(2/900).
    assert fit.details["temperature"] < 1.06
    assert all("chance alone can explain it" in note for note in fit.notes)
    assert fit.details["temperatures"].shape == (4,)


@pytest.mark.slow
def test_a_model_that_does_not_fit_stays_warm_and_says_so() -> None:
    model = tp.FactorialMixture(1, noise=0.1, probability=0.4, factor_variance=2.0)
    fit = tp.fit(model, toy(), VT(method=tp.VB(restarts=4), length=60))
    assert fit.details["temperature"] > 2
    assert "the optimum is poor, or the model does not fit" in fit.notes[-1]
    assert (fit.history["temperature"][60:] == 1).all()
    little = tp.fit(model, toy(), VT(np.linspace(1, 1.03, 100), tp.VB(restarts=4), length=60))
    assert 1.01 < little.details["temperature"] <= 1.03 and "not at 1" in little.notes[-1]


@pytest.mark.slow
def test_outliers_have_a_temperature_of_their_own() -> None:
    x = np.concatenate([rng.normal(-3, 1, (60, 1)), rng.normal(3, 1, (60, 1)), [[14.0], [-15.0]]])
    pair = tp.KnownCovarianceGaussian([[1.0]])
    model = tp.Mixture(2, pair, prior=tp.Normal([0.0], [[100.0]]), init=np.array([[-3.0], [3.0]]))
    fit = tp.fit(model, x, LVT(length=30))
    powers = fit.details["inverse_temperature"]
    assert powers.shape == (122,) and ((powers > 0) & (powers <= 1)).all()
    assert powers[-2:].max() < 0.1 < np.median(powers[:-2])
    # Far from its component r ∝ s^½ exp{−s M/2} on the grid: the same numbers written out.
    grid = np.linspace(1.0, 0.01, 100)
    hot = tp.fit(model, x, LVT(length=30, method=tp.VB(max_iter=1)))
    assert hot.history["temperature"][0] == pytest.approx(1 / grid.mean())
    assert fit.converged and (fit.history["temperature"][30:] == 1).all()


@pytest.mark.parametrize("shapes", [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (0.5, 0.5)])
def test_a_continuous_prior_of_local_temperatures(shapes: tuple[float, float]) -> None:
    """E[s] ∝ ∫ s Beta(s) s^(d/2) exp{−s E} ds of a Gaussian datum of energy E, whose prior quantiles stand for."""
    method, width = LVT(prior=tp.Beta(*shapes)), 2
    assert method == LVT(prior=tp.Beta(*shapes)) != LVT()
    heat = gaussian_heat(1.0 / method.grid(), width)
    each = lambda distance: (jnp.array([distance]), width, jnp.ones(1))  # noqa: E731

    def integral(power: float, distance: float) -> float:
        tilted = lambda s: s ** (power + width / 2) * np.exp(-s * distance)  # noqa: E731
        return quad(lambda u: tilted(beta_distribution.ppf(u, *shapes)), 0.0, 1.0, limit=400)[0]

    for distance in (0.0, 1.0, 4.0, 12.0):
        exact = integral(1.0, distance) / integral(0.0, distance)
        assert expected_power(heat, *each(distance)).item() == pytest.approx(exact, rel=5e-3)


def test_a_fit_with_a_continuous_prior_melts_outliers() -> None:
    x = np.concatenate([rng.normal(-3, 1, (20, 1)), rng.normal(3, 1, (20, 1)), [[14.0], [-15.0]]])
    pair = tp.KnownCovarianceGaussian([[1.0]])
    model = tp.Mixture(2, pair, prior=tp.Normal([0.0], [[100.0]]), init=np.array([[-3.0], [3.0]]))
    powers = tp.fit(model, x, LVT(prior=tp.Beta(2.0, 1.0), length=20)).details["inverse_temperature"]
    assert powers[-2:].max() < 0.2 < 0.5 < np.median(powers[:-2])
    for given, sentence in ((tp.Gamma(1.0, 1.0), "prior must be a tp.Beta over 1/T"), (0.5, "prior must be a tp.Beta")):
        with pytest.raises(InvalidParameter, match=sentence):
            LVT(prior=given)
    with pytest.raises(InvalidParameter, match="give temperatures or their prior, not both"):
        LVT(T, prior=tp.Beta(2.0, 1.0))


def test_a_walk_with_powers_written_out() -> None:
    """One walk of a mixture whose covariance is known: E[1/T] of each datum, energies, bound and counts."""
    many = np.random.default_rng(5)
    x, powers, grid = many.normal(0, 3, (40, 2)), many.uniform(0.2, 1.0, 40), np.linspace(1.0, 0.05, 20)
    covariance = np.array([[1.0, 0.3], [0.3, 0.8]])
    model = tp.Mixture(3, tp.KnownCovarianceGaussian(covariance), prior=tp.Normal(np.zeros(2), 9.0 * np.eye(2)))
    model, rows = model.prepare(x)
    centres, spread, delta = many.normal(0, 3, (3, 2)), 0.2 * np.eye(2), np.array([3.0, 1.0, 2.0])
    blocks = {
        "weights": tp.Dirichlet(jnp.asarray(delta)),
        "components": tp.Normal(jnp.asarray(centres), jnp.asarray(np.tile(spread, (3, 1, 1)))),
    }
    walked = jax.jit(lambda powers: walk_locally(model, blocks, rows, powers, grid, {}, 1))(jnp.asarray(powers))
    inside = np.asarray(rows.values)
    log_pi = digamma(delta) - digamma(delta.sum())
    observed = np.stack([multivariate_normal(c, covariance).logpdf(inside) for c in centres], axis=1)
    observed = observed - 0.5 * np.trace(np.linalg.solve(covariance, spread))
    shares = softmax(powers[:, None] * (observed + log_pi), axis=1)
    np.testing.assert_allclose(walked.energy, np.sum(shares * (observed + log_pi), axis=1), rtol=1e-10)
    assert walked.value == pytest.approx(logsumexp(powers[:, None] * (observed + log_pi), axis=1).sum(), rel=1e-12)
    # log c(s) of a Gaussian: (d/2)(1 − s) log 2π + ½ (1 − s) log|Σ| − (d/2) log s.
    volume = np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]
    logits = np.sum(shares * observed, axis=1)[:, None] * grid - ((1 - grid) * volume - np.log(grid))
    wanted = softmax(logits, axis=1) @ grid
    np.testing.assert_allclose(walked.power, wanted, atol=1e-6)
    np.testing.assert_allclose(walked.messages["weights"].log, wanted @ shares, atol=1e-5)


@pytest.mark.parametrize(("width", "error"), [(1, 1e-7), (64, 1e-6), (784, 1e-5)])
def test_powers_between_the_entries_of_a_table(width: int, error: float) -> None:
    grid = np.linspace(1.0, 0.01, 100)
    found = gaussian_heat(grid, width)
    distance = np.append(width * np.geomspace(1e-3, 1e6, 1000), [0.0, np.inf])
    wanted = softmax(0.5 * width * np.log(grid) - np.minimum(distance, 1e15)[:, None] * grid, axis=1) @ grid
    np.testing.assert_allclose(
        expected_power(found, jnp.asarray(distance), width, jnp.ones(len(distance))), wanted, rtol=0, atol=error
    )


def test_what_cannot_be_tempered_says_what_can() -> None:
    x = rng.normal(size=(20, 2))
    for attempt, message in (
        (lambda: tp.fit(tp.GaussianMixture(2), x, VT()), r"needs known covariances.*infinite; use tp\.Annealed"),
        (lambda: tp.fit(tp.FactorialMixture(2), x, VT()), "needs known noise"),
        (
            lambda: tp.fit(tp.LinearRegression(), (x, x[:, 0]), VT()),
            r"needs known noise.*tp\.Annealed",
        ),
        (
            lambda: tp.fit(tp.Mixture(2, "poisson"), (x > 0).astype(float), LVT()),
            r"LVT is for Gaussian, Bernoulli.*not for Mixture of Poisson; use",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(2, covariance="diag", missing="marginalise"), x, LVT()),
            "not for GaussianMixture of ScalarGaussian with missing values",
        ),
    ):
        with pytest.raises(UnsupportedMethod, match=message):
            attempt()


def test_methods_are_the_same_whatever_holds_their_temperatures() -> None:
    for kind in (VT, LVT):
        one, other = kind(np.linspace(1, 3, 5)), kind([1, 1.5, 2, 2.5, 3])
        assert one == other and hash(one) == hash(other) and one != kind()
    assert tp.Annealed(schedule=np.array([3.0, 2.0])) == tp.Annealed(schedule=[3, 2]) != tp.Annealed()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temperatures": [2.0, 3.0]}, "temperatures must increase from 1"),
        ({"temperatures": [1.0, 3.0, 2.0]}, "temperatures must increase from 1"),
        ({"temperatures": 2.0}, "temperatures must be a row of numbers of at least 1, got 2.0"),
        ({"temperatures": [1.0, [2.0]]}, "temperatures must be a row of numbers of at least 1"),
        ({"temperatures": [1.0, np.nan]}, "temperatures must be finite and at least 1, found nan"),
        ({"method": tp.EM()}, r"method must be a tp\.SVI, or a tp\.VB without batches"),
        ({"method": tp.SVI(), "length": 0.0}, "length must be a finite number above 0"),
        ({"length": 0}, "length must be a whole number of at least 1, got 0"),
    ],
)
def test_mistakes(options: dict, sentence: str) -> None:
    for kind in (VT, LVT):
        with pytest.raises(InvalidParameter, match=sentence):
            kind(**options)
