"""Factorial mixtures against the sum over all 2^(NK) activations, with means, noise and π integrated out."""

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, logsumexp
from scipy.stats import multivariate_normal, multivariate_t, norm

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter
from temperance.models import Data, Posterior, Powers, Way
from temperance.models._derive import ascend_in_turn
from temperance.models._model import means

N, K, D = 4, 2, 2
X = np.random.default_rng(1).normal(size=(N, D)) + np.array([[0, 0], [2, 0], [2, 2], [0, 2]])
STATES = ((np.arange(2 ** (N * K))[:, None] >> np.arange(N * K)) & 1).reshape(-1, N, K).astype(float)

KNOWN: dict[str, Any] = {"noise": 0.3, "probability": [0.3, 0.6], "factor_variance": 2.0}
UNKNOWN: dict[str, Any] = {
    "noise": tp.Gamma(2.0, 0.7),
    "probability": tp.Beta([1.0, 2.0], [1.5, 1.0]),
    "factor_variance": 2.0,
}
KINDS = {"known": KNOWN, "unknown": UNKNOWN}
kinds = pytest.mark.parametrize("kind", KINDS)


def log_prior_of(z: np.ndarray, kind: str) -> float:
    if kind == "known":
        p = np.array(KNOWN["probability"])
        return float(np.sum(z * np.log(p) + (1 - z) * np.log(1 - p)))
    a, b, on = np.array([1.0, 2.0]), np.array([1.5, 1.0]), z.sum(axis=0)
    return float(np.sum(betaln(a + on, b + len(z) - on) - betaln(a, b)))


def log_data_given(z: np.ndarray, kind: str) -> float:
    """Each column of X is Gaussian given z, or all of X Student-t."""
    if kind == "known":
        covariance = 0.3 * np.eye(len(z)) + 2.0 * z @ z.T
        return float(multivariate_normal(np.zeros(len(z)), covariance).logpdf(X[: len(z)].T).sum())
    # The prior variance of a factor, 2, is for the noise variance b/a = 0.35.
    shape = 0.35 * np.eye(len(z)) + 2.0 * z @ z.T
    return float(multivariate_t(shape=np.kron(np.eye(D), shape), df=4.0).logpdf(X[: len(z)].T.ravel()))


@cache
def log_joints(kind: str) -> np.ndarray:
    """log p(X, Z) for every Z."""
    return np.array([log_prior_of(z, kind) + log_data_given(z, kind) for z in STATES])


@cache
def prepared(kind: str) -> tuple[tp.FactorialMixture, Data]:
    return tp.FactorialMixture(K, **KINDS[kind]).prepare(X)


@kinds
def test_bound_with_z_known_is_the_exact_evidence(kind: str) -> None:
    """With z pinned, one update of the globals gives their exact posterior, and the bound is log p(X, Z)."""
    model, data = prepared(kind)
    for number in (0, 37, 202, 255):
        z = jnp.asarray(STATES[number])
        pinned = {"z": tp.BernoulliDistribution(logit=jnp.where(z > 0, jnp.inf, -jnp.inf))}
        q = model.initial(jax.random.key(0), data)
        walked = model.walk(means(q.blocks), data, Way(local_steps=0), pinned)
        blocks = {name: p.with_natural(p.natural + walked.messages[name]) for name, p in model.prior.items()}
        bound = model.bound(Posterior(blocks, pinned), data)
        np.testing.assert_allclose(bound, log_joints(kind)[number], rtol=1e-10)


@cache
def fitted(kind: str) -> tp.Fit:
    return tp.fit(tp.FactorialMixture(K, **KINDS[kind]), X.reshape(N, 1, D), tp.VB(restarts=8), seed=1)


@kinds
def test_bound_rises_and_stays_below_the_exact_evidence(kind: str) -> None:
    fit = fitted(kind)
    exact = logsumexp(log_joints(kind))
    assert exact - 2.5 < fit.log_evidence < exact
    assert fit.converged and (np.diff(fit.history["elbo"]) > -1e-9).all()


@kinds
def test_sweep_equals_the_derived_updates(kind: str) -> None:
    model, data = prepared(kind)
    q = model.initial(jax.random.key(2), data)
    m = means(q.blocks)
    for powers in (Powers(), Powers(jnp.asarray([0.2, 0.5, 1.0, 0.0]), jnp.asarray([0.3, 0.5, 1.0, 1.0]))):
        ours = model.ascend_local(m, data.values, powers, q.locals, 2)["z"]
        derived = ascend_in_turn(model, m, data.values, powers, q.locals, 2)["z"]
        np.testing.assert_allclose(ours.natural.indicator, derived.natural.indicator, rtol=1e-12, atol=1e-12)


@kinds
def test_log_evidence_of_a_draw_is_the_density(kind: str) -> None:
    model, data = prepared(kind)
    draws = model.sample_prior(jax.random.key(3))
    local = model.sample_local_prior(jax.random.key(4), data.values, draws)
    factors = draws["factors"] if kind == "known" else draws["factors"].weights
    variance = 0.3 if kind == "known" else 1.0 / draws["factors"].precision
    p = np.array(KNOWN["probability"]) if kind == "known" else np.asarray(draws["probability"])
    z = np.asarray(local["z"])
    log_x = norm(z @ np.asarray(factors), np.sqrt(variance)).logpdf(X).sum(axis=1)
    log_z = (z * np.log(p) + (1 - z) * np.log1p(-p)).sum(axis=1)
    m = model.statistics(draws) | model._local_statistics(model.statistics(draws), data, local)
    np.testing.assert_allclose(model.log_evidence(m, data.values), log_x, rtol=1e-10)
    heated = model._datum(m, data.values, Powers(0.4, 0.7), None)
    np.testing.assert_allclose(heated, 0.4 * log_x + 0.7 * log_z, rtol=1e-10)


@kinds
def test_gibbs_finds_the_exact_posterior(kind: str) -> None:
    """The number of active factors of each datum, and which data share them, against enumeration."""
    model, data = prepared(kind)
    chains, burn, sweeps = 200, 20, 100

    @eqx.filter_jit
    @jax.vmap
    def run(key: Any) -> Any:
        keys = jax.random.split(key, burn + sweeps + 2)
        draws = model.sample_prior(keys[0])
        local = model.sample_local_prior(keys[1], data.values, draws)

        def body(state: Any, key: Any) -> Any:
            draws, local = model.gibbs(key, *state[:1], data, Powers(), state[1])
            return (draws, local), local["z"]

        return jax.lax.scan(body, (draws, local), keys[2:])[1][burn:]

    z = np.asarray(run(jax.random.split(jax.random.key(5), chains)))
    weights = np.exp(log_joints(kind) - logsumexp(log_joints(kind)))
    for summary in (lambda z: z.sum(axis=-1), lambda z: z @ z.swapaxes(-1, -2)):
        exact = np.tensordot(weights, summary(STATES), axes=1)
        by_chain = summary(z).mean(axis=1)
        error = by_chain.std(axis=0) / np.sqrt(chains)
        assert (np.abs(by_chain.mean(axis=0) - exact) < 4.5 * error).all()


@pytest.mark.slow
@kinds
def test_predictive_integrates_to_one_and_is_the_density_of_samples(kind: str) -> None:
    fit, width, size = fitted(kind), 12.0, 401
    grid = np.linspace(-width, width, size)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 1, 1, D)[:, 0]
    mass = np.exp(fit.log_predictive(points)) * (grid[1] - grid[0]) ** 2
    # A Student-t with few degrees of freedom has mass outside the grid.
    np.testing.assert_allclose(mass.sum(), 1.0, atol=1e-6 if kind == "known" else 2e-3)
    draws = fit.sample(0, 20_000)
    for corner in ((1.0, 1.0), (0.0, 2.0), (-0.5, 0.5)):
        below = np.all(points[:, 0] < corner, axis=1)
        expected, seen = mass[below].sum(), np.all(draws[:, 0] < corner, axis=1).mean()
        assert abs(expected - seen) < 4 * np.sqrt(expected / len(draws)) + 0.01


@pytest.mark.slow
def test_predictive_bound_of_many_factors_is_below_the_sum() -> None:
    model, data = prepared("known")
    q, x = fitted("known").state, data.values
    exact = model.log_predictive(q, x)
    local = model._explain(q, x)
    bound = model._datum(means(q.blocks) | means(local), x, Powers(), None)
    bound = bound + jnp.sum(local["z"].entropy(), axis=1)
    assert (bound < exact).all() and (bound > exact - 3.0).all()


@pytest.mark.slow
def test_images_in_and_components_out() -> None:
    fit = fitted("known")
    assert fit.components.shape == (K, 1, D)
    np.testing.assert_allclose(fit.components.reshape(K, D), fit.posterior["factors"].location)
    assert fit.sample(0, 3).shape == (3, 1, D)
    on = fit.responsibilities(X.reshape(N, 1, D))
    assert on.shape == (N, K) and (on >= 0).all() and (on <= 1).all()
    with pytest.raises(InvalidData, match=r"shape \(2,\), but the model is for \(1, 2\)"):
        fit.log_predictive(X)


def test_mistakes_are_named() -> None:
    for wrong in (
        {"noise": -1.0},
        {"probability": 1.0},
        {"probability": [0.1, 0.2, 0.3]},
        {"factor_variance": 0.0},
        {"init": "kmeans"},
        {"init": np.zeros((3, 2))},
    ):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            tp.FactorialMixture(2, **wrong)
    with pytest.raises(InvalidParameter, match="n_factors"):
        tp.FactorialMixture(0)
    with pytest.raises(InvalidData, match="init has factors of 3 entries"):
        tp.fit(tp.FactorialMixture(2, init=np.zeros((2, 3))), X)


def toy_images(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight binary 4 × 4 images, weighted by [0.5, 1], noise variance 0.1, π = 0.3 (variational-tempering, 4)."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.eye(4)[:, :, None], 4, axis=2)
    shapes = np.concatenate([rows, rows.swapaxes(1, 2)])
    factors = shapes * rng.uniform(0.5, 1.0, (8, 1, 1))
    z = rng.random((n, 8)) < 0.3
    return np.tensordot(z, factors, axes=1) + np.sqrt(0.1) * rng.normal(size=(n, 4, 4)), factors


@pytest.mark.slow
def test_toy_images_are_taken_apart() -> None:
    images, factors = toy_images(2000)
    model = tp.FactorialMixture(8, noise=0.1, probability=0.3, factor_variance=0.35)
    fit = tp.fit(model, images, tp.VB(restarts=20), seed=0)
    distance = np.abs(fit.components[:, None] - factors[None]).max(axis=(2, 3))
    assert (distance.min(axis=0) < 0.2).all()
