"""Random graphs: the bound never falls, and Gibbs sampling leaves the joint distribution as it is."""

import jax
import numpy as np
import pytest

from temperance.diagnostics.geweke import joint_test
from tests.graph.random_graphs import random_graph
from tests.tiers import with_slow

LIMIT = 5.0  # as in tests/matrix


@pytest.mark.parametrize("seed", with_slow(range(200), *range(6, 200)))
def test_bound_never_falls(seed: int) -> None:
    model, values = random_graph(seed)
    model, data = model.prepare(values)

    @jax.jit
    def climb(key: jax.Array) -> jax.Array:
        start = model.initial(key, data)
        return jax.lax.scan(lambda q, _: model.sweep(q, data), start, None, length=8)[1]

    bounds = np.asarray(climb(jax.random.key(seed)))
    assert np.isfinite(bounds).all()
    assert (np.diff(bounds) >= -1e-12 * (1 + np.abs(bounds[1:]))).all(), bounds


@pytest.mark.parametrize("seed", with_slow(range(20), *range(1, 20)))
def test_gibbs_leaves_the_joint_distribution(seed: int) -> None:
    model, values = random_graph(1000 + seed)
    model, data = model.prepare(values)
    scores = joint_test(jax.random.key(seed), model, data)
    assert scores.worst < LIMIT, scores
