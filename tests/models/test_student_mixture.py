"""Robust mixtures against SciPy's Student-t density, quadrature over the scale, and Gaussian mixtures."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import gamma, multivariate_t

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.models import Powers
from temperance.models._model import draw_posterior

RNG = np.random.default_rng(4)
PLANE = np.concatenate([RNG.standard_t(4, (12, 2)), RNG.standard_t(4, (12, 2)) + 6.0])
LINE = np.array([-1.3, 0.2, 0.4, 0.9, 8.0])[:, None]
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.5, dof=3.0, scatter=[[2.0]])


@pytest.fixture(scope="module")
def drawn() -> tuple[Any, Any, dict[str, Any]]:
    """A model of two components, its data, and a draw from its prior."""
    model, data = tp.StudentMixture(2, degrees=(1.5, 4.0, 30.0)).prepare(PLANE)
    return model, data, model.sample_prior(jax.random.key(3))


@pytest.fixture(scope="module")
def fitted() -> tp.Fit:
    return tp.fit(tp.StudentMixture(2, degrees=(1.5, 4.0, 30.0)), PLANE, tp.VB(restarts=2), seed=0, progress=False)


def test_at_a_draw_the_density_is_a_mixture_of_students(drawn: Any) -> None:
    model, data, draw = drawn
    found = model.log_evidence(model.statistics(draw), data.values)
    nu = np.asarray(draw["degrees"] @ model.degrees)
    each = [
        multivariate_t(mean, np.linalg.inv(precision), df).logpdf(data.values)
        for mean, precision, df in zip(*map(np.asarray, draw["components"][:2]), nu, strict=True)
    ]
    exact = logsumexp(np.stack(each) + np.log(np.asarray(draw["weights"]))[:, None], axis=0)
    np.testing.assert_allclose(found, exact, rtol=1e-10)


def log_integral(draw: dict[str, Any], k: int, nu: float, x: np.ndarray, s: float, latent: float) -> float:
    """By quadrature over log u, with the prior of u and the Gaussian factor each to its power."""
    mean, precision = np.asarray(draw["components"].mean[k]), np.asarray(draw["components"].precision[k])
    distance, size = (x - mean) @ precision @ (x - mean), np.linalg.slogdet(precision)[1]
    prior = gamma(nu / 2, scale=2 / nu)

    def density(t: float) -> float:
        gaussian = 0.5 * (size + 2 * (t - np.log(2 * np.pi)) - np.exp(t) * distance)
        return float(np.exp(s * gaussian + latent * (prior.logpdf(np.exp(t)) + t)))

    return float(np.log(quad(density, -60, 6, limit=400, points=(-5, -2, 0, 2), epsabs=0, epsrel=1e-10)[0]))


@pytest.mark.parametrize("powers", [(1.0, 1.0), (0.3, 1.0), (0.4, 0.4)])
def test_the_scale_is_integrated_out_at_every_power(drawn: Any, powers: tuple[float, float]) -> None:
    model, data, draw = drawn
    found = np.asarray(model.log_joint_z(model.statistics(draw), data.values[:1], Powers(*powers)))[0]
    x, nu = np.asarray(data.values[0]), np.asarray(draw["degrees"] @ model.degrees)
    exact = [log_integral(draw, k, nu[k], x, *powers) + powers[1] * np.log(draw["weights"][k]) for k in range(2)]
    np.testing.assert_allclose(found, exact, atol=1e-7)


@pytest.mark.slow
def test_with_a_key_the_derivative_is_a_draw_of_the_scale(drawn: Any) -> None:
    """The value is the same, and the average of many derivatives is that of the integral."""
    model, data, draw = drawn
    m, x = model.statistics(draw), data.values[:3]

    def total(m: Any, key: Any) -> Any:
        return jnp.sum(model.log_evidence(m, x, Powers(0.7, 1.0), key))

    value, exact = jax.value_and_grad(total)(m, None)
    keys = jax.random.split(jax.random.key(0), 4000)
    values, draws = jax.jit(jax.vmap(jax.value_and_grad(total), (None, 0)))(m, keys)
    np.testing.assert_allclose(values, value, rtol=1e-12)
    for many, one in zip(jax.tree.leaves(draws), jax.tree.leaves(exact), strict=True):
        error = np.std(many, axis=0) / np.sqrt(len(keys))
        assert np.std(many) > 0
        np.testing.assert_array_less(np.abs(np.mean(many, axis=0) - one), 4.5 * error + 1e-12)


def test_the_bound_never_falls(fitted: tp.Fit) -> None:
    assert (np.diff(fitted.history["elbo"], axis=0) > -1e-9).all()


def test_the_bound_is_below_the_evidence() -> None:
    """One component on the line: the mean and the precision on a grid, the scales in closed form."""
    degrees = (2.0, 15.0)
    fit = tp.fit(tp.StudentMixture(1, degrees=degrees, prior=PRIOR), LINE, tp.VB(tol=1e-9), seed=0, progress=False)
    s, t = np.linspace(-6, 6, 401), np.linspace(-9, 4, 201)
    mean, log_precision = np.meshgrid(np.sinh(s), t, indexing="ij")
    precision = np.exp(log_precision)
    prior = gamma(1.5).logpdf(precision) + log_precision + 0.5 * np.log(0.5 * precision / (2 * np.pi))
    prior = prior - 0.25 * precision * mean**2 + np.log(np.cosh(s))[:, None] + np.log((s[1] - s[0]) * (t[1] - t[0]))
    each = []
    for nu in degrees:
        root = np.sqrt(precision)
        likelihood = sum(
            multivariate_t(0.0, 1.0, nu).logpdf(((x - mean) * root).ravel()).reshape(mean.shape) + np.log(root)
            for x in LINE[:, 0]
        )
        each.append(logsumexp(prior + likelihood) - np.log(len(degrees)))
    exact = logsumexp(each)
    assert exact - 1.0 < fit.log_evidence < exact


@pytest.mark.slow
def test_the_predictive_density(fitted: tp.Fit) -> None:
    """It integrates to one on the line, and it is the average over draws of the posterior."""
    line = tp.fit(tp.StudentMixture(2, degrees=(1.0, 3.0, 40.0)), LINE, seed=0, progress=False)
    width = 30.0
    angles = (np.arange(4000) + 0.5) / 4000 * np.pi - np.pi / 2  # x = width · tan(angle) covers the whole line
    density = np.exp(line.log_predictive(width * np.tan(angles)[:, None]))
    assert np.sum(density * width / np.cos(angles) ** 2) * np.pi / 4000 == pytest.approx(1.0, abs=1e-3)

    model, x = fitted.model, fitted.model.new_rows(PLANE[:4] * 2.0)

    def one(key: Any) -> Any:
        return model.log_evidence(model.statistics(draw_posterior(key, fitted.state)), x)

    draws = np.exp(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 20000)))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - np.exp(fitted.log_predictive(PLANE[:4] * 2.0))) < 4.5 * error).all()
    assert fitted.sample(0, 5).shape == (5, 2)


def test_the_predictive_density_far_away_is_that_in_other_units() -> None:
    """A cell of 1e139 divided by 2^460 is an ordinary number; squares of the first, over a small scale, are none."""
    x, unit = np.column_stack([LINE, LINE[::-1]]), 2.0**460
    x[1, 0] = 1e139
    model = tp.StudentMixture(2, degrees=(1.0, 4.0))
    far, near = (tp.fit(model, data, tp.VB(max_iter=20), seed=0, progress=False) for data in (x, x / unit))
    expected = near.log_predictive(x / unit) - x.shape[1] * np.log(unit)
    np.testing.assert_allclose(far.log_predictive(x), expected, rtol=1e-9)
    fit = tp.fit(model, np.column_stack([LINE, LINE[::-1]]), tp.VB(max_iter=20), seed=0, progress=False)
    tail = fit.log_predictive(np.array([[1e100, 0.0], [2e100, 0.0], [1e139, 0.0], [2e139, 0.0]]))
    # Far out p(x) falls as a power of the distance, the same power wherever one looks.
    assert np.isfinite(tail).all() and tail[0] - tail[1] == pytest.approx(tail[2] - tail[3], rel=1e-3)


def test_a_saved_fit_loads(fitted: tp.Fit, tmp_path: Any) -> None:
    fitted.save(tmp_path / "fit.tp")
    np.testing.assert_array_equal(tp.load(tmp_path / "fit.tp").log_predictive(PLANE), fitted.log_predictive(PLANE))


def test_outliers_hardly_move_the_means() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([[-4.0, 0.0], [4.0, 0.0]])
    x = np.repeat(truth, 95, axis=0) + rng.normal(size=(190, 2))
    x = np.concatenate([x, rng.uniform(-20, 20, (10, 2))])

    def error(model: Any) -> float:
        fit = tp.fit(model, x, tp.VB(restarts=8), seed=0, progress=False)
        means = np.asarray(fit.posterior["components"].location)
        return float(np.abs(means[np.argsort(means[:, 0])] - truth).max())

    robust = error(tp.StudentMixture(2))
    assert robust < 0.3  # three standard errors of a mean of 95 data
    assert robust < 0.5 * error(tp.GaussianMixture(2))


@pytest.mark.parametrize("nu, low, high", [(2.0, 1.0, 4.0), (np.inf, 12.0, 200.0)])
def test_the_degrees_are_learnt(nu: float, low: float, high: float) -> None:
    rng = np.random.default_rng(1)
    scale = 1.0 if np.isinf(nu) else np.sqrt(rng.gamma(nu / 2, 2 / nu, (400, 1)))
    fit = tp.fit(tp.StudentMixture(1), rng.normal(size=(400, 2)) / scale, seed=0, progress=False)
    assert low <= fit.table()["degrees"][0] <= high


def test_em_finds_a_maximum_of_the_density() -> None:
    fit = tp.fit(tp.StudentMixture(2), PLANE, tp.EM(restarts=2), seed=0, progress=False)
    assert (np.diff(fit.history["elbo"], axis=0) > -1e-9).all()
    model, data = fit.model, fit.data
    draw = {name: block.mode() for name, block in fit.state.blocks.items()}
    np.testing.assert_allclose(fit.log_predictive(PLANE), model.log_evidence(model.statistics(draw), data.values))


@pytest.mark.parametrize("degrees", [0.0, -1.0, (2.0, 1.0), (), ((1.0, 2.0),), "many", np.nan])
def test_degrees_that_make_no_sense_are_refused(degrees: Any) -> None:
    with pytest.raises(InvalidParameter, match="degrees"):
        tp.StudentMixture(2, degrees=degrees)
