"""The kernel for Gaussian mixtures does what the scan does, which other tests hold against exact integration."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.inference.messages.start import wrong_prior
from temperance.inference.messages.sweep import Passed, Sites, empty_sites, factors_of, one_pass
from temperance.kernels.gaussian_messages import has_kernel
from temperance.models._factors import Blocks
from temperance.numerics import special

SIZE, ROWS = 3, 9


def passes(alpha: float, d: int, weights: str | list[float], kernel: bool) -> Passed:
    """Three passes of two restarts, the last with a cavity that is improper, over data of which one is not there."""
    rng = np.random.default_rng(d)
    x = rng.normal(size=(ROWS, d)) + 4.0 * rng.integers(2, size=(ROWS, 1))
    prior = tp.NormalWishart(np.full(d, 0.3), 0.2, d + 0.5, np.eye(d) + 0.2)
    model = tp.GaussianMixture(SIZE, prior=prior, concentration=0.3, weights=weights)
    model, data = model.prepare(x)
    data = eqx.tree_at(lambda data: data.weights, data, data.weights.at[4].set(0.0))
    factors = dataclasses.replace(factors_of(model, data), gaussian=True)  # by the kernel, however few they are
    rows = len(data.weights)

    @jax.jit
    @jax.vmap
    def refresh(key: jax.Array, blocks: Blocks, sites: Sites) -> Passed:
        return one_pass(alpha, 0.3, factors, blocks, sites, jax.random.permutation(key, rows), kernel=kernel)

    keys = jax.random.split(jax.random.key(1), 2)
    blocks = jax.vmap(lambda key: wrong_prior(key, model, data, factors.each))(keys)
    assert has_kernel(alpha, factors.gaussian, factors.terms, blocks)
    sites = jax.vmap(lambda blocks: empty_sites(blocks, rows))(blocks)
    for number in range(3):
        if number == 2:
            components = sites.natural["components"]
            large = eqx.tree_at(lambda c: c.count, components, components.count.at[:, 2].set(1e3))
            sites = Sites(sites.natural | {"components": large}, sites.log_scale)
        passed = refresh(jax.vmap(jax.random.fold_in)(keys, jnp.full(2, number)), blocks, sites)
        blocks, sites = passed.blocks, passed.sites
    return passed


@pytest.mark.parametrize(
    ("alpha", "d", "weights"),
    [
        (1.0, 2, "dirichlet"),
        pytest.param(1.0, 1, [0.2, 0.3, 0.5], marks=pytest.mark.slow),
        pytest.param(1.0, 3, "dirichlet", marks=pytest.mark.slow),
        pytest.param(0.5, 2, "dirichlet", marks=pytest.mark.slow),
        pytest.param(0.3, 1, "dirichlet", marks=pytest.mark.slow),
        pytest.param(0.7, 3, [0.2, 0.3, 0.5], marks=pytest.mark.slow),
        pytest.param(1.0, 5, "dirichlet", marks=pytest.mark.slow),
    ],
)
def test_kernel_and_scan_agree(alpha: float, d: int, weights: str | list[float]) -> None:
    fast, scan = (passes(alpha, d, weights, kernel) for kernel in (True, False))
    assert (np.asarray(scan.skipped) >= 1).all()
    np.testing.assert_array_equal(fast.skipped, scan.skipped)
    # The search for α < 1 ends at a relative change of 1e-10 wherever it comes from.
    rtol = 1e-8 if alpha == 1.0 else 1e-6
    pairs = (jax.tree.leaves((part.blocks, part.sites)) for part in (fast, scan))
    for ours, theirs in zip(*pairs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@pytest.mark.slow
def test_data_sets_side_by_side() -> None:
    """Under `vmap` over data sets each pass sees its own."""
    x = np.random.default_rng(0).normal(size=(2, 4, 2))
    model, data = tp.GaussianMixture(2, prior=tp.NormalWishart(np.zeros(2), 0.2, 3.0, np.eye(2))).prepare(x[0])

    def refresh(values: jax.Array) -> jax.Array:
        part = eqx.tree_at(lambda data: data.values, data, values)
        factors = factors_of(model, part)
        blocks = wrong_prior(jax.random.key(0), model, part, factors.each)
        return one_pass(1.0, 0.0, factors, blocks, empty_sites(blocks, 4), jnp.arange(4)).sites.log_scale

    together = jax.jit(jax.vmap(refresh))(jnp.asarray(x))
    np.testing.assert_allclose(together, np.stack([refresh(jnp.asarray(one)) for one in x]), rtol=1e-12)


@pytest.mark.slow
def test_gamma_functions_agree() -> None:
    from temperance.kernels import _host_gamma as host_gamma

    x = np.geomspace(1e-3, 1e6, 40)
    slopes = np.array([host_gamma.digamma_and_slope(v) for v in x])
    np.testing.assert_allclose([host_gamma.log_gamma(v) for v in x], special.log_gamma(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(slopes[:, 0], special.digamma(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(slopes[:, 1], special.trigamma(x), rtol=1e-13)
    for d in (1, 2, 3):
        gaps = np.array([host_gamma.wishart_gap(d - 1 + v, d)[0] for v in x])
        np.testing.assert_allclose(gaps, special._wishart_gap(d - 1 + x, d)[0], rtol=1e-11)
        found = [host_gamma.inverse_wishart_gap(gap, d, d + 3.0) for gap in gaps]
        np.testing.assert_allclose(found, d - 1 + x, rtol=1e-8)
