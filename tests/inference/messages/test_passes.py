"""Whole runs: fixed points, evidence, starts, reports. The seven points of the errata and the galaxies."""

import dataclasses
import os
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import norm

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, NumericalFailure, UnsupportedMethod
from temperance.inference._method import Run
from temperance.inference.messages.alpha_divergence import Approximation, conclude
from temperance.inference.messages.objective import objective
from temperance.inference.messages.sweep import Sites, empty_sites
from tests.exact import marginals
from tests.exact.enumeration import log_evidence
from tests.inference.messages.plain import expectation_propagation

TINY = np.array([[-2.1], [-1.7], [-1.9], [0.9], [1.4], [1.2], [1.1]])
HYPER: dict[str, Any] = {"mean": [0.0], "pseudo_count": 0.01, "dof": 2.0, "scatter": [[0.22]]}
PRIOR = tp.NormalWishart(**HYPER)
LN2 = np.log(2.0)


@cache
def tiny(alpha: float) -> tp.Fit:
    return tp.fit(tp.GaussianMixture(2, prior=PRIOR), TINY, tp.MessagePassing(alpha, restarts=4), seed=0)


@cache
def galaxies() -> tp.Fit:
    x = tp.datasets.load("galaxy")
    return tp.fit(tp.GaussianMixture(3, prior=PRIOR), x, tp.EP(restarts=20), seed=0)


# ---- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "value"), [(1.0, -11.776216), (0.0, -11.777076)])
def test_published_evidence(alpha: float, value: float) -> None:
    assert tiny(alpha).converged
    assert tiny(alpha).log_evidence == pytest.approx(value, abs=1e-6)


def test_both_published_fixed_points_of_the_galaxies() -> None:
    fit = galaxies()
    reached = fit.history["restarts"][fit.details["restarts_converged"]]
    assert fit.log_evidence == pytest.approx(-232.42, abs=0.005)
    assert np.abs(reached + 232.42).min() < 0.005
    assert np.abs(reached + 243.76).min() < 0.005


def test_variational_bayes_has_the_same_fixed_point() -> None:
    vb = tp.fit(tp.GaussianMixture(2, prior=PRIOR), TINY, tp.VB(restarts=4, tol=1e-13), seed=0)
    ours = tiny(0.0)
    assert ours.log_evidence == pytest.approx(vb.log_evidence, abs=1e-6)
    grid = np.linspace(-4, 4, 9)[:, None]
    np.testing.assert_allclose(ours.log_predictive(grid), vb.log_predictive(grid), atol=1e-4)


def test_plain_loop_over_factors_agrees() -> None:
    """Pass by pass, the thesis's algorithm in ordinary parameters gives the same ln s; two columns, J = 3."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(6, 2)), rng.normal(size=(6, 2)) + 3.0])
    start = x[[0, 4, 9]]
    hyper: dict[str, Any] = {"mean": [0.5, 0.0], "pseudo_count": 0.1, "dof": 3.0, "scatter": [[1.0, 0.2], [0.2, 0.8]]}
    model = tp.GaussianMixture(3, prior=tp.NormalWishart(**hyper), init=start)
    fit = tp.fit(model, x, tp.EP(schedule="sequential", max_passes=4, tol=0.0), seed=0)
    evidence, skipped, q = expectation_propagation(x, **hyper, start=start, passes=4)
    np.testing.assert_allclose(fit.history["log_evidence"], evidence, rtol=0, atol=1e-8)
    assert fit.history["skipped"].tolist() == skipped.tolist()
    np.testing.assert_allclose(fit.posterior["weights"].concentration, q.delta, rtol=1e-7)
    np.testing.assert_allclose(fit.posterior["components"].dof, q.dof, rtol=1e-7)


# ---- evidence -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, pytest.param(0.5, marks=pytest.mark.slow), 0.0])
def test_evidence_is_the_objective_at_a_fixed_point(alpha: float) -> None:
    fit = tiny(alpha)
    value = objective(alpha, fit.model, fit.data, fit.state.blocks, fit.details["sites"])
    assert float(value) == pytest.approx(fit.log_evidence, abs=1e-8)


@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0])
def test_objective_by_quadrature(alpha: float) -> None:
    """(2.107) with every integral on a grid, at messages that are no fixed point; known precision, two means."""
    x = np.array([-1.0, 0.3, 1.2])
    model, data = tp.GaussianMixture(2, covariance=[[1.0]], prior=tp.Normal([0.0], precision=[[0.2]])).prepare(
        x[:, None]
    )
    shift = float(model.shift[0])
    rng = np.random.default_rng(0)
    linear, precision, counts = rng.normal(size=(3, 2)) * 0.3, rng.uniform(0, 0.6, (3, 2)), rng.uniform(0, 0.8, (3, 2))
    prior = {name: family.natural for name, family in model.prior.items()}
    natural = {
        "components": type(prior["components"])(
            jnp.asarray(linear[..., None]), jnp.asarray(precision[..., None, None])
        ),
        "weights": type(prior["weights"])(jnp.asarray(counts)),
    }
    blocks = {
        name: family.with_natural(jax.tree.map(lambda a, b: a + b.sum(0), family.natural, natural[name]))
        for name, family in model.prior.items()
    }
    ours = objective(alpha, model, data, blocks, Sites(natural, jnp.zeros(3)))

    mu, logit = np.linspace(-30, 30, 6001), np.linspace(-40, 40, 4001)
    width = mu[1] - mu[0]
    v = 0.2 + precision.sum(0)
    m = (0.2 * -shift + linear.sum(0)) / v
    delta = 1.0 + counts.sum(0)
    q_mu = [norm(m[j], v[j] ** -0.5).pdf(mu) * width for j in range(2)]
    log_pi = -np.logaddexp(0.0, np.stack([-logit, logit]))
    q_pi = np.exp(delta @ log_pi - betaln(*delta)) * (logit[1] - logit[0])
    total = 0.0
    for n, centred in enumerate(x - shift):
        likelihood = norm(mu, 1.0).logpdf(centred)
        site = [linear[n, j] * mu - 0.5 * precision[n, j] * mu**2 for j in range(2)]
        site_pi = counts[n] @ log_pi
        if alpha == 0.0:
            expected = [q_pi @ log_pi[k] + q_mu[k] @ likelihood for k in range(2)]
            total += np.logaddexp(*expected) - q_pi @ site_pi - sum(q_mu[j] @ site[j] for j in range(2))
            continue
        log_r = [
            np.log(q_pi @ np.exp(alpha * (log_pi[k] - site_pi)))
            + sum(np.log(q_mu[j] @ np.exp(alpha * ((likelihood if j == k else 0.0) - site[j]))) for j in range(2))
            for k in range(2)
        ]
        total += np.logaddexp(*(np.asarray(log_r) / alpha))
    log_z = gammaln(delta).sum() - gammaln(delta.sum()) + (0.5 * (v * m**2 + np.log(2 * np.pi / v))).sum()
    log_z0 = 2 * 0.5 * (0.2 * shift**2 + np.log(2 * np.pi / 0.2))
    assert float(ours) == pytest.approx(total + log_z - log_z0, abs=1e-6)


@pytest.mark.slow
def test_bound_rises_once_every_factor_is_refreshed() -> None:
    """Thesis 2.9.3 and figure 2.8: update by update, from the end of the first pass at α = 0 on."""
    x = tp.datasets.load("galaxy")
    method = tp.MessagePassing(0.0, trace=True, max_passes=12)
    fit = tp.fit(tp.GaussianMixture(3, prior=PRIOR), x, method, seed=1)
    trace = fit.history["trace"]
    assert trace.shape == (len(fit.history["change"]), len(x))
    np.testing.assert_allclose(trace[3:, -1], fit.history["log_evidence"][3:], atol=1e-9)
    after = trace[method.warm_passes + 1 :].ravel()
    assert np.diff(after).min() > -1e-9
    assert after[-1] - after[0] > 1e-6


@pytest.mark.slow
def test_correction_on_separate_clusters() -> None:
    """All that EP misses here is the other labelling, ln 2, and a small rest, most of which is corrected."""
    exact = log_evidence(TINY, lambda x: marginals.gaussian(x, **HYPER), np.ones(2)) - LN2
    fit = tiny(1.0)
    assert abs(fit.corrected_log_evidence - exact) < 0.6 * abs(fit.log_evidence - exact)
    with pytest.raises(UnsupportedMethod, match="VB has no correction"):
        _ = dataclasses.replace(fit, method=tp.VB()).corrected_log_evidence


def test_predictive_density() -> None:
    """(3.115): a mixture of Student-t densities."""
    fit = tiny(1.0)
    q, delta = fit.posterior["components"], np.asarray(fit.posterior["weights"].concentration)
    v, nu, scatter, m = (np.asarray(a) for a in (q.pseudo_count, q.dof, q.scatter[:, 0, 0], q.location[:, 0]))
    grid = np.linspace(-5, 5, 11)
    scale2 = (v + 1) / v * scatter / nu
    t = np.exp(gammaln((nu + 1) / 2) - gammaln(nu / 2)) / np.sqrt(np.pi * nu * scale2)
    density = t * (1 + (grid[:, None] - m) ** 2 / (nu * scale2)) ** (-(nu + 1) / 2)
    np.testing.assert_allclose(fit.log_predictive(grid[:, None]), np.log(density @ (delta / delta.sum())), rtol=1e-10)


def test_saved_fit_keeps_its_messages(tmp_path: Any) -> None:
    tiny(1.0).save(tmp_path / "fit.tp")
    again = tp.load(tmp_path / "fit.tp")
    assert again.corrected_log_evidence == tiny(1.0).corrected_log_evidence


# ---- other models and ways ------------------------------------------------------------------------------------


def test_known_weights_and_known_precision() -> None:
    """Figure 2.1: one datum, two means: ln s is the exact evidence, N(0 | 0, 1 + 10)."""
    model = tp.GaussianMixture(2, covariance=[[1.0]], weights=[0.5, 0.5], prior=tp.Normal([0.0], precision=[[0.1]]))
    fit = tp.fit(model, np.zeros((1, 1)), tp.EP(), seed=0)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(norm(0, np.sqrt(11.0)).logpdf(0.0), abs=1e-10)


@pytest.mark.slow
def test_stick_breaking_weights() -> None:
    """One datum, exact: the weights of a truncated stick-breaking prior sum to one."""
    model = tp.DirichletProcessMixture(3, prior=PRIOR, concentration=2.0)
    fit = tp.fit(model, TINY[:1], tp.EP(), seed=0)
    assert fit.log_evidence == pytest.approx(marginals.gaussian(TINY[:1], **HYPER), abs=1e-9)


@pytest.mark.slow
def test_filtering_a_stream_is_one_pass() -> None:
    """Two pieces, the second one short: the same numbers as one pass over the array, in the same order."""
    method = tp.EP(max_passes=1, schedule="sequential")
    model = tp.GaussianMixture(2, prior=PRIOR, init=[[-2.0], [1.0]])
    array = tp.fit(model, TINY, method, seed=0)
    stream = tp.fit(model, tp.Stream(TINY, piece_rows=4), method, seed=0)
    assert stream.log_evidence == pytest.approx(array.log_evidence, abs=1e-9)
    assert not array.converged and not stream.converged
    assert "assumed-density filtering" in array.notes[-1]
    with pytest.raises(UnsupportedMethod, match="needs all data in memory"):
        tp.fit(model, tp.Stream(TINY), tp.EP(), seed=0)


@pytest.mark.slow
def test_same_fixed_points_by_the_double_loop() -> None:
    """ln s rises from step to step and ends where plain EP does."""
    model = tp.GaussianMixture(2, prior=PRIOR)
    method = tp.EP(restarts=4, double_loop=True, warm_passes=1)
    fit = tp.fit(model, TINY, method, seed=0)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(tiny(1.0).log_evidence, abs=1e-7)
    steps = fit.history["log_evidence"][method.warm_passes :]
    assert len(steps) > 2 and np.diff(steps).min() > -1e-9
    value = objective(1.0, fit.model, fit.data, fit.state.blocks, fit.details["sites"])
    assert float(value) == pytest.approx(fit.log_evidence, abs=1e-8)


# ---- reports --------------------------------------------------------------------------------------------------


def fake_run(evidence: list[float], skipped: list[int], change: list[float], done: list[bool]) -> Run:
    model, _ = tp.GaussianMixture(2, prior=PRIOR).prepare(TINY)
    blocks = {name: family for name, family in model.prior.items()}
    states = [
        Approximation(blocks, blocks, jnp.asarray(True), empty_sites(blocks, 7), jnp.asarray(value), {})
        for value in evidence
    ]
    history = {
        "log_evidence": np.array([evidence]),
        "change": np.array([change]),
        "skipped": np.array([skipped]),
        "corrected": np.ones((1, len(done)), dtype=bool),
    }
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return Run(stacked, np.array(evidence), history, np.array(done), 0.0, False)


def test_frozen_run_never_wins() -> None:
    """A run that skips factors can have any ln s: it loses to every run that did not, converged or not."""
    _, data = tp.GaussianMixture(2, prior=PRIOR).prepare(TINY)
    frozen_and_converged = fake_run([-5.0, -11.0, -12.0], [3, 0, 0], [0.0, 1e-9, 1e-9], [False, True, True])
    result = conclude(tp.EP(restarts=3), data, frozen_and_converged)
    assert result.converged and result.log_evidence == -11.0
    frozen_and_moving = fake_run([-5.0, -11.0], [3, 0], [0.0, 0.3], [False, False])
    result = conclude(tp.EP(restarts=2), data, frozen_and_moving)
    assert not result.converged and result.log_evidence == -11.0
    assert "no restart converged" in result.notes[0] and "0.3" in result.notes[0]
    only_frozen = fake_run([-5.0], [3], [0.0], [False])
    result = conclude(tp.EP(), data, only_frozen)
    assert not result.converged and result.details["skipped"] == 3


def test_run_that_is_stopped_early_says_so() -> None:
    fit = tp.fit(tp.GaussianMixture(2, prior=PRIOR), TINY, tp.MessagePassing(1.0, restarts=4, max_passes=2), seed=0)
    assert not fit.converged
    assert fit.details["change"] > 1e-5
    assert "no restart converged in 2 passes" in fit.notes[-1]
    assert all(bool(jnp.all(family.is_proper())) for family in fit.posterior.values())


def test_above_one_is_refused_where_it_does_not_exist() -> None:
    _, data = tp.GaussianMixture(2, prior=PRIOR).prepare(TINY)
    skipping = fake_run([-5.0, -6.0], [3, 7], [0.0, 0.0], [False, False])
    with pytest.raises(NumericalFailure, match="at least 3 of the 7 data in every restart; use alpha of at most 1"):
        conclude(tp.MessagePassing(3.0, restarts=2), data, skipping)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -0.5}, "alpha must be a number 0, or from 1e-4 up, got -0.5"),
        ({"alpha": 1e-6}, "alpha must be"),
        ({"alpha": "ep"}, "alpha must be"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"damping": 1.0}, "damping must be a number at least 0 and below 1"),
        ({"restarts": 0}, "restarts must be a whole number of at least 1, got 0"),
        ({"max_passes": 2.5}, "max_passes must be"),
        ({"warm_passes": -1}, "warm_passes must be"),
        ({"tol": -1.0}, "tol must be"),
        ({"schedule": "backwards"}, "schedule must be 'random' or 'sequential'"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.MessagePassing(**({"alpha": 1.0} | options))


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda: tp.EP(double_loop=True, damping=0.5), InvalidParameter, "damping is for plain passes"),
        (lambda: tp.EP(double_loop="yes"), InvalidParameter, "double_loop must be True or False"),
        (
            lambda: tp.fit(tp.SwitchingStateSpace(2, 1), TINY, tp.EP()),
            UnsupportedMethod,
            "this SwitchingStateSpace declares none",
        ),
        (
            lambda: tp.fit(tp.StudentMixture(2), TINY, tp.EP()),
            UnsupportedMethod,
            "the scale of each datum",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(2, weights="point"), TINY, tp.EP()),
            UnsupportedMethod,
            "fixed conjugate prior for the weights",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(2), TINY, tp.EP(), weights=np.full(7, 0.5)),
            InvalidData,
            "weights must be 0 or 1 for EP",
        ),
    ],
)
def test_wrong_combinations(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()


@pytest.mark.skipif("TEMPERANCE_DATA" not in os.environ, reason="the enzyme data are not bundled")
@pytest.mark.slow
def test_enzyme() -> None:
    x = tp.datasets.load("enzyme")
    fit = tp.fit(tp.GaussianMixture(3, prior=PRIOR), x, tp.EP(restarts=20), seed=0)
    assert fit.log_evidence == pytest.approx(-82.34, abs=0.005)
