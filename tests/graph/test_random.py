"""Random graphs: the bound never falls, and Gibbs sampling leaves the joint distribution as it is."""

import jax
import numpy as np
import pytest

from temperance.diagnostics.geweke import joint_test
from tests.graph.random_graphs import random_graph

FEW, MANY = 2, 200
TESTED, ALL_TESTED = 1, 20
LIMIT = 5.0  # as in tests/matrix


def some(few: int, many: int) -> list[object]:
    return [pytest.param(seed, marks=[] if seed < few else [pytest.mark.slow], id=str(seed)) for seed in range(many)]


@pytest.mark.parametrize("seed", some(FEW, MANY))
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


@pytest.mark.parametrize("seed", some(TESTED, ALL_TESTED))
def test_gibbs_leaves_the_joint_distribution(seed: int) -> None:
    model, values = random_graph(1000 + seed)
    model, data = model.prepare(values)
    scores = joint_test(jax.random.key(seed), model, data)
    assert scores.worst < LIMIT, scores
