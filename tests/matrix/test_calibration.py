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
    """By default the smallest model: tempered sweeps of the others are compared with enumeration elsewhere."""
    return [pytest.param(e, marks=[] if e.name == "two effects" else [pytest.mark.slow], id=e.name) for e in ENTRIES]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("entry", parameters())
def test_posteriors_average_to_the_prior(entry: Entry, method: Method) -> None:
    scores = examine(*entry.problem(np.random.default_rng(5)), method)
    assert scores.worst < LIMIT, scores


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
    method = Careless(warmup=64, replicas=4)
    assert examine(*problem(Effects, np.random.default_rng(5)), method).worst > 2 * LIMIT
