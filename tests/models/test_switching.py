"""Switching linear dynamics, against the sum over every path of regimes of dense Gaussian likelihoods."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.families.paths import Paths, PathsVector
from temperance.numerics.gaussian_chains import linked_integral
from tests.exact.switching import LOOK, MOVES, PRECISIONS, SERIES, WEIGHTS, every_path, gaussian

LAWS = tp.WeightsAndPrecision(WEIGHTS, PRECISIONS)


def model(**options: Any) -> tp.SwitchingStateSpace:
    given = {"dynamics": LAWS, "observation": LOOK, "noise": 0.4, "concentration": MOVES, "start": [1.0, 2.0]}
    return tp.SwitchingStateSpace(2, 2, **given | options)


def fitted(method: Any, x: Any = SERIES, **options: Any) -> tp.Fit:
    return tp.fit(model(**options), x, method, seed=1, progress=False)


def test_the_chain_with_a_matrix_for_each_link_against_a_dense_solve() -> None:
    rng = np.random.default_rng(0)
    linear, couplings = rng.normal(size=(4, 2)), 0.3 * rng.normal(size=(3, 2, 2))
    precision = np.eye(2) * 2.0 + 0.1 * np.ones((4, 2, 2))
    whole = np.zeros((8, 8))
    for t in range(4):
        whole[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = precision[t]
        if t:
            whole[2 * t : 2 * t + 2, 2 * t - 2 : 2 * t] = -couplings[t - 1]
            whole[2 * t - 2 : 2 * t, 2 * t : 2 * t + 2] = -couplings[t - 1].T
    exact = 0.5 * (linear.ravel() @ np.linalg.solve(whole, linear.ravel()) - np.linalg.slogdet(whole / (2 * np.pi))[1])
    value, slopes = jax.value_and_grad(linked_integral, argnums=(0, 2))(linear, precision, couplings)
    assert float(value) == pytest.approx(exact, abs=1e-10)
    mean, covariance = np.linalg.solve(whole, linear.ravel()), np.linalg.inv(whole)
    second = covariance + np.outer(mean, mean)
    np.testing.assert_allclose(slopes[0], mean.reshape(4, 2), atol=1e-10)
    lagged = [second[2 * t + 2 : 2 * t + 4, 2 * t : 2 * t + 2] for t in range(3)]
    np.testing.assert_allclose(slopes[1], lagged, atol=1e-10)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = jax.vmap(lambda key: jax.grad(linked_integral)(jnp.asarray(linear), precision, couplings, key))(keys)
    np.testing.assert_allclose(np.mean(draws, axis=0).ravel(), mean, atol=5 * np.sqrt(covariance.max() / 4000))


def test_the_distribution_of_paths() -> None:
    rng = np.random.default_rng(0)
    first, moves = rng.normal(size=(1, 3)), rng.normal(size=(1, 2, 3, 3))
    paths = Paths(PathsVector(jnp.asarray(first), jnp.asarray(moves)))
    every = np.array(list(itertools.product(range(3), repeat=3)))
    logs = first[0, every[:, 0]] + moves[0, 0, every[:, 0], every[:, 1]] + moves[0, 1, every[:, 1], every[:, 2]]
    assert float(paths.log_normaliser()[0]) == pytest.approx(logsumexp(logs), abs=1e-12)
    shares = np.einsum("p,ptk->tk", np.exp(logs - logsumexp(logs)), np.eye(3)[every])
    np.testing.assert_allclose(paths.mean().shares[0], shares, atol=1e-12)
    drawn = jax.vmap(paths.sample)(jax.random.split(jax.random.key(0), 4000))[:, 0]
    np.testing.assert_allclose(np.eye(3)[np.asarray(drawn)].mean(axis=0), shares, atol=0.04)
    again = Paths.from_mean(paths.mean())
    np.testing.assert_allclose(again.mean().moves, paths.mean().moves, atol=1e-12)


def test_the_bound_is_below_the_sum_over_all_paths_and_rises() -> None:
    exact = every_path(SERIES).log_evidence
    fit = fitted(tp.VB(restarts=3, tol=1e-10, max_iter=500))
    assert exact - 2.0 < fit.log_evidence < exact
    assert (np.diff(fit.history["elbo"], axis=0) > -1e-9).all()


def test_clear_regimes_are_found_and_the_bound_is_tight() -> None:
    x = np.array([3.2, -3.1, 2.5, -3.0, 2.4, -2.6])[:, None]
    exact, fit = every_path(x), fitted(tp.VB(restarts=3, tol=1e-10), x)
    assert exact.log_evidence - 1e-3 < fit.log_evidence < exact.log_evidence
    found = fit.smooth()
    np.testing.assert_allclose(found.regimes[0], exact.shares, atol=1e-3)
    path = tuple(exact.shares.argmax(axis=1))
    nudged = [
        gaussian(x + 1e-4 * np.eye(6)[[t]].T, path) - gaussian(x - 1e-4 * np.eye(6)[[t]].T, path) for t in range(6)
    ]
    # d log p(x)/dx_t = (E[C z_t | x] − x_t)/σ².
    np.testing.assert_allclose((found.mean[0] @ LOOK[0] - x[:, 0]) / 0.4, np.array(nudged) / 2e-4, atol=1e-3)


def test_one_regime_and_one_move() -> None:
    """With one regime nothing is left to approximate but A, which does not count."""
    one = tp.WeightsAndPrecision(LAWS.weights[:1], LAWS.precision[:1])
    fit = tp.fit(tp.SwitchingStateSpace(1, 2, dynamics=one, observation=LOOK, noise=0.4, start=[1.0, 2.0]), SERIES,
                 tp.VB(tol=1e-12), seed=1, progress=False)  # fmt: skip
    assert fit.log_evidence == pytest.approx(gaussian(SERIES, (0,) * 5), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [False, True])
def test_annealed_importance_sampling_finds_the_evidence(gap: bool) -> None:
    x = np.where(np.arange(6)[:, None] == 3, np.nan, SERIES) if gap else SERIES
    fit = fitted(tp.AIS(particles=100, temperatures=60), x, missing="marginalise" if gap else None)
    assert abs(fit.log_evidence - every_path(x).log_evidence) < 4 * fit.standard_error < 1.0


@pytest.mark.slow
def test_gibbs_draws_the_transitions_as_they_are_probable() -> None:
    fit = fitted(tp.Gibbs(draws=6000, warmup=200))
    moves = np.asarray(fit.posterior["transitions"]).reshape((-1, 2, 2)).mean(axis=0)
    np.testing.assert_allclose(moves, every_path(SERIES).transitions, atol=0.02)


@pytest.mark.parametrize("method", [tp.VB(), tp.Gibbs(draws=20, warmup=5)], ids=repr)
def test_every_move_of_the_table_is_in_one_regime(method: Any) -> None:
    table = fitted(method).columns()
    assert table["moves"] == sorted(table["moves"], reverse=True)
    assert sum(table["moves"]) == pytest.approx(len(SERIES) - 1)


@pytest.mark.slow
def test_two_laws_are_found() -> None:
    rng = np.random.default_rng(1)
    z, x = 0.0, []
    for t in range(160):
        z = (0.95 if (t // 40) % 2 == 0 else -0.8) * z + rng.normal(0, 0.3)
        x.append(z + rng.normal(0, 0.05))
    prior = tp.MatrixNormalWishart(np.zeros((1, 1)), np.eye(1), 4.0, 0.3 * np.eye(1))
    sticky = 1.0 + 9.0 * np.eye(2)
    ours = tp.SwitchingStateSpace(2, 1, dynamics=prior, noise=0.0025, concentration=sticky)
    fit = tp.fit(ours, np.array(x)[:, None], tp.VB(restarts=5, max_iter=300), seed=1, progress=False)
    regimes = np.argmax(fit.smooth().regimes[0], axis=1)
    truth = (np.arange(1, 160) // 40) % 2
    assert max(np.mean(regimes == truth), np.mean(regimes != truth)) > 0.85
    laws = np.sort(np.asarray(fit.state.blocks["dynamics"].location).ravel())
    assert abs(laws[0] + 0.8) < 0.2 and abs(laws[1] - 0.95) < 0.15
    one = tp.SwitchingStateSpace(1, 1, dynamics=prior, noise=0.0025)
    assert fit.log_evidence > tp.fit(one, np.array(x)[:, None], tp.VB(), progress=False).log_evidence + 5


def two_laws(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """160 steps of laws 0.95 and −0.8, forty each, and which law each move follows."""
    rng = np.random.default_rng(seed)
    z, x = 0.0, []
    for t in range(160):
        z = (0.95 if (t // 40) % 2 == 0 else -0.8) * z + rng.normal(0, 0.3)
        x.append([z + rng.normal(0, 0.05)])
    return np.array(x), (np.arange(1, 160) // 40) % 2


@pytest.mark.slow
def test_the_regimes_are_found_by_defaults_whatever_the_unit() -> None:
    x, truth = two_laws(1)
    model, method = tp.SwitchingStateSpace(2, 1), tp.VB(restarts=3, tol=1e-10, max_iter=2000)
    fits = {unit: tp.fit(model, unit * x, method, seed=1, progress=False) for unit in (1.0, 1e-3, 1e3)}
    for unit, fit in fits.items():
        regimes = np.argmax(fit.smooth().regimes[0], axis=1)
        assert max(np.mean(regimes == truth), np.mean(regimes != truth)) > 0.95, unit
        assert fit.log_evidence == pytest.approx(fits[1.0].log_evidence - len(x) * np.log(unit), abs=1e-3)
        table = fit.table()
        assert abs(sum(table["moves"]) - 159) < 1e-6 and (np.diff(table["moves"]) <= 0).all()
        assert sorted(np.round(table["F[1, 1]"], 1)) == [-0.9, 0.9]
        assert np.sqrt(np.asarray(table["noise 1"])) / unit == pytest.approx([0.3, 0.3], abs=0.1)


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidParameter, match="dynamics must be of shape"):
        tp.SwitchingStateSpace(3, 2, dynamics=LAWS)
    with pytest.raises(InvalidData, match="same number of steps"):
        fitted(tp.VB(), [SERIES, SERIES[:4]])
    with pytest.raises(InvalidParameter, match="observation must have shape"):
        fitted(tp.VB(), np.ones((5, 2)))


@pytest.mark.slow
def test_the_regimes_of_a_new_series_of_another_length() -> None:
    x = np.array([3.2, -3.1, 2.5, -3.0, 2.4, -2.6])[:, None]
    fit = fitted(tp.VB(restarts=3, tol=1e-10), x)
    np.testing.assert_allclose(fit.smooth(x).regimes, fit.smooth().regimes, atol=1e-6)
    np.testing.assert_allclose(fit.smooth(x[:4]).regimes[0], every_path(x[:4]).shares, atol=5e-3)
    with pytest.raises(InvalidData, match="2 columns, but the model was fitted to 1"):
        fit.smooth(np.ones((4, 2)))
    for name, asked in (("forecast", lambda: fit.forecast(2)), ("", lambda: fit.responsibilities(x))):
        with pytest.raises(UnsupportedMethod, match=rf"^SwitchingStateSpace has no .*{name}.*; see fit\.smooth$"):
            asked()
