"""Factor analysis against Gaussian densities, quadrature over the loadings and scikit-learn's maximum likelihood."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.stats import multivariate_normal, norm

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.inference.monte_carlo.labels import aligned
from temperance.models import Data, Powers
from temperance.numerics.gaussian_latents import gaussian_integral
from temperance.numerics.latents import integrate_out
from tests.tiers import with_slow

N, D, K = 5, 3, 2
X = np.random.default_rng(1).normal(size=(N, D)) * np.array([1.0, 2.0, 0.5]) + np.array([0.0, 3.0, -1.0])
HOLES = X.copy()
HOLES[[0, 1, 1, 3], [0, 1, 2, 2]] = np.nan
HOLES[4] = np.nan  # nothing seen


def simulated(rng: np.random.Generator, n: int, d: int, k: int, noise: float = 0.7) -> np.ndarray:
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + noise * rng.normal(size=(n, d)) + rng.normal(size=d)


# ---- the one function ---------------------------------------------------------------------------------------


@cache
def prepared(holes: bool) -> tuple[tp.FactorAnalysis, Data, Any]:
    """With the average statistics of two draws, which are those of no single one."""
    model, data = tp.FactorAnalysis(K, missing="marginalise" if holes else None).prepare(HOLES if holes else X)
    sample = eqx.filter_jit(lambda key: model.statistics(model.sample_prior(key)))
    one, other = sample(jax.random.key(0)), sample(jax.random.key(1))
    return model, data, jax.tree.map(lambda a, b: 0.5 * (a + b), one, other)


def by_hand(m: Any, row: np.ndarray, powers: tuple[float, float]) -> tuple[float, np.ndarray, np.ndarray]:
    """The value, E[z̃] and E[z̃ z̃ᵀ] with z̃ = (z, 1) of one datum, written out entry by entry."""
    w, ww = np.asarray(m["loadings"].linear), -2.0 * np.asarray(m["loadings"].precision)
    tau, log_tau = np.asarray(m["noise"].value), np.asarray(m["noise"].log)
    beta, latent = powers
    precision, linear, constant = latent * np.eye(K), np.zeros(K), -0.5 * latent * K * np.log(2 * np.pi)
    for d in np.flatnonzero(~np.isnan(row)):
        precision += beta * tau[d] * ww[d, :K, :K]
        linear += beta * tau[d] * (row[d] * w[d, :K] - ww[d, :K, K])
        square = row[d] ** 2 - 2 * row[d] * w[d, K] + ww[d, K, K]
        constant += 0.5 * beta * (log_tau[d] - np.log(2 * np.pi) - tau[d] * square)
    covariance = np.linalg.inv(precision)
    z = covariance @ linear
    value = constant + 0.5 * linear @ z + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    extended = np.append(z, 1.0)
    second = np.outer(extended, extended)
    second[:K, :K] += covariance
    return value, extended, second


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("powers", [(1.0, 1.0), (0.3, 0.8)])
def test_value_and_statistics_equal_those_written_by_hand(holes: bool, powers: tuple[float, float]) -> None:
    model, data, m = prepared(holes)

    @jax.jit
    def value_and_messages(m: Any) -> Any:
        return jax.value_and_grad(lambda m: jnp.sum(model.log_evidence(m, data.values, Powers(*powers))))(m)

    value, messages = value_and_messages(m)
    x = np.asarray(data.values)
    each = [by_hand(m, row, powers) for row in x]
    np.testing.assert_allclose(value, sum(v for v, _, _ in each), rtol=1e-12)
    tau, seen = np.asarray(m["noise"].value), ~np.isnan(x)
    ww = -2.0 * np.asarray(m["loadings"].precision)
    w = np.asarray(m["loadings"].linear)
    for d in range(D):
        rows = np.flatnonzero(seen[:, d])
        first = powers[0] * tau[d] * sum(x[n, d] * each[n][1] for n in rows)
        second = powers[0] * tau[d] * sum(each[n][2] for n in rows)
        np.testing.assert_allclose(messages["loadings"].linear[d], first, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(messages["loadings"].precision[d], second, rtol=1e-11, atol=1e-12)
        residual = sum(x[n, d] ** 2 - 2 * x[n, d] * w[d] @ each[n][1] + np.sum(ww[d] * each[n][2]) for n in rows)
        np.testing.assert_allclose(messages["noise"].value[d], -0.5 * powers[0] * residual, rtol=1e-11)
        np.testing.assert_allclose(messages["noise"].log[d], 0.5 * powers[0] * len(rows), rtol=1e-12)


def test_at_a_draw_it_is_the_gaussian_density_of_what_was_seen() -> None:
    model, data, _ = prepared(True)
    draw = eqx.filter_jit(model.sample_prior)(jax.random.key(3))
    w, x = np.asarray(draw["loadings"]), np.asarray(data.values)
    covariance = np.asarray(model.covariance(draw))
    np.testing.assert_allclose(covariance, w[:, :-1] @ w[:, :-1].T + np.diag(1 / np.asarray(draw["noise"])))
    found = eqx.filter_jit(model.log_evidence)(model.statistics(draw), data.values)
    for row, value in zip(x, found, strict=True):
        seen = ~np.isnan(row)
        part = covariance[np.ix_(seen, seen)]
        expected = multivariate_normal(w[seen, -1], part).logpdf(row[seen]) if seen.any() else 0.0
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shared", with_slow([False, True], True))
def test_gaussian_integral_and_its_draws(shared: bool) -> None:
    """The closed form equals automatic differentiation; drawn statistics average to the expected ones."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 2)) if shared else rng.normal(size=(4, 2, 2))
    precision, linear = jnp.asarray(a @ a.swapaxes(-1, -2) + 0.5 * np.eye(2)), jnp.asarray(rng.normal(size=(4, 2)))

    def total(function: Any, key: Any = None) -> Any:
        def value(linear: Any, precision: Any) -> Any:
            return jnp.sum(jnp.arange(1.0, 5.0) * function(linear, precision, key))

        return jax.jit(jax.value_and_grad(value, (0, 1)))(linear, precision)

    def derived(linear: Any, precision: Any, key: Any) -> Any:
        matrix = jnp.broadcast_to(precision[None], (4, 2, 2)) if shared else precision
        return integrate_out(linear, 0.5 * (matrix + matrix.swapaxes(-1, -2)), key)

    ours, reference = total(gaussian_integral), total(derived)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), ours, reference)
    keys = jax.random.split(jax.random.key(0), 20000)
    value, drawn = jax.jit(jax.vmap(lambda key: total(gaussian_integral, key)))(keys)
    np.testing.assert_allclose(value, np.full(len(keys), ours[0]), rtol=1e-12)
    for each, expected in zip(drawn, ours[1], strict=True):
        error = np.asarray(each).std(axis=0) / np.sqrt(len(keys))
        assert (np.abs(np.asarray(each).mean(axis=0) - expected) < 5 * error).all()


# ---- evidence -----------------------------------------------------------------------------------------------

TINY = np.array([[0.4, 1.1], [-1.2, -0.3], [0.9, 0.2]])
KNOWN: dict[str, Any] = {"noise": [0.5, 0.8], "relevance": 2.0, "centre": 0.0, "scale": 1.0}


@cache
def exact_evidence() -> float:
    """With everything known but w and μ: by Simpson's rule over w, with μ integrated analytically."""
    grid = np.linspace(-5.0, 5.0, 81)
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    n = len(TINY)
    rows = w[..., :, None] * w[..., None, :] + np.diag(KNOWN["noise"])
    # μ ~ N(0, I) is the same in every row.
    total = np.einsum("nm,abij->abnimj", np.eye(n), rows) + np.einsum("nm,ij->nimj", np.ones((n, n)), np.eye(2))
    total = total.reshape(81, 81, 2 * n, 2 * n)
    distance = np.einsum("i,abij,j->ab", TINY.ravel(), np.linalg.inv(total), TINY.ravel())
    log_density = -0.5 * (distance + np.linalg.slogdet(2 * np.pi * total)[1])
    log_density += norm(0.0, np.sqrt(1 / 2.0)).logpdf(w).sum(axis=-1)
    top = log_density.max()
    return float(top + np.log(simpson(simpson(np.exp(log_density - top), x=grid), x=grid)))


def test_bound_is_below_the_exact_evidence() -> None:
    model = tp.FactorAnalysis(1, **KNOWN)
    vb = tp.fit(model, TINY, tp.VB(tol=1e-9))
    exact = exact_evidence()
    assert exact - 1.5 < vb.log_evidence < exact
    assert vb.converged and (np.diff(vb.history["elbo"]) > -1e-9).all()


@pytest.mark.slow
def test_tempering_finds_the_exact_evidence() -> None:
    model, exact = tp.FactorAnalysis(1, **KNOWN), exact_evidence()
    tempered = tp.fit(model, TINY, tp.ParallelTempering(draws=1500, warmup=200, replicas=4), seed=1)
    low, high = tempered.bracket
    assert low < exact < high and high - low < 0.5
    assert abs(tempered.log_evidence - exact) < 5 * tempered.standard_error


def test_tempered_normaliser_of_known_noise() -> None:
    """C(T) = ∫ p(x, z | θ)^(1/T) dx dz is the same for every θ: by quadrature at one, of one row and one column."""
    model, data = tp.FactorAnalysis(1, **(KNOWN | {"noise": 0.5})).prepare(TINY[:1, :1])
    z = np.linspace(-30, 30, 601)
    for temperature in (1.0, 3.0):
        log = norm.logpdf(z)[:, None] + norm(0.7 * z[:, None] + 0.2, np.sqrt(0.5)).logpdf(z[None])
        expected = np.log(simpson(simpson(np.exp(log / temperature), x=z), x=z))
        found = model.tempering.log_normaliser(np.array([temperature]), data)
        np.testing.assert_allclose(found.log, expected, atol=1e-8)


# ---- against scikit-learn, and on simulated data ------------------------------------------------------------


@cache
def sample_of(n: int) -> np.ndarray:
    return simulated(np.random.default_rng(3), n, 6, 2)


def maximum_likelihood(x: np.ndarray) -> tuple[np.ndarray, float]:
    from sklearn.decomposition import FactorAnalysis

    peer = FactorAnalysis(2, tol=1e-12, max_iter=100_000, svd_method="lapack").fit(x)
    return peer.get_covariance(), float(peer.score(x) * len(x))


@pytest.mark.slow
def test_em_without_prior_is_the_maximum_likelihood_of_scikit_learn() -> None:
    x = sample_of(200)
    covariance, log_likelihood = maximum_likelihood(x)
    fit = tp.fit(tp.FactorAnalysis(2, relevance=1.0), x, tp.EM(prior=False, tol=1e-11, max_iter=20_000))
    assert fit.details["log_likelihood"] == pytest.approx(log_likelihood, abs=1e-4)
    draws = {name: block.mode() for name, block in fit.state.blocks.items()}
    np.testing.assert_allclose(fit.model.covariance(draws), covariance, atol=2e-3 * np.abs(covariance).max())


@pytest.mark.slow
def test_posterior_approaches_the_maximum_likelihood_as_data_grow() -> None:
    away = []
    for n in (100, 1000, 10_000):
        x = sample_of(n)
        covariance, _ = maximum_likelihood(x)
        fit = tp.fit(tp.FactorAnalysis(2), x, tp.VB(tol=1e-10, max_iter=5000))
        draws = {name: block.mode() for name, block in fit.state.blocks.items()}
        found = np.asarray(fit.model.covariance(draws))
        away.append(np.abs(found - covariance).max() / np.abs(covariance).max())
    assert away[1] < 0.3 * away[0] and away[2] < 0.3 * away[1] and away[2] < 1e-3


@cache
def fitted() -> tuple[tp.Fit, np.ndarray, np.ndarray]:
    x = simulated(np.random.default_rng(5), 120, 6, 2)
    seen = np.where(np.random.default_rng(6).uniform(size=x.shape) < 0.2, np.nan, x)
    return tp.fit(tp.FactorAnalysis(3, missing="marginalise"), seen, tp.VB(restarts=2)), x, seen


def check_imputation(fit: tp.Fit, x: np.ndarray, seen: np.ndarray) -> None:
    """Far better than column means; the errors are as large as they are said to be."""
    mean, variance = fit.impute(seen)
    holes = np.isnan(seen)
    np.testing.assert_allclose(mean[~holes], x[~holes], rtol=1e-12)
    assert (variance[~holes] == 0).all() and (variance[holes] > 0).all()
    error = (x - mean)[holes]
    assert np.sqrt(np.mean(error**2)) < 0.75 * np.sqrt(np.mean((x - np.nanmean(seen, axis=0))[holes] ** 2))
    scores = error / np.sqrt(variance[holes])
    # 144 or more of them: standard errors of about 0.06 and 0.025.
    assert 0.8 < np.sqrt(np.mean(scores**2)) < 1.2
    assert 0.83 < np.mean(np.abs(scores) < norm.ppf(0.95)) < 0.97


@pytest.mark.slow
def test_imputation_is_good_and_calibrated() -> None:
    check_imputation(*fitted())


@pytest.mark.slow
def test_scores_and_rows_from_scores(tmp_path: Path) -> None:
    fit, x, seen = fitted()
    z = fit.transform(x)
    assert z.shape == (120, 3) and fit.components.shape == (3, 6)
    rows = fit.inverse_transform(z)
    assert np.mean((rows - x) ** 2) < 0.5 * np.mean((x - x.mean(axis=0)) ** 2)
    zero = fit.inverse_transform(np.zeros((1, 3)))[0]
    np.testing.assert_allclose(zero, np.asarray(fit.posterior["loadings"].mode())[:, -1], rtol=1e-9)
    table = fit.table()
    assert table["explained"] == sorted(table["explained"], reverse=True)
    assert table["explained"][2] < 0.02 < table["explained"][1]  # there were two factors
    fit.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.transform(x), z)
    np.testing.assert_array_equal(again.log_predictive(seen[:4]), fit.log_predictive(seen[:4]))


@pytest.mark.slow
def test_predictive_is_a_density_with_the_moments_of_its_samples() -> None:
    """With one column seen: integrates to one, and its mean is that of new data."""
    fit, _, _ = fitted()
    rows = np.full((801, 6), np.nan)
    rows[:, 1] = np.linspace(-30, 30, 801)
    density = np.exp(fit.log_predictive(rows))
    assert simpson(density, x=rows[:, 1]) == pytest.approx(1.0, abs=1e-6)
    sample = fit.sample(0, 4000)[:, 1]
    mean = simpson(rows[:, 1] * density, x=rows[:, 1])
    assert abs(sample.mean() - mean) < 4 * sample.std() / np.sqrt(4000) + 0.05


@pytest.mark.slow
def test_orders_and_signs_are_counted_for_factors_in_use() -> None:
    """Two of three factors: 3!/1! orders and 2² signs; none where all rotations are equal, or draws see every mode."""
    fit, _, seen = fitted()
    assert fit.label_correction == pytest.approx(np.log(6 * 4))
    turned, _ = tp.FactorAnalysis(3, relevance=2.0, missing="marginalise").prepare(seen)
    assert dataclasses.replace(fit, model=turned).label_correction == 0.0
    assert dataclasses.replace(fit, method=tp.Gibbs()).label_correction == 0.0


@pytest.mark.slow
def test_gibbs_agrees_with_vb_whatever_the_order_and_sign_of_factors() -> None:
    vb, x, seen = fitted()
    fit = tp.fit(tp.FactorAnalysis(3, missing="marginalise"), seen, tp.Gibbs(draws=300, warmup=100, chains=2), seed=1)
    check_imputation(fit, x, seen)
    ours, theirs, holes = fit.impute(seen), vb.impute(seen), np.isnan(seen)
    apart = (ours.mean - theirs.mean)[holes] / np.sqrt(ours.variance[holes])
    assert np.sqrt(np.mean(apart**2)) < 0.15


def test_factors_in_any_order_and_with_any_sign_are_brought_together() -> None:
    rng = np.random.default_rng(0)
    one, alpha = rng.normal(size=(6, 4)), np.array([1.0, 2.0, 3.0])
    draws: dict[str, Any] = {"loadings": [], "relevance": [], "noise": np.ones((20, 6))}
    for _ in range(20):
        order, sign = rng.permutation(3), rng.choice([-1.0, 1.0], 3)
        draws["loadings"].append(np.concatenate([sign * one[:, order], one[:, 3:]], axis=1))
        draws["relevance"].append(alpha[order])
    model = tp.FactorAnalysis(3, scale=np.arange(1.0, 7.0)).prepare(rng.normal(size=(5, 6)))[0]
    arrays = {name: np.asarray(value) for name, value in draws.items()}
    (parts,) = model.symmetry.parts  # type: ignore[union-attr]
    found = aligned(model, parts, arrays, 7, model.prepare(rng.normal(size=(5, 6)))[1])
    for name in ("loadings", "relevance"):
        np.testing.assert_array_equal(found[name], np.broadcast_to(draws[name][7], np.shape(draws[name])))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        tp.SVI(batch_size=32),
        tp.Annealed(tp.VB()),
        tp.VT(length=20),
        tp.AIS(particles=20, temperatures=50),
        tp.ParallelTempering(draws=200, warmup=100, replicas=4),
        tp.EM(),
        tp.VB(),
    ],
    ids=lambda method: method.name,
)
@pytest.mark.parametrize("noise", ["diagonal", "isotropic", 0.5])
def test_every_method_runs(method: Any, noise: Any) -> None:
    _, _, seen = fitted()
    model = tp.FactorAnalysis(2, noise=noise, missing="marginalise")
    if method.name == "VT" and noise != 0.5:
        with pytest.raises(UnsupportedMethod, match="noise"):
            tp.fit(model, seen, method)
        return
    fit = tp.fit(model, seen, method)
    assert np.isfinite(fit.log_evidence)
    assert np.isfinite(fit.log_predictive(seen[:3])).all()
    imputed = fit.impute(seen)
    assert np.isfinite(imputed.mean).all()
    assert np.mean((fit.inverse_transform(fit.transform(seen)) - imputed.mean) ** 2) < 3.0
    if fit.bracket is not None:
        assert fit.bracket[0] <= fit.log_evidence <= fit.bracket[1]


@pytest.mark.slow
def test_number_of_factors_is_found() -> None:
    """The most probable of one to five factors, in a hundred data sets of three."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(100):
        x = simulated(rng, 300, 10, 3)
        hill = tp.compare([tp.FactorAnalysis(k) for k in range(1, 6)], x, tp.VB(max_iter=3000))
        found.append(hill.best)
    assert np.mean(np.array(found) == 3) >= 0.95


@pytest.mark.slow
def test_brackets_of_two_samplers_overlap_above_the_bound() -> None:
    """On ten simulated data sets, by parallel tempering and by annealed importance sampling."""
    for seed in range(10):
        x = simulated(np.random.default_rng(seed), 20, 4, 1)
        model = tp.FactorAnalysis(1)
        vb = tp.fit(model, x, tp.VB())
        pt = tp.fit(model, x, tp.ParallelTempering(draws=2000, warmup=500, replicas=12), seed=seed)
        ais = tp.fit(model, x, tp.AIS(particles=100, temperatures=300, posterior=pt), seed=seed)
        assert max(pt.bracket[0], ais.bracket[0]) < min(pt.bracket[1], ais.bracket[1])
        assert vb.log_evidence < pt.bracket[1]


# ---- what users get wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"n_factors": 4}, X, "n_factors must be at most the number of columns, 3, got 4"),
        ({"n_factors": 0}, X, "n_factors must be a whole number of at least 1"),
        ({"noise": "full"}, X, "noise must be one of 'diagonal', 'isotropic'"),
        ({"noise": -1.0}, X, "noise must be positive"),
        ({"noise": [1.0, 2.0]}, X, "noise must be one number or 3 of them"),
        ({"relevance": [1.0, 2.0, 3.0]}, X, "relevance must be one number or 2 of them"),
        ({"relevance": tp.Gamma([1.0] * 3, 1.0)}, X, "relevance must be one Gamma or 2 of them"),
        ({"scale": [1.0, 2.0]}, X, "scale must be one number or 3 of them"),
        ({"centre": np.nan}, X, "centre must be a finite number"),
        ({}, HOLES, "missing values"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], data: Any, message: str) -> None:
    with pytest.raises((InvalidParameter, InvalidData), match=message):
        tp.FactorAnalysis(**({"n_factors": K} | options)).prepare(data)


def test_constant_columns_are_mentioned() -> None:
    x = X.copy()
    x[:, 1] = 7.0
    model, data = tp.FactorAnalysis(1).prepare(x)
    assert "constant columns (1)" in model.notes(data)[0]
    assert (np.asarray(model.scale)[1] == 7.0) and np.isfinite(np.asarray(model.scale)).all()


@pytest.mark.slow
def test_new_data_must_fit() -> None:
    fit, x, _ = fitted()
    with pytest.raises(InvalidData, match="5 columns, but the model was fitted to 6"):
        fit.transform(x[:, :5])
    with pytest.raises(InvalidData, match="scores must have 3 columns"):
        fit.inverse_transform(np.ones((2, 2)))
