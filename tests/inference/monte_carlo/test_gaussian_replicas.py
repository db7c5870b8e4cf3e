"""The kernel of tempered Gaussian mixtures: its energies are those of the path, and its draws have the right law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import temperance as tp
from temperance.inference.monte_carlo.gaussian_replicas import has_kernel, sweep_replicas
from temperance.inference.monte_carlo.gibbs import State
from temperance.inference.monte_carlo.parallel_tempering import _neighbours
from temperance.inference.monte_carlo.path import Path

BETAS = jnp.asarray([0.0, 0.01, 0.4, 1.0])


def problem(d: int, weights: str | list[float]) -> tuple[tp.GaussianMixture, tp.models.Data]:
    rng = np.random.default_rng(d)
    x = rng.normal(size=(300, d)) + 3.0 * rng.integers(2, size=(300, 1))
    prior = tp.NormalWishart(np.full(d, 0.5), 0.3, d + 1.5, np.eye(d) + 0.3)
    return tp.GaussianMixture(2, prior=prior, weights=weights).prepare(x)


@pytest.mark.parametrize(
    ("d", "weights"),
    [
        (2, "dirichlet"),
        pytest.param(1, [0.3, 0.7], marks=pytest.mark.slow),
        pytest.param(3, "dirichlet", marks=pytest.mark.slow),
    ],
)
def test_energies_are_those_of_the_path(d: int, weights: str | list[float]) -> None:
    model, data = problem(d, weights)
    path = Path({})
    assert has_kernel(model, data, path)
    start = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), len(BETAS)))
    neighbours = _neighbours(BETAS)
    states, energies, slopes = jax.jit(
        lambda key: sweep_replicas(key, model, data, State(start, {}), neighbours, jnp.ones(4, dtype=int), 3)
    )(jax.random.key(1))
    expected = jax.jit(jax.vmap(lambda one, three: path.energies(model, one, data, three)))(states, neighbours)
    for ours, theirs in zip((*energies.T, slopes), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-8)


def test_data_sets_side_by_side() -> None:
    """Under `vmap` over data sets each ensemble sees its own."""
    model, data = problem(2, "dirichlet")
    both = jnp.stack([data.values[:5], data.values[5:10]])
    start = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), len(BETAS)))
    own = jnp.ones(len(BETAS), dtype=int)

    def energies(key: jax.Array, values: jax.Array) -> jax.Array:
        part = tp.models.Data(values, jnp.ones(5), 5)
        return sweep_replicas(key, model, part, State(start, {}), _neighbours(BETAS), own, 1)[1]

    keys = jax.random.split(jax.random.key(1), 2)
    together = jax.jit(jax.vmap(energies))(keys, both)
    apart = jnp.stack([energies(key, values) for key, values in zip(keys, both, strict=True)])
    np.testing.assert_array_equal(together, apart)


def test_far_data_do_not_underflow() -> None:
    """A weight of nothing, and data far from every component."""
    model, data = problem(2, "dirichlet")
    draws = model.sample_prior(jax.random.key(0))
    far = jax.tree.map(lambda leaf: leaf[None], draws | {"weights": jnp.asarray([1.0, 0.0])})
    data = tp.models.Data(data.values * 1e4, data.weights, data.size)
    three = jnp.asarray([[0.9, 1.0, 1.0]])
    _, energies, _ = jax.jit(
        lambda key: sweep_replicas(key, model, data, State(far, {}), three, jnp.ones(1, dtype=int), 1)
    )(jax.random.key(1))
    assert np.isfinite(np.asarray(energies)).all()


def test_random_variables_have_their_laws() -> None:
    from temperance.numerics import host_random

    bits = np.asarray(jax.random.bits(jax.random.key(3), (4,), dtype=jnp.uint64)).copy()
    uniform = np.empty(20_000)
    again = bits.copy()
    host_random.fill_uniform(bits, uniform)
    assert [host_random.uniform(again) for _ in range(5)] == uniform[:5].tolist()
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    normal = np.array([host_random.normal(bits) for _ in range(20_000)])
    assert stats.kstest(normal, "norm").pvalue > 1e-3
    for shape in (0.05, 0.7, 1.0, 4.5, 300.0):
        draws = np.array([host_random.log_gamma_variate(bits, shape) for _ in range(10_000)])
        assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue > 1e-3, shape
    assert np.isnan(host_random.log_gamma_variate(bits, -1.0))


def test_a_draw_at_the_start_is_one_from_the_prior() -> None:
    """At β = 0 every number of a draw has the distribution that the families themselves give it."""
    model, data = problem(2, "dirichlet")
    keys = jax.random.split(jax.random.key(2), 2000)
    theirs = jax.jit(jax.vmap(model.sample_prior))(keys)
    zeros = jnp.zeros((2000, 3))
    data = tp.models.Data(data.values[:4], data.weights[:4], 4)
    ours = jax.jit(
        lambda key: sweep_replicas(key, model, data, State(theirs, {}), zeros, jnp.ones(2000, dtype=int), 1)
    )(keys[0])[0].draws
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        for one, other in zip(np.asarray(a).reshape((2000, -1)).T, np.asarray(b).reshape((2000, -1)).T, strict=True):
            assert stats.ks_2samp(one, other).pvalue > 1e-4
