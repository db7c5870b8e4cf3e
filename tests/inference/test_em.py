"""EM against scikit-learn, iteration by iteration; incremental against batch EM; and what has no maximum."""

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import beta, gamma, norm
from sklearn.mixture import GaussianMixture

import temperance as tp
from temperance.errors import InvalidParameter, NumericalFailure, UnsupportedMethod

X = np.concatenate([np.random.default_rng(0).normal(size=(25, 2)) @ [[1, 0.5], [0, 0.6]], np.zeros((15, 2))])
X[25:] += np.random.default_rng(1).normal([3.0, 1.0], 0.7, size=(15, 2))
SHARE = np.random.default_rng(2).dirichlet(np.ones(2), size=len(X))


@pytest.mark.parametrize(("form", "peer_form"), [("full", "full"), ("diagonal", "diag"), ("spherical", "spherical")])
def test_every_iteration_agrees_with_scikit_learn(form: str, peer_form: str) -> None:
    peer = GaussianMixture(2, covariance_type=peer_form, reg_covar=0.0)
    peer._initialize(X, SHARE)
    method = tp.EM(prior=False)
    model, data = tp.GaussianMixture(2, covariance=form, init=SHARE).prepare(X)
    state = eqx.filter_jit(method.init)(jax.random.key(0), model, data)
    step = eqx.filter_jit(method.step)
    for _ in range(12):
        blocks = model.units.to_user(state.blocks)
        mean, precision, _ = blocks["components"].mode()
        np.testing.assert_allclose(mean, peer.means_, atol=1e-8)
        covariance = np.linalg.inv(precision) if form == "full" else 1.0 / np.asarray(precision)
        np.testing.assert_allclose(covariance, peer.covariances_, atol=1e-8)
        np.testing.assert_allclose(blocks["weights"].mode(), peer.weights_, atol=1e-8)
        mean_log_likelihood, log_share = peer._e_step(X)
        state, info = step(jax.random.key(0), model, state, data)
        assert float(info["elbo"]) == pytest.approx(len(X) * mean_log_likelihood, abs=1e-8)
        peer._m_step(X, log_share)


@pytest.fixture(scope="module")
def likelihood_fit() -> tp.Fit:
    return tp.fit(tp.GaussianMixture(2, init=SHARE), X, tp.EM(prior=False, tol=1e-12))


@pytest.mark.slow
def test_predictive_is_the_plug_in_density(likelihood_fit: tp.Fit) -> None:
    peer = GaussianMixture(2, reg_covar=0.0, tol=1e-13, max_iter=2000)
    weights, mode = likelihood_fit.posterior["weights"].mode(), likelihood_fit.posterior["components"].mode()
    peer.weights_init, peer.means_init, peer.precisions_init = map(np.asarray, (weights, mode.mean, mode.precision))
    peer.fit(X)
    new = np.random.default_rng(3).normal(1.0, 2.0, size=(20, 2))
    np.testing.assert_allclose(likelihood_fit.log_predictive(new), peer.score_samples(new), atol=1e-5)
    np.testing.assert_allclose(likelihood_fit.responsibilities(new), peer.predict_proba(new), atol=1e-5)
    assert likelihood_fit.log_evidence == pytest.approx(len(X) * peer.score(X), abs=1e-8)


@pytest.mark.slow
def test_says_that_its_value_is_no_evidence(likelihood_fit: tp.Fit) -> None:
    assert any("not an evidence" in note for note in likelihood_fit.notes)
    assert likelihood_fit.converged
    assert likelihood_fit.details["log_likelihood"] == likelihood_fit.log_evidence


TINY = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.5, dof=3.0, scatter=[[0.8]])


def log_posterior(theta: np.ndarray) -> float:
    """Independent of the library: log p(x, π, μ, λ) of a two-component mixture in one dimension."""
    weight, mean, precision = theta[0], theta[1:3], theta[3:5]
    if not 0 < weight < 1 or np.any(precision <= 0):
        return -np.inf
    prior = beta.logpdf(weight, 2, 2) + np.sum(
        gamma.logpdf(precision, 1.5, scale=1 / 0.4) + norm.logpdf(mean, 0.0, (0.5 * precision) ** -0.5)
    )
    each = norm.logpdf(TINY[:, None], mean, precision**-0.5) + np.log([weight, 1 - weight])
    return float(prior + logsumexp(each, axis=1).sum())


@pytest.fixture(scope="module")
def posterior_fit() -> tp.Fit:
    model = tp.GaussianMixture(2, prior=PRIOR, concentration=2.0)
    return tp.fit(model, TINY[:, None], tp.EM(restarts=4, tol=1e-13))


def test_finds_the_mode_of_the_posterior(posterior_fit: tp.Fit) -> None:
    mode = posterior_fit.posterior["components"].mode()
    theta = np.concatenate([posterior_fit.posterior["weights"].mode()[:1], mode.mean[:, 0], mode.precision[:, 0, 0]])
    assert log_posterior(theta) == pytest.approx(posterior_fit.log_evidence, abs=1e-9)
    best = minimize(lambda t: -log_posterior(t), theta, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert -best.fun == pytest.approx(posterior_fit.log_evidence, abs=1e-8)
    np.testing.assert_allclose(theta, best.x, atol=1e-4)


def test_one_part_is_batch_em() -> None:
    model, data = tp.GaussianMixture(2, init=SHARE).prepare(X)
    whole, parts = tp.EM(prior=False), tp.EM(prior=False, incremental=True, batches=1)
    key = jax.random.key(0)

    @eqx.filter_jit
    def both(q, state):
        return whole.step(key, model, q, data)[0], parts.step(key, model, state, data)[0]

    q, state = eqx.filter_jit(lambda: (whole.init(key, model, data), parts.init(key, model, data)))()
    for _ in range(5):
        q, state = both(q, state)
        for mine, other in zip(jax.tree.leaves(state.posterior), jax.tree.leaves(q), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)


# One datum at a time, or seven parts, of which the last are a row shorter.
@pytest.mark.slow
@pytest.mark.parametrize("batches", [None, 7])
def test_incremental_em_has_the_same_fixed_points_in_fewer_passes(likelihood_fit: tp.Fit, batches: int | None) -> None:
    method = tp.EM(prior=False, tol=1e-12, incremental=True, batches=batches)
    fit = tp.fit(tp.GaussianMixture(2, init=SHARE), X, method)
    assert fit.log_evidence == pytest.approx(likelihood_fit.log_evidence, abs=1e-7)
    for name, block in fit.posterior.items():
        for mine, other in zip(
            jax.tree.leaves(block.mode()), jax.tree.leaves(likelihood_fit.posterior[name].mode()), strict=True
        ):
            np.testing.assert_allclose(mine, other, rtol=1e-4)
    # One pass more for the start; the bound must not fall (the loop checks every step, this is its end).
    assert len(fit.history["elbo"]) + 1 < len(likelihood_fit.history["elbo"])
    assert np.all(np.diff(fit.history["elbo"]) > -1e-9)


def test_a_collapsed_component_is_a_clear_error() -> None:
    lonely = np.tile([1.0, 0.0], (len(X), 1))
    lonely[7] = [0.0, 1.0]
    with pytest.raises(NumericalFailure, match=r"element 1 of 'components' has collapsed.*prior=True"):
        tp.fit(tp.GaussianMixture(2, init=lonely), X, tp.EM(prior=False))


@pytest.mark.slow
def test_a_collapsed_restart_is_left_out(posterior_fit: tp.Fit) -> None:
    x = np.random.default_rng(5).normal(size=(7, 1))
    fit = tp.fit(posterior_fit.model, x, tp.EM(prior=False, restarts=4))
    failed = np.isneginf(fit.history["restarts"])
    assert 0 < failed.sum() < 4
    assert fit.log_evidence == pytest.approx(fit.history["restarts"].max())
    assert f"{failed.sum()} of 4 restarts collapsed and were left out" in fit.notes
    assert not any(np.isnan(values).any() for values in fit.history.values())


def test_counts_by_maximum_likelihood() -> None:
    x = np.random.default_rng(0).poisson([1.0, 6.0], size=(13, 2))
    model, data = tp.Mixture(1, "poisson").prepare(x)
    state = eqx.filter_jit(tp.EM(prior=False).init)(jax.random.key(0), model, data)
    np.testing.assert_allclose(state.blocks["components"].mode()[0], x.mean(axis=0), rtol=1e-12)


def test_a_density_without_maximum_is_noted() -> None:
    x = np.random.default_rng(6).normal(scale=0.01, size=(7, 1))
    fit = tp.fit(tp.GaussianMixture(2, prior=PRIOR, concentration=0.01), x, tp.EM(restarts=4))
    assert np.min(fit.posterior["weights"].mode()) == 0.0
    assert any("'weights' has no maximum" in note for note in fit.notes)
    assert np.isfinite(fit.log_evidence)


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidParameter, match="batches must be a whole number of at least 1, got 0"):
        tp.EM(incremental=True, batches=0)
    with pytest.raises(InvalidParameter, match="batches is for incremental=True"):
        tp.EM(batches=3)
    process = tp.DirichletProcessMixture(3, concentration=tp.Gamma(1.0, 1.0))
    with pytest.raises(UnsupportedMethod, match="'sticks' in DirichletProcessMixture depends on other parameters"):
        tp.fit(process, X, tp.EM(prior=False))
