"""Simulation-based calibration: posteriors by Gibbs and by parallel tempering average to the prior, for every model."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.diagnostics.geweke import JointTest, calibration_test
from temperance.inference._method import Method
from temperance.models import Model
from tests.matrix.effects import Effects, Together, problem
from tests.matrix.registry import ENTRIES, Entry

LIMIT = 5.0  # as in the joint test
METHODS: dict[str, Method] = {
    "Gibbs": tp.Gibbs(),
    "parallel tempering": tp.ParallelTempering(warmup=64, replicas=4),
}


def examine(model: Model, rows: Any, method: Method, **options: Any) -> JointTest:
    model, data = model.prepare(rows)
    return calibration_test(jax.random.key(2), model, data, method, **options)


def parameters() -> list[Any]:
    both = [(entry, name) for entry in ENTRIES for name in METHODS]
    return [pytest.param(entry, METHODS[name], id=f"{entry.name}-{name}") for entry, name in both]


# Chains start with the centres of k-means++, the first of which is in the largest group: with holes in the data
# components change places so seldom that this is still seen after a hundred sweeps (|z| = 10 with 4,000 chains).
SLOW = ("mixture, diagonal with holes", "Gibbs")


@pytest.mark.slow
@pytest.mark.parametrize(("entry", "method"), parameters())
def test_posteriors_average_to_the_prior(entry: Entry, method: Method) -> None:
    slow = (entry.name, method) == (SLOW[0], METHODS[SLOW[1]])
    scores = examine(*entry.problem(np.random.default_rng(5)), method, warmup=1500 if slow else 64)
    assert scores.worst < LIMIT, scores


@pytest.mark.slow
def test_coupled_blocks_in_one_group_fail() -> None:
    assert examine(*problem(Together, np.random.default_rng(5)), METHODS["Gibbs"]).worst > 2 * LIMIT


@dataclasses.dataclass(frozen=True)
class Careless(tp.ParallelTempering):
    """Wrong: every swap is accepted."""

    def _swap_order(self, key: Any, acceptance: Any, step: Any) -> Any:
        return super()._swap_order(key, jnp.ones_like(acceptance), step)


jax.tree_util.register_dataclass(
    Careless,
    data_fields=["path"],
    meta_fields=[field.name for field in dataclasses.fields(Careless) if field.name != "path"],
)


def test_swaps_that_are_always_accepted_fail() -> None:
    """Draws of the prior then come in at every other step, and one sweep does not undo it."""
    scores = examine(*problem(Effects, np.random.default_rng(5)), Careless(warmup=64, replicas=2), chains=4000)
    assert scores.worst > 2 * LIMIT
