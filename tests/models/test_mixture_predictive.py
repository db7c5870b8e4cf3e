"""The predictive density integrates to one, new data are drawn from it, and surplus components can be weighed away."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

import temperance as tp
from temperance.models import Posterior
from tests.exact.pairs import LEVELS, PAIRS, Pair
from tests.matrix.problems import ascents
from tests.matrix.registry import ENTRIES
from tests.models.small import VB, X, mixture


@eqx.filter_jit
def predict(model: tp.Mixture, q: Posterior, rows: Any) -> Any:
    return model.log_predictive(q, rows)


def observations(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Everything that can be observed, and its weight in a sum or an integral.

    Of a Gaussian, the first column with the second missing: that this is the integral over the second is tested
    with the missing values.
    """
    if pair.name == "multinomial":
        rows = np.array([[i, 5.0 - i] for i in range(6)])
        return rows, np.ones(len(rows))
    discrete = {"Bernoulli": 2, "categorical": LEVELS, "Poisson with holes": 250}.get(pair.name)
    if discrete:
        rows = np.stack(np.meshgrid(np.arange(discrete), np.arange(discrete)), axis=-1).reshape(-1, 2)
        return rows.astype(float), np.ones(len(rows))
    # x = sinh u: a Student-t of two degrees of freedom has 10⁻¹¹ left at sinh 14.
    u = np.linspace(-14, 14, 20001)
    return np.stack([np.sinh(u), np.full(u.shape, np.nan)], axis=1), np.cosh(u) * (u[1] - u[0])


def light_tails(pair: Pair, model: tp.Mixture) -> bool:
    """Whether a grid can hold the predictive of a component without data."""
    prior = model.prior["components"]
    if pair.name.startswith("full"):
        return float(prior.dof[0]) - 1 > 2
    if pair.name.startswith("spherical"):
        return float(prior.dof[0]) > 2
    if pair.name.startswith("diagonal"):
        return float(prior.inner.dof.min()) > 2
    return not pair.name.startswith("Poisson") or float(prior.inner.rate.min()) > 0.5


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.name != "full"], ids=repr)
def test_sums_to_one(pair: Pair) -> None:
    """At posteriors of the registry's problems, those that a grid can hold."""
    (entry,) = (entry for entry in ENTRIES if entry.name == f"mixture, {pair}")
    run = ascents(entry)
    arrays, static = eqx.partition((run.models, run.posteriors), eqx.is_array)
    rows, weights = observations(pair)
    checked = 0
    for number in range(len(run.bounds)):
        model, q = eqx.combine(jax.tree.map(lambda leaf, i=number: leaf[i], arrays), static)
        if checked < 5 and light_tails(pair, model):
            density = np.exp(np.asarray(predict(model, q, jnp.asarray(rows))))
            assert weights @ density == pytest.approx(1.0, abs=1e-6)
            checked += 1
    assert checked == 5


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_integrates_to_one_in_the_plane(covariance: str) -> None:
    model = mixture() if covariance == "full" else tp.GaussianMixture(2, covariance="tied")
    fit = tp.fit(model, X, VB)
    values = np.arange(-60.0, 60.0, 0.3)
    grid = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    assert np.exp(fit.log_predictive(grid)).sum() * 0.3**2 == pytest.approx(1.0, abs=1e-4)


@pytest.mark.slow
def test_samples_are_draws_of_the_predictive() -> None:
    """Each column against its marginal density: the predictive with the other column missing."""
    fit = tp.fit(mixture(missing="marginalise"), X, VB)
    draws = fit.sample(3, 4000)
    assert draws.shape == (4000, 2)
    u = np.linspace(-10, 10, 2001)
    values = 3 * np.sinh(u)
    for column in range(2):
        rows = np.full((len(values), 2), np.nan)
        rows[:, column] = values
        density = np.exp(fit.log_predictive(rows)) * 3 * np.cosh(u)
        steps = 0.5 * (density[1:] + density[:-1]) * np.diff(u)
        cumulative = np.concatenate([[0.0], np.cumsum(steps)])
        assert cumulative[-1] == pytest.approx(1.0, abs=1e-4)
        assert kstest(draws[:, column], lambda x, c=cumulative: np.interp(x, values, c)).pvalue > 1e-3
    # And the columns go together: the share of draws in each quadrant is that of the components there.
    same_side = np.mean(np.prod(draws, axis=1) > 0)
    assert same_side > 0.9


@pytest.mark.slow
def test_estimated_weights_prune() -> None:
    """With weights as a point estimate (automatic relevance) surplus components lose all their data."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-5, 1, 40), rng.normal(5, 1, 20)])[:, None]
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=5.0, scatter=[[5.0]])
    fit = tp.fit(tp.GaussianMixture(5, prior=prior, weights="point"), x, tp.VB(restarts=5, max_iter=3000, tol=1e-8))
    weights = np.sort(np.asarray(fit.posterior["weights"].mode()))
    assert weights.sum() == pytest.approx(1.0)
    assert (weights[:3] < 1e-6).all()
    np.testing.assert_allclose(weights[3:], [1 / 3, 2 / 3], atol=0.01)
    assert np.isfinite(fit.log_predictive(x)).all()
    assert np.isfinite(fit.sample(0, 100)).all()
