"""The permutation without a list: a bijection, and uniform over keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from temperance.numerics.shuffle import shuffled


@pytest.mark.parametrize("n", [1, 7, 1025, 2048, 5000])
def test_every_number_appears_once(n: int) -> None:
    drawn = jax.jit(lambda key: shuffled(key, jnp.arange(n), n))(jax.random.key(n))
    assert sorted(np.asarray(drawn)) == list(range(n))


@pytest.mark.parametrize("n", [5, 1500])
def test_places_and_pairs_are_uniform(n: int) -> None:
    """Over many keys, any element and any pair of elements is as likely as any other."""
    keys, bins = 20_000, 5
    index = jnp.asarray([0, 1, n // 2, n - 1])
    draw = jax.jit(jax.vmap(lambda key: shuffled(key, index, n)))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), keys))) * bins // n
    for place in range(len(index)):
        assert chisquare(np.bincount(drawn[:, place], minlength=bins)).pvalue > 1e-3
    size = n // bins
    chance = np.where(np.eye(bins), size * (size - 1), size * size) / (n * (n - 1))
    for one, other in ((0, 1), (0, 3), (2, 3)):
        pairs = np.bincount(drawn[:, one] * bins + drawn[:, other], minlength=bins * bins)
        seen = chance.ravel() > 0
        assert chisquare(pairs[seen], keys * chance.ravel()[seen]).pvalue > 1e-3


def test_large_ranges_need_no_list() -> None:
    n = 3_000_000_000
    rows = shuffled(jax.random.key(0), jnp.arange(1000), n)
    assert len(set(np.asarray(rows).tolist())) == 1000 and rows.min() >= 0 and rows.max() < n
    assert abs(rows.mean() / n - 0.5) < 4 / np.sqrt(12 * 1000)
