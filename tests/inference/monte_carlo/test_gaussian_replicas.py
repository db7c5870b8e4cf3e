"""The kernel of tempered Gaussian mixtures: its energies are those of the path, and its draws have the right law."""

import dataclasses
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import temperance as tp
from temperance.diagnostics.geweke import calibration_test
from temperance.inference.monte_carlo.gibbs import State
from temperance.inference.monte_carlo.path import Path
from temperance.inference.monte_carlo.replicas import Replicas, Seen
from temperance.inference.schedules import equal_rejection
from temperance.kernels import gaussian_replicas
from temperance.kernels.gaussian_replicas import when

BETAS = jnp.asarray([0.0, 0.01, 0.4, 1.0])


def standing(draws: dict[str, Any], betas: jax.Array) -> Replicas:
    k, zero = len(betas), jnp.asarray(0)
    return Replicas(State(draws, {}), betas, jnp.zeros(k - 1), jnp.arange(k), zero, zero)


def start(model: tp.GaussianMixture) -> Replicas:
    draws = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(0), len(BETAS)))
    return standing(draws, BETAS)


def method(replicas: Replicas, sweeps: int = 1, **options: Any) -> tp.ParallelTempering:
    """A step of so many sweeps by the kernel."""
    return tp.ParallelTempering(replicas=len(replicas.betas), block=sweeps, **options)


def advance(
    model: tp.GaussianMixture, data: tp.models.Data, replicas: Replicas, sweeps: int = 1, **options: Any
) -> tuple[Replicas, Seen]:
    chosen = method(replicas, sweeps, **options)
    return jax.jit(lambda key: chosen._sweep_by_kernel(key, model, replicas, data))(jax.random.key(1))


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
    after, found = advance(model, data, start(model), thin=3, multistate=True)
    potential = jax.vmap(lambda one, beta: path.potential(model, one, data, beta), in_axes=(None, 0))
    expected = jax.jit(jax.vmap(potential, in_axes=(0, None)))(after.states, BETAS)
    # What was measured is in the order before the swaps, the states are in that after them.
    table = np.asarray(found.table)[0]
    np.testing.assert_allclose(table[after.identity], expected, rtol=1e-10, atol=1e-8)
    slopes = jax.jit(jax.vmap(lambda one, beta: jax.grad(lambda b: path.potential(model, one, data, b))(beta)))(
        after.states, BETAS[after.identity]
    )
    np.testing.assert_allclose(found.energies[0, :, 3][after.identity], slopes, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(found.energies[0, :, 1], table.diagonal())
    # The same draws with energies at the neighbours alone.
    _, fewer = advance(model, data, start(model), thin=3)
    for ours in (found, fewer):
        np.testing.assert_allclose(ours.forward[0], np.diff(table, axis=1).diagonal(), atol=1e-8)
        np.testing.assert_allclose(ours.backward[0], np.diff(table, axis=1)[1:].diagonal(), atol=1e-8)


@pytest.mark.parametrize("ends", [(30,), (16, 32)])
def test_sweeps_in_a_row(ends: tuple[int, ...]) -> None:
    """States travel with their names, and the ladder moves at the ends of rounds, also in the middle of a call."""
    model, data = problem(2, "dirichlet")
    after, found = advance(model, data, start(model), sweeps=40, warmup=ends[-1])
    acceptance = np.exp(np.minimum(found.forward - found.backward, 0.0))
    betas = BETAS
    for begin, end in zip((0, *ends), (*ends, 40), strict=True):
        np.testing.assert_allclose(found.betas[begin:end], np.tile(betas, (end - begin, 1)), rtol=1e-10)
        rejection = 1.0 - acceptance[begin:end].mean(axis=0)
        betas = equal_rejection(betas, jnp.asarray(rejection)) if end < 40 else betas
    np.testing.assert_allclose(after.betas, betas, rtol=1e-10)
    np.testing.assert_allclose(after.rejection, rejection, atol=1e-12)
    assert (int(after.step), int(after.began)) == (40, ends[-1])
    names = np.concatenate([found.identity, after.identity[None]])
    np.testing.assert_array_equal(np.sort(names, axis=1), np.tile(np.arange(4), (41, 1)))
    stays = names[1:] == names[:-1]
    swapped = np.array([[names[t + 1, i] == names[t, i + 1] != names[t, i] for i in range(3)] for t in range(40)])
    offered = np.array([[i % 2 == t % 2 for i in range(3)] for t in range(40)])
    assert not swapped[~offered].any()
    assert stays[~(np.pad(swapped, ((0, 0), (0, 1))) | np.pad(swapped, ((0, 0), (1, 0))))].all()
    # As many swaps as the acceptances say, within four standard errors.
    error = np.sqrt(np.sum((acceptance * (1.0 - acceptance))[offered]))
    assert abs(swapped.sum() - acceptance[offered].sum()) < 4 * error
    assert 0 < swapped.sum() < offered.sum()


@pytest.mark.parametrize("step", [-(2**63), 2**63 - 1])
def test_a_checkpoint_may_hold_any_number_of_steps(step: int) -> None:
    """The kernel once wrote its measurements to rows before its arrays."""
    model, data = problem(1, [0.3, 0.7])
    replicas = start(model)._replace(step=jnp.asarray(step))
    _, found = advance(model, data, replicas, sweeps=4)
    assert np.isfinite(found.energies[..., 1]).all() and (np.sort(found.identity) == np.arange(len(BETAS))).all()


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = problem(2, "dirichlet")
    replicas = start(model)
    chosen = method(replicas, 5, swaps="random")
    sweep = jax.jit(lambda key: chosen._sweep_by_kernel(key, model, replicas, data))
    results = []
    for threads, worth in (("1", 10**9), ("2", 0), ("3", 0)):
        monkeypatch.setenv("TEMPERANCE_THREADS", threads)
        monkeypatch.setattr(gaussian_replicas, "_WORTH_SHARING", worth)
        results.append(sweep(jax.random.key(1)))
    for other in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, results[0], other)


@pytest.mark.slow
def test_data_sets_side_by_side() -> None:
    """Under `vmap` over data sets each ensemble sees its own."""
    model, data = problem(2, "dirichlet")
    both = jnp.stack([data.values[:5], data.values[5:10]])
    chosen = method(start(model), 3, multistate=True)

    def energies(key: jax.Array, values: jax.Array) -> jax.Array:
        part = tp.models.Data(values, jnp.ones(5), 5)
        found = chosen._sweep_by_kernel(key, model, start(model), part)[1].table
        assert found is not None
        return found

    keys = jax.random.split(jax.random.key(1), 2)
    together = jax.jit(jax.vmap(energies))(keys, both)
    alone = jax.jit(energies)
    apart = jnp.stack([alone(key, values) for key, values in zip(keys, both, strict=True)])
    np.testing.assert_array_equal(together, apart)


def test_far_data_do_not_underflow() -> None:
    """A weight of nothing, and data far from every component."""
    model, data = problem(2, "dirichlet")
    draws = model.sample_prior(jax.random.key(0))
    far = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), draws | {"weights": jnp.asarray([1.0, 0.0])})
    data = tp.models.Data(data.values * 1e4, data.weights, data.size)
    _, found = advance(model, data, standing(far, jnp.asarray([0.9, 1.0])), multistate=True)
    assert np.isfinite(np.asarray(found.table)).all()


def test_random_variables_have_their_laws() -> None:
    from temperance.kernels import _host_random as host_random

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
    data = tp.models.Data(data.values[:4], data.weights[:4], 4)
    ours = advance(model, data, standing(theirs, jnp.zeros(2000)))[0].states.draws
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        for one, other in zip(np.asarray(a).reshape((2000, -1)).T, np.asarray(b).reshape((2000, -1)).T, strict=True):
            assert stats.ks_2samp(one, other).pvalue > 1e-4


@pytest.mark.usefixtures("engines")
def test_few_data_do_not_wait_for_a_compilation(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is taken where it saves more than its compilation, or was compiled before; never for other models."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "temperance.kernels.gaussian_replicas_kernel", raising=False)
    model, data = problem(2, "dirichlet")
    few, many = tp.ParallelTempering(draws=100), tp.ParallelTempering(draws=100_000)
    assert not when(model, data, few)
    assert when(model, data, many)
    (tmp_path / "kernels_0").mkdir()
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / "kernels_0" / f"gaussian_replicas_kernel.advance-1.{version}.nbi").touch()
    assert when(model, data, few)
    for other in (tp.DirichletProcessMixture(2), tp.GaussianMixture(2, covariance="diagonal")):
        assert not when(*other.prepare(np.asarray(data.values)), many)
    started = dataclasses.replace(many, reference="narrowed").complete(model, data)
    assert started.block == 0


@pytest.mark.slow
@pytest.mark.parametrize("swaps", ["even-odd", "random"])
def test_the_kernel_is_calibrated(swaps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulation-based calibration through the kernel: posteriors of many data sets average to the prior."""
    prior = tp.NormalWishart(np.zeros(2), 2.0, 8.0, 4.0 * np.eye(2))
    model, data = tp.GaussianMixture(2, prior=prior).prepare(np.random.default_rng(0).normal(size=(6, 2)))
    monkeypatch.setattr(gaussian_replicas, "_COMPILATION", 0.0)
    method = tp.ParallelTempering(warmup=64, replicas=4, swaps=swaps).complete(model, data)
    assert method.block > 1
    assert calibration_test(jax.random.key(2), model, data, method, warmup=4, steps=4).worst < 5.0
