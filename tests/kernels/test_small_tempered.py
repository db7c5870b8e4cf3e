"""Tempered sweeps of small mixtures in NumPy: the energies of the path, draws with the right law, nothing compiled."""

import jax
import numpy as np
import pytest
from scipy import stats

import temperance as tp
from temperance.inference.monte_carlo.gibbs import State
from temperance.inference.monte_carlo.path import Path
from temperance.kernels import small_tempered
from temperance.numerics.streams import Streams

ENGINE = "small mixture (numpy)"
BETAS = np.array([0.0, 0.01, 0.4, 1.0])


def made(d, weights, n=60):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(n, d)) + 3.0 * rng.integers(2, size=(n, 1))
    prior = tp.NormalWishart(np.full(d, 0.5), 0.3, d + 1.5, np.eye(d) + 0.3)
    return tp.GaussianMixture(2, prior=prior, weights=weights).prepare(x)


def streams(size, seed=0):
    return Streams(np.random.default_rng(seed).integers(2**63, size=size).astype(np.uint64))


@pytest.mark.parametrize(("d", "weights"), [(2, "dirichlet"), (1, [0.3, 0.7])])
def test_energies_and_priors_are_those_of_the_path(d, weights):
    model, data = made(d, weights)
    here, path = small_tempered.problem(model, data), Path({})
    drawn = here.prior_draws(streams(4), 1)
    states = State(here.to_draws(drawn), {})
    every = jax.vmap(lambda one, beta: path.potential(model, one, data, beta))
    value, slope = jax.jvp(lambda betas: every(states, betas), (BETAS,), (np.ones(4),))
    found, inclined = here.potential_and_slope(drawn, here.levels(drawn), BETAS)
    np.testing.assert_allclose(found, value, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(inclined, slope, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(here.potential(drawn, here.levels(drawn), BETAS), value, rtol=1e-10, atol=1e-8)
    density = jax.vmap(lambda draw: model.log_prior(model.statistics(draw)))(states.draws)
    np.testing.assert_allclose(here.log_prior(drawn), density, rtol=1e-10)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_sweeps_draw_as_those_of_the_path(beta):
    """From the same draws, many sweeps by each: the same law of every coordinate."""
    model, data = made(2, "dirichlet", 12)
    here, size = small_tempered.problem(model, data), 4000
    start = here.prior_draws(streams(size), 1)
    ours = here.to_draws(here.sweep(streams(size, 1), start, here.levels(start), np.full(size, beta)))
    path, keys = Path({}), jax.random.split(jax.random.key(0), size)

    def sweep(key, draws):
        state = State(draws, {})
        return path.start(key, model, data) if beta == 0 else path.sweep(key, model, state, data, beta)

    theirs = jax.jit(jax.vmap(sweep))(keys, here.to_draws(start)).draws
    for here_, there in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        for one, other in zip(here_.reshape(size, -1).T, np.asarray(there).reshape(size, -1).T, strict=True):
            assert stats.ks_2samp(one, other).pvalue > 1e-4


def test_streams_have_the_laws_they_are_named_after():
    drawn = streams(200)
    assert stats.kstest(drawn.uniform(100).ravel(), "uniform").pvalue > 1e-3
    assert stats.kstest(drawn.normal(100).ravel(), "norm").pvalue > 1e-3
    for shape in (0.05, 0.7, 8.0):
        found = np.exp(drawn.log_gamma(np.full((200, 100), shape)))
        assert stats.kstest(found.ravel(), stats.gamma(shape).cdf).pvalue > 1e-3
    shapes = np.linspace(0.1, 3.0, 5)[:, None]
    whole, part = streams(5), Streams(streams(5).seeds[3:])
    np.testing.assert_array_equal(whole.log_gamma(shapes)[3:], part.log_gamma(shapes[3:]))
    np.testing.assert_array_equal(whole.uniform(2)[3:], part.uniform(2))  # whatever the others rejected


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(
            tp.ParallelTempering(draws=1500, warmup=500, replicas=8, reference="prior"), marks=pytest.mark.slow
        ),
        tp.AIS(particles=200, temperatures=60, reference="prior"),
    ],
    ids=["replicas", "particles"],
)
@pytest.mark.usefixtures("engines")
def test_fits_agree_with_the_compiled_engine(monkeypatch, method):
    monkeypatch.setattr("temperance.kernels.gaussian_replicas.at_hand", lambda *_: False)
    x = np.random.default_rng(0).normal(size=(25, 1)) * np.repeat([1.0, 3.0], [10, 15])[:, None]
    plain = tp.fit(tp.GaussianMixture(2), x, method, engine="plain")
    ours = tp.fit(tp.GaussianMixture(2), x, method)
    assert (plain.details["engine"], ours.details["engine"]) == ("plain", ENGINE)
    error = np.hypot(plain.details["standard_error"], ours.details["standard_error"])
    assert abs(plain.log_evidence - ours.log_evidence) < 4.0 * error + 0.02
    assert ours.history.keys() == plain.history.keys()
    for name, values in plain.history.items():
        assert (np.shape(ours.history[name]), ours.history[name].dtype) == (np.shape(values), values.dtype)
    again = tp.fit(tp.GaussianMixture(2), x, method)
    assert again.log_evidence == ours.log_evidence
