"""Where a mixture starts: k-means++ seeds, random shares, a draw of the prior, given means or responsibilities."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.models import Data, Posterior
from temperance.models.mixture.starts import kmeans_plus_plus
from tests.models.small import X, mixture
from tests.tiers import with_slow

KEYS = jax.random.split(jax.random.key(0), 50)


@eqx.filter_jit
def initial(model: tp.Mixture, data: Data, keys: Any) -> Posterior:
    return jax.vmap(lambda key: model.initial(key, data))(keys)


@eqx.filter_jit
def seeds(rows: Any, weights: Any) -> Any:
    return jax.vmap(lambda key: kmeans_plus_plus(key, rows, weights, 3))(KEYS)


def test_seeds_are_distinct_data_of_positive_weight() -> None:
    rows = np.array([[0.0], [0.0], [1.0], [1.0], [5.0], [9.0]])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    found = np.sort(np.asarray(seeds(jnp.asarray(rows), jnp.asarray(weights)))[..., 0], axis=1)
    # Three distinct places have weight, so every draw finds them all, duplicates or not.
    np.testing.assert_array_equal(found, np.tile([0.0, 1.0, 5.0], (50, 1)))


def test_seeds_of_data_that_are_all_alike() -> None:
    found = seeds(jnp.ones((6, 1)), jnp.ones(6))
    np.testing.assert_array_equal(found, np.ones((50, 3, 1)))


def test_seeds_prefer_distance() -> None:
    """The second seed is drawn with probability proportional to the squared distance from the first."""
    rows = np.array([[0.0], [1.0], [2.0], [2.0], [2.0], [2.0]])
    weights = np.array([1e9, 1.0, 0.25, 0.25, 0.25, 0.25])  # the first seed is 0, but for one draw in 10⁹
    keys = jax.random.split(jax.random.key(1), 4000)
    draw = jax.jit(jax.vmap(lambda key: kmeans_plus_plus(key, jnp.asarray(rows), jnp.asarray(weights), 2)[1, 0]))
    far = np.mean(np.asarray(draw(keys)) == 2.0)
    # Weights 1·1² and 1·2²: four in five, with an error of √(0.16/4000).
    assert abs(far - 0.8) < 5 * np.sqrt(0.16 / 4000)


def expected(model: tp.Mixture, data: Data, shares: np.ndarray) -> list[np.ndarray]:
    """Prior + Σ_n r_nk T(x_n), in NumPy."""
    x = np.asarray(data.values)[: data.size]
    natural = model.prior["components"].natural
    return [
        np.asarray(model.prior["weights"].concentration) + shares.sum(axis=0),
        np.asarray(natural.first) + shares.T @ x,
        np.asarray(natural.count) + shares.sum(axis=0),
        np.asarray(natural.second) + np.einsum("nk,ni,nj->kij", shares, x, x),
        np.asarray(natural.dof) + shares.sum(axis=0),
    ]


def found(q: Posterior, index: int = 0) -> list[np.ndarray]:
    natural = q.blocks["components"].natural
    leaves = [q.blocks["weights"].concentration, natural.first, natural.count, natural.second, natural.dof]
    return [np.asarray(leaf)[index] for leaf in leaves]


def compare(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_given_responsibilities() -> None:
    shares = np.random.default_rng(0).dirichlet([1.0, 2.0], size=12)
    model, data = mixture(init=shares).prepare(X)
    compare(found(initial(model, data, KEYS)), expected(model, data, shares))


def test_given_means() -> None:
    """Each datum goes to the nearest mean, in units of the columns' standard deviations."""
    x = X * [1.0, 1e4]
    means = np.array([[2.0, -1e4], [-2.0, 3e4]])
    model, data = mixture(init=means).prepare(x)
    distance = (((x[:, None] - means[None]) / x.std(axis=0)) ** 2).sum(axis=-1)
    shares = np.eye(2)[distance.argmin(axis=1)]
    assert 0 < shares[:, 0].sum() < 12
    compare(found(initial(model, data, KEYS)), expected(model, data, shares))


@pytest.mark.slow
def test_given_means_of_counts() -> None:
    """In the data's own terms, whatever the likelihood measures distances in."""
    counts = np.array([[0, 1], [9, 8], [1, 0], [8, 9], [0, 0]], dtype=float)
    for likelihood in ("poisson", "categorical"):
        model, data = tp.Mixture(2, likelihood, init=[[8.0, 9.0], [0.0, 1.0]]).prepare(counts)
        labels = model.starting_labels(jax.random.key(0), data)
        assert labels[3] == 0 and labels[0] == 1
        if likelihood == "poisson":
            np.testing.assert_array_equal(labels, [1, 0, 1, 0, 1])


@pytest.mark.parametrize("init", with_slow(["kmeans++", "random", "prior"], "prior"))
def test_random_starts(init: str) -> None:
    """They are proper, hold all data, and differ from key to key and from component to component."""
    model, data = mixture(init=init).prepare(X)
    q = initial(model, data, KEYS)
    components, weights = q.blocks["components"], q.blocks["weights"]
    assert components.is_proper().all() and weights.is_proper().all()
    np.testing.assert_allclose(weights.concentration.sum(axis=1), 2 + 12, atol=1e-9)
    np.testing.assert_allclose(components.pseudo_count.sum(axis=1), 0.02 + 12, atol=1e-9)
    # Two clusters: k-means++ repeats itself. A draw of this wide prior often puts all data in one component.
    distinct = len(np.unique(np.round(np.asarray(components.location), 9), axis=0))
    assert distinct >= {"kmeans++": 2, "prior": 20, "random": 50}[init]
    apart = np.abs(np.asarray(components.natural.first[:, 0] - components.natural.first[:, 1])).max(axis=1)
    sizes = np.abs(np.asarray(components.pseudo_count[:, 0] - components.pseudo_count[:, 1]))
    assert (apart + sizes > 1e-3).all()
