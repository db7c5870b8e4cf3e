"""State space against dense Gaussians over whole series, classical estimates for the Nile, and simulated truths."""

from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, norm

import temperance as tp
from temperance.diagnostics.geweke import calibration_test, joint_test
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.models import Powers

RNG = np.random.default_rng(0)
LONG, SHORT = RNG.normal(size=(5, 2)) * [1.0, 3.0] + [2.0, -1.0], RNG.normal(size=(3, 2))
LONG[1, 0] = LONG[2] = np.nan
CONTROLS = [RNG.normal(size=(5, 1)), RNG.normal(size=(3, 1))]


@cache
def controlled() -> tuple[Any, Any, Any]:
    """Two states, two series of unequal length with holes, one control; a draw of the prior."""
    model, data = tp.StateSpace(2, n_controls=1, missing="marginalise").prepare(([LONG, SHORT], CONTROLS))
    return model, data, eqx.filter_jit(model.sample_prior)(jax.random.key(2))


def dense(model: Any, draw: Any, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of all states of a series, and the map and offsets of what is seen of them."""
    t, k = len(x), model.n_states
    a, c = np.asarray(draw["dynamics"]), np.asarray(draw["observation"])
    mean, covariance = np.zeros((t, k)), np.zeros((t, k, t, k))
    covariance[0, :, 0] = np.diag(np.asarray(model.start))
    for s in range(1, t):
        mean[s] = a[:, :k] @ mean[s - 1] + a[:, k:] @ u[s]
        for r in range(s):
            covariance[s, :, r] = a[:, :k] @ covariance[s - 1, :, r]
            covariance[r, :, s] = covariance[s, :, r].T
        covariance[s, :, s] = a[:, :k] @ covariance[s - 1, :, s - 1] @ a[:, :k].T + np.eye(k)
    seen = np.kron(np.eye(t), c[:, :k])
    offset = np.concatenate([c[:, k:-1] @ u[s] + c[:, -1] for s in range(t)])
    return mean.ravel(), covariance.reshape(t * k, t * k), seen, offset


def test_at_a_draw_it_is_the_density_and_the_smoother_and_filter_are_the_dense_solve() -> None:
    model, data, draw = controlled()
    m = model.statistics(draw)
    found = eqx.filter_jit(model.log_evidence)(m, data.values)
    potentials = eqx.filter_jit(model.potentials)(m, data.values)
    z, so_far = eqx.filter_jit(lambda p: (p.moments(), p.filtered()))(potentials)
    for index, (series, u) in enumerate(zip((LONG, SHORT), CONTROLS, strict=True)):
        x = (series - np.asarray(model.centre)).ravel()
        mean, covariance, loadings, offset = dense(model, draw, series, u)
        total = loadings @ covariance @ loadings.T + np.diag(np.tile(1 / np.asarray(draw["noise"]), len(series)))
        seen = ~np.isnan(x)
        part, there = total[np.ix_(seen, seen)], (loadings @ mean + offset)[seen]
        np.testing.assert_allclose(found[index], multivariate_normal(there, part).logpdf(x[seen]), rtol=1e-9)
        gain = covariance @ loadings[seen].T @ np.linalg.inv(part)
        smoothed = (mean + gain @ (x[seen] - there)).reshape(-1, 2)
        np.testing.assert_allclose(z.mean[index, : len(series)], smoothed, rtol=1e-8, atol=1e-10)
        left = (covariance - gain @ loadings[seen] @ covariance).reshape(len(series), 2, len(series), 2)
        for t in range(len(series)):
            np.testing.assert_allclose(z.covariance[index, t], left[t, :, t], rtol=1e-8, atol=1e-10)
            # The same of a series that ends here.
            known, here = seen & (np.arange(len(x)) < 2 * (t + 1)), slice(2 * t, 2 * t + 2)
            gain = covariance[here] @ loadings[known].T @ np.linalg.inv(total[np.ix_(known, known)])
            expected = mean[here] + gain @ (x - loadings @ mean - offset)[known]
            np.testing.assert_allclose(so_far.mean[index, t], expected, rtol=1e-8, atol=1e-10)
            expected = covariance[here, here] - gain @ loadings[known] @ covariance[:, here]
            np.testing.assert_allclose(so_far.covariance[index, t], expected, rtol=1e-8, atol=1e-10)


def test_powers_temper_what_they_should() -> None:
    """(β, 1): the noise of what was seen grows by 1/β, with the change of its constant."""
    model, data, draw = controlled()
    evaluate = eqx.filter_jit(lambda m, powers: model.log_evidence(m, data.values, powers))
    m, beta = model.statistics(draw), 0.3
    tempered = evaluate(m, Powers(jnp.asarray(beta), jnp.asarray(1.0)))
    noisier = model.statistics(draw | {"noise": draw["noise"] * beta})
    seen = (~np.isnan(np.asarray(data.values.x))).sum(axis=1)
    # N(x | z, 1/τ)^β = N(x | z, 1/(βτ)) · (τ/2π)^(β/2) (βτ/2π)^(−½)
    tau = np.asarray(draw["noise"])
    change = seen @ (0.5 * beta * np.log(tau / (2 * np.pi)) - 0.5 * np.log(beta * tau / (2 * np.pi)))
    whole = evaluate(noisier, Powers(jnp.asarray(1.0), jnp.asarray(1.0)))
    np.testing.assert_allclose(tempered, np.asarray(whole) + change, rtol=1e-9)


@pytest.mark.slow
def test_expected_statistics_are_the_average_of_drawn_ones() -> None:
    model, data, draw = controlled()
    m = model.statistics(draw)

    def messages(m: Any, key: Any = None) -> Any:
        return jax.grad(lambda m: jnp.sum(model.log_evidence(m, data.values, key=key)))(m)

    expected = jax.jit(messages)(m)
    drawn = jax.jit(jax.vmap(lambda key: messages(m, key)))(jax.random.split(jax.random.key(0), 4000))

    def compare(mean: Any, each: Any) -> None:
        each = np.asarray(each)
        error = each.std(axis=0) / np.sqrt(len(each))
        assert (np.abs(each.mean(axis=0) - mean) <= 5 * error + 1e-9 * np.abs(mean)).all()

    jax.tree.map(compare, expected, drawn)


# ---- series with known matrices -----------------------------------------------------------------------------


def local_level(rng: np.random.Generator, t: int, level: float, noise: float) -> np.ndarray:
    return (5.0 + np.cumsum(rng.normal(0, np.sqrt(level), t)) + rng.normal(0, np.sqrt(noise), t))[:, None]


@cache
def fitted() -> tuple[tp.Fit, np.ndarray]:
    x = local_level(np.random.default_rng(4), 60, 0.5, 1.0)
    x[[20, 21, 22, 40]] = np.nan
    return tp.fit(tp.StateSpace.local_level(missing="marginalise"), x, tp.VB(max_iter=300)), x


def test_known_variances_give_the_exact_evidence_and_forecast() -> None:
    """Nothing is left to learn but the states: everything is Gaussian."""
    _, x = fitted()
    options = {"noise": 1.0, "state_noise": tp.Gamma(1e6, 0.5e6), "start": 30.0, "centre": 0.0, "scale": 1.0}
    fit = tp.fit(tp.StateSpace.local_level(missing="marginalise", **options), x, tp.VB(tol=1e-9))
    t = np.arange(60)
    prior = 30.0 + 0.5 * np.minimum(t[:, None], t[None])
    seen = ~np.isnan(x[:, 0])
    total = (prior + np.eye(60))[np.ix_(seen, seen)]
    exact = multivariate_normal(np.zeros(seen.sum()), total).logpdf(x[seen, 0])
    assert fit.log_evidence == pytest.approx(exact, abs=2e-3) and fit.log_evidence < exact
    gain = prior[:, seen] @ np.linalg.inv(total)
    states = fit.smooth()
    np.testing.assert_allclose(states.mean[:, 0], gain @ x[seen, 0], rtol=1e-4)
    np.testing.assert_allclose(states.variance[:, 0], np.diag(prior - gain @ prior[seen]), rtol=1e-4)
    future = fit.forecast(3)
    variance = states.variance[-1, 0] + 0.5 * np.arange(1, 4) + 1.0
    np.testing.assert_allclose(future.variance[:, 0], variance, rtol=5 * np.sqrt(2 / 1000))
    assert (np.abs(future.mean[:, 0] - states.mean[-1, 0]) < 5 * np.sqrt(variance / 1000)).all()
    low, high = future.interval(0.9)
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.95) * np.sqrt(variance)[:, None], rtol=0.15)


@pytest.mark.slow
def test_answers_are_in_the_users_coordinates(tmp_path: Path) -> None:
    fit, x = fitted()
    assert fit.converged and (np.diff(fit.history["elbo"]) > -1e-9).all()
    states, filled, so_far = fit.smooth(), fit.impute(x), fit.filter()
    np.testing.assert_allclose(so_far.mean[-1], states.mean[-1], rtol=1e-9)
    assert (so_far.variance[:-1] > states.variance[:-1]).all()
    holes = np.isnan(x)
    assert np.nanmean(np.abs(states.mean - x)) < 1.0  # a level of about five
    np.testing.assert_allclose(filled.mean[holes], states.mean[holes], rtol=1e-9)
    noise = fit.posterior["noise"]
    expected = states.variance[holes] + noise.rate / (noise.shape - 1)
    np.testing.assert_allclose(filled.variance[holes], expected, rtol=1e-9)
    fit.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.smooth().mean, states.mean)
    np.testing.assert_array_equal(again.forecast(3).draws, fit.forecast(3).draws)
    assert [row for row in fit.table()["noise of"]] == ["state 1", "column 1"]


@pytest.mark.slow
def test_the_predictive_density_of_a_new_step_integrates_to_one() -> None:
    fit = tp.fit(tp.StateSpace(1), RNG.normal(size=(30, 1)), tp.VB(max_iter=5), seed=0)
    grid = np.linspace(-200.0, 200.0, 20_001)
    density = np.exp(fit.log_predictive([np.full((1, 1), x) for x in grid]))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


def test_local_trend_is_the_dense_gaussian() -> None:
    """x_t = level_t + noise, level and slope summed up by hand from their increments."""
    options: dict[str, Any] = {"noise": 0.5, "start": [4.0, 0.3], "centre": 0.0, "scale": 1.0}
    model, data = tp.StateSpace.local_trend(state_noise=tp.Gamma([3.0, 3.0], 1.0), **options).prepare(SHORT[:, :1])
    m = model.statistics({"state_noise": jnp.asarray([2.0, 5.0])})
    # Of the first level and slope, then of the increments of both at steps 2 and 3; slope 2 moves level 3.
    level = np.array([[1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 2, 1, 1, 1, 0]], dtype=float)
    variances = np.array([4.0, 0.3, 1 / 2, 1 / 5, 1 / 2, 1 / 5])
    total = level * variances @ level.T + 0.5 * np.eye(3)
    expected = multivariate_normal(np.zeros(3), total).logpdf(SHORT[:, 0])
    np.testing.assert_allclose(eqx.filter_jit(model.log_evidence)(m, data.values)[0], expected, rtol=1e-10)


def test_tempered_normaliser_of_known_variances() -> None:
    """At β → any θ it is the same; at T = 1 it is nothing, and of one entry it is that of two Gaussians."""
    model, data = tp.StateSpace(1, noise=0.5, state_noise=0.2, start=3.0).prepare(np.zeros((2, 1)))
    one, three = model.tempering.log_normaliser(np.array([1.0, 3.0]), data).log
    assert one == pytest.approx(0.0, abs=1e-12)

    def gaussian(variance: float) -> float:
        """log ∫ N(x | 0, v)^(1/3) dx."""
        return 0.5 * (1 - 1 / 3) * np.log(2 * np.pi * variance) + 0.5 * np.log(3)

    assert three == pytest.approx(2 * gaussian(0.5) + gaussian(0.2) + gaussian(3.0), rel=1e-12)
    unknown, _ = tp.StateSpace.local_level().prepare(np.arange(3.0)[:, None])
    with pytest.raises(UnsupportedMethod, match="known noise"):
        unknown.tempering.log_normaliser(np.array([2.0]), data)


# ---- the Nile -----------------------------------------------------------------------------------------------

LEVEL, IRREGULAR = 1469.1, 15098.5  # maximum likelihood, Durbin & Koopman (2012), section 2.10


@cache
def nile() -> np.ndarray:
    try:
        return np.asarray(tp.datasets.load("nile"))[:, -1:]
    except (ValueError, FileNotFoundError):
        pytest.skip("the Nile's flow is not among the bundled data: set TEMPERANCE_DATA")


def test_maximum_likelihood_for_the_nile_is_the_classical_one() -> None:
    model = tp.StateSpace.local_level(start=1e7)  # as good as diffuse
    fit = tp.fit(model, nile(), tp.EM(prior=False, tol=1e-11, max_iter=5000))
    found = {name: 1.0 / float(block.mode()[0]) for name, block in fit.state.blocks.items()}
    assert found["state_noise"] == pytest.approx(LEVEL, rel=2e-3)
    assert found["noise"] == pytest.approx(IRREGULAR, rel=1e-3)


@pytest.mark.slow
def test_posterior_for_the_nile_covers_the_classical_estimates() -> None:
    fit = tp.fit(tp.StateSpace.local_level(), nile(), tp.Gibbs(draws=3000, warmup=500), seed=0)
    for name, classical in (("state_noise", LEVEL), ("noise", IRREGULAR)):
        low, high = np.quantile(1.0 / np.asarray(fit.posterior[name]), [0.1, 0.9])
        assert low < classical < high
    bound = tp.fit(tp.StateSpace.local_level(), nile(), tp.VB())
    tempered = tp.fit(tp.StateSpace.local_level(), nile(), tp.ParallelTempering(draws=3000, replicas=10), seed=0)
    assert bound.log_evidence < tempered.bracket[1] and np.diff(tempered.bracket)[0] < 1.0


# ---- series with everything learnt --------------------------------------------------------------------------


def two_states(seed: int, t: int) -> np.ndarray:
    """A damped rotation, seen in four columns."""
    rng = np.random.default_rng(seed)
    angle, z = 0.3, np.zeros(2)
    turn = 0.97 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    c, rows = rng.normal(size=(4, 2)), []
    for _ in range(t):
        z = turn @ z + rng.normal(size=2)
        rows.append(c @ z + 0.5 * rng.normal(size=4) + 3.0)
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        tp.VB(restarts=2),
        tp.SVI(batch_size=2, passes=30),
        tp.Annealed(tp.VB()),
        tp.VT(length=20),
        tp.Gibbs(draws=100, warmup=100, chains=2),
        tp.AIS(particles=20, temperatures=60),
        tp.ParallelTempering(draws=100, warmup=100, replicas=6),
        tp.EM(),
    ],
    ids=lambda method: method.name,
)
@pytest.mark.parametrize("known", [False, True])
def test_every_method_runs(method: Any, known: bool) -> None:
    whole = two_states(0, 60)
    series = [whole[:20], whole[20:35], whole[35:]]
    noise = {"noise": 0.3} if known else {}
    fit = tp.fit(tp.StateSpace(2, **noise), series, method) if method.name != "VT" or known else None
    if fit is None:
        with pytest.raises(UnsupportedMethod, match="noise"):
            tp.fit(tp.StateSpace(2), series, method)
        return
    assert fit.log_evidence is None if method.name == "Gibbs" else np.isfinite(fit.log_evidence)
    assert np.isfinite(fit.log_predictive(series)).all()
    states = fit.smooth()
    assert [len(each.mean) for each in states] == [20, 15, 25]
    assert all(np.isfinite(each.mean).all() and (each.variance > 0).all() for each in states)
    future = fit.forecast(3, whole[35:])
    assert np.isfinite(future.mean).all() and future.mean.shape == (3, 4)
    assert fit.sample(0, 2).shape == (2, 25, 4)


@pytest.mark.slow
def test_dynamics_and_number_of_states_are_found() -> None:
    x = two_states(1, 300)
    hill = tp.compare([tp.StateSpace(k) for k in (1, 2, 3)], x, tp.VB(max_iter=2000))
    assert hill.best == 2
    a = np.asarray(hill.best_fit.posterior["dynamics"].mode())
    eigenvalues = np.linalg.eigvals(a)
    assert np.abs(eigenvalues) == pytest.approx([0.97, 0.97], abs=0.04)
    assert np.abs(np.angle(eigenvalues)) == pytest.approx([0.3, 0.3], abs=0.04)


@pytest.mark.slow
def test_forecasts_are_calibrated() -> None:
    """Ninety-per-cent intervals of ten steps ahead hold about nine tenths of what then happens."""
    inside = []
    for seed in range(20):
        x = two_states(seed, 160)
        fit = tp.fit(tp.StateSpace(2), x[:150], tp.VB(max_iter=500))
        low, high = fit.forecast(10).interval(0.9)
        inside.append(((low < x[150:]) & (x[150:] < high)).mean())
    # Errors within a series go together: count series.
    assert abs(np.mean(inside) - 0.9) < 4 * np.std(inside) / np.sqrt(len(inside))
    assert np.mean(inside) > 0.8


@pytest.mark.slow
def test_samplers_of_the_local_level_are_right() -> None:
    """The joint test for Gibbs, and calibration for parallel tempering."""
    noise, state_noise = tp.Gamma(6.0, 3.0), tp.Gamma(7.0, 4.0)
    model = tp.StateSpace.local_level(noise=noise, state_noise=state_noise)
    model, data = model.prepare(np.cumsum(np.random.default_rng(5).normal(size=6))[:, None])
    assert joint_test(jax.random.key(1), model, data).worst < 5.0
    far = tp.fit(tp.StateSpace.local_level(start=1.0), 1000.0 + np.arange(6.0)[:, None], tp.Gibbs(draws=20, warmup=20))
    assert abs(far.sample(0, 50)[:, 0].mean() - 1002.5) < 2.0
    method = tp.ParallelTempering(warmup=64, replicas=4)
    assert calibration_test(jax.random.key(2), model, data, method).worst < 5.0


@pytest.mark.slow
def test_intervals_of_the_variances_contain_the_truth() -> None:
    inside = []
    for seed in range(20):
        x = local_level(np.random.default_rng(seed), 80, 0.5, 1.0)
        fit = tp.fit(tp.StateSpace.local_level(), x, tp.Gibbs(draws=600, warmup=200, chains=2), seed=seed)
        for name, truth in (("state_noise", 0.5), ("noise", 1.0)):
            low, high = np.quantile(1.0 / np.asarray(fit.posterior[name]), [0.05, 0.95])
            inside.append(low < truth < high)
    assert np.mean(inside) > 0.75  # 0.9 in expectation, with an error of 0.05


@pytest.mark.slow
def test_brackets_agree_with_quadrature_over_the_variances() -> None:
    """Two variances: the evidence by a grid over their logarithms, each point a dense Gaussian."""
    x = local_level(np.random.default_rng(3), 12, 0.5, 1.0)
    options: dict[str, Any] = {
        "noise": tp.Gamma(3.0, 2.0), "state_noise": tp.Gamma(3.0, 1.0), "start": 9.0, "centre": 5.0, "scale": 1.0,
    }  # fmt: skip
    t, grid = np.arange(12), np.linspace(-6, 5, 111)
    log = np.empty((len(grid), len(grid)))
    for i, a in enumerate(grid):
        for j, b in enumerate(grid):
            total = 9.0 + np.exp(-a) * np.minimum(t[:, None], t[None]) + np.exp(-b) * np.eye(12)
            log[i, j] = multivariate_normal(np.full(12, 5.0), total).logpdf(x[:, 0])
            log[i, j] += gamma(3.0, scale=1.0).logpdf(np.exp(a)) + a + gamma(3.0, scale=0.5).logpdf(np.exp(b)) + b
    exact = np.log(np.sum(np.exp(log - log.max()))) + log.max() + 2 * np.log(grid[1] - grid[0])
    model = tp.StateSpace.local_level(**options)
    bound = tp.fit(model, x, tp.VB(tol=1e-9))
    assert exact - 2.0 < bound.log_evidence < exact
    tempered = tp.fit(model, x, tp.ParallelTempering(draws=3000, warmup=500, replicas=6), seed=0)
    assert tempered.bracket[0] < exact < tempered.bracket[1]
    annealed = tp.fit(model, x, tp.AIS(particles=200, temperatures=100, posterior=tempered), seed=0)
    assert annealed.bracket[0] < exact < annealed.bracket[1]


# ---- what users get wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "data", "message"),
    [
        (lambda: tp.StateSpace(0), SHORT, "n_states must be a whole number of at least 1"),
        (lambda: tp.StateSpace(1, noise=[1.0, 1.0, 1.0]), SHORT, "noise must be one number or 2 of them"),
        (lambda: tp.StateSpace(1, state_noise=-1.0), SHORT, "state_noise must be positive"),
        (lambda: tp.StateSpace(2, start=[1.0, 2.0, 3.0]), SHORT, "start must be one number or 2 of them"),
        (lambda: tp.StateSpace(2, relevance=tp.Gamma([1.0] * 3, 1.0)), SHORT, "relevance must be one Gamma or 2"),
        (lambda: tp.StateSpace.local_level(noise=1.0, state_noise=1.0), SHORT[:, :1], "nothing is left to learn"),
        (lambda: tp.StateSpace.local_level(), SHORT, "this model is for 1 columns, the data have 2"),
        (lambda: tp.StateSpace(1), LONG, "missing values"),
        (lambda: tp.StateSpace(1, n_controls=1), SHORT, "pair \\(values, controls\\)"),
        (lambda: tp.StateSpace(1, n_controls=2), (SHORT, CONTROLS[1]), "controls must have 2 columns, got 1"),
        (
            lambda: tp.StateSpace(1, n_controls=1),
            (SHORT, CONTROLS[0]),
            "as many steps as the data, \\[3\\], got \\[5\\]",
        ),
        (lambda: tp.StateSpace(1), [SHORT, SHORT[:, :1]], "must have the same columns"),
    ],
)
def test_mistakes_are_named(make: Any, data: Any, message: str) -> None:
    with pytest.raises((InvalidParameter, InvalidData), match=message):
        make().prepare(data)


@pytest.mark.slow
def test_forecasts_need_one_series_and_its_controls() -> None:
    fit, _ = fitted()
    with pytest.raises(InvalidParameter, match="n must be a whole number of at least 1"):
        fit.forecast(0)
    with pytest.raises(InvalidData, match="one series, got 2"):
        fit.forecast(2, [np.ones((3, 1)), np.ones((4, 1))])
    model, _, _ = controlled()
    with pytest.raises(InvalidData, match="needs the controls of the next 3 steps"):
        model.forecast(None, jax.random.key(0), model.new_rows(([SHORT], CONTROLS[1:])), 3)
    with pytest.raises(UnsupportedMethod, match="no `forecast`: it does not say how a sequence goes on"):
        tp.fit(tp.GaussianMixture(1), np.arange(4.0)[:, None], tp.VB(max_iter=2)).forecast(2)
