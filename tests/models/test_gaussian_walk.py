"""The kernel for large mixtures of Gaussians beside the walk that is derived from the model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.kernels import gaussian_walk
from temperance.kernels.gaussian_walk_kernel import host_statistics
from temperance.models import Way
from temperance.models._blocks import Powers, means
from temperance.models._derive import derived_walk


def problem(precision: str, kind=tp.GaussianMixture):
    """Rows and components that fill no whole tiles, rows with weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 5)) + 3.0 * rng.integers(0, 2, size=(1500, 1))
    model, data = kind(7, init="random", precision=precision).prepare(x, rng.uniform(0.0, 2.0, 1500))
    return model, data, means(model.initial(jax.random.key(1), data).blocks)


@pytest.mark.parametrize(
    ("precision", "kind", "powers", "tolerance"),
    [
        ("double", tp.GaussianMixture, Powers(), 1e-12),
        ("double", tp.DirichletProcessMixture, Powers(0.3, 0.6), 1e-12),
        pytest.param("single", tp.GaussianMixture, Powers(), 2e-5, marks=pytest.mark.slow),
    ],
    ids=["double", "tempered-process", "single"],
)
def test_equals_the_derived_walk(precision: str, kind, powers: Powers, tolerance: float) -> None:
    model, data, m = problem(precision, kind)
    found = gaussian_walk.walk(model, m, data, Way(powers))
    expected = derived_walk(model, m, data, Way(powers))
    assert abs(found.value - expected.value) <= tolerance * abs(expected.value)
    for ours, theirs in zip(jax.tree.leaves(found.messages), jax.tree.leaves(expected.messages), strict=True):
        assert np.allclose(ours, theirs, rtol=0.0, atol=tolerance * float(jnp.max(jnp.abs(theirs))))


def test_result_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    given = rng.normal(size=(3000, 4)), rng.uniform(size=3000), rng.normal(size=6), rng.normal(size=(6, 14))
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TEMPERANCE_THREADS", threads)
        results.append(host_statistics(*given))
    assert all(np.array_equal(one, three) for one, three in zip(*results, strict=True))
    # Softmax by hand.
    x, weights, bias, w = given
    first, second = np.triu_indices(4)
    features = np.concatenate([x, x[:, first] * x[:, second]], axis=1)
    joint = np.exp(features @ w.T + bias)
    shares = weights[:, None] * joint / joint.sum(axis=1, keepdims=True)
    truth = weights @ np.log(joint.sum(axis=1)), shares.sum(axis=0), shares.T @ features
    assert all(np.allclose(found, expected, rtol=1e-11) for found, expected in zip(results[0], truth, strict=True))


@pytest.mark.slow
def test_nan_stays_nan() -> None:
    x = np.zeros((600, 4))
    x[17, 2] = np.nan
    value, counts, sums = host_statistics(x, np.ones(600), np.zeros(6), np.ones((6, 14)))
    assert np.isnan(value) and np.isnan(counts).all() and np.isnan(sums).all()


def test_derivative_of_the_value_are_the_counts() -> None:
    _, data, _ = problem("double")
    rng = np.random.default_rng(3)
    bias, weights, step = rng.normal(size=7), 0.3 * rng.normal(size=(7, 20)), rng.normal(size=7)

    def value(bias: jax.Array) -> jax.Array:
        return gaussian_walk.statistics(bias, jnp.asarray(weights), data.values, data.weights, data.blocks)[0]

    _, slope = jax.jvp(value, (jnp.asarray(bias),), (jnp.asarray(step),))
    counts = gaussian_walk.statistics(jnp.asarray(bias), jnp.asarray(weights), data.values, data.weights, data.blocks)[
        1
    ]
    assert slope == pytest.approx(float(counts @ step), rel=1e-10)


class Derived(tp.GaussianMixture):
    """No engine claims it."""


@pytest.mark.slow
def test_fit_takes_the_kernel_where_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts are walked one after the other."""
    monkeypatch.setattr(gaussian_walk, "_COORDINATES", 1)
    monkeypatch.setattr(gaussian_walk, "_WORK", 1)
    x = np.random.default_rng(4).normal(size=(403, 5))  # a size of its own: nothing of it has been compiled
    method = tp.VB(max_iter=5, tol=0.0, restarts=2)
    kernel = tp.fit(tp.GaussianMixture(7, init="random"), x, method, seed=0)
    assert gaussian_walk.when(kernel.model, tp.GaussianMixture(7).prepare(x)[1], Way())
    plain = tp.fit(Derived(7, init="random"), x, method, seed=0)
    assert np.allclose(kernel.history["elbo"], plain.history["elbo"], rtol=1e-11)
    assert np.allclose(kernel.history["restarts"], plain.history["restarts"], rtol=1e-11)
