"""Simulation-based calibration: the posteriors of every sampler average to the prior."""

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
from tests.tiers import with_slow

LIMIT = 5.0  # as in the joint test
METHODS: dict[str, Method] = {
    "Gibbs": tp.Gibbs(),
    "variational kernel": tp.VariationalKernel(),
    "collapsed Gibbs": tp.CollapsedGibbs(),
    "parallel tempering": tp.ParallelTempering(warmup=64, replicas=4),
}
# Labels one by one need mixtures with Dirichlet weights, without missing values.
COLLAPSED = ("mixture, full", "mixture, Bernoulli", "mixture, categorical", "mixture, multinomial")
VARIED = ("two effects", "regression, one precision", "mixture, Bernoulli")
CELLS = [
    *((entry, name) for entry in ENTRIES for name in ("Gibbs", "parallel tempering")),
    *((entry, "collapsed Gibbs") for entry in ENTRIES if entry.name in COLLAPSED),
    *((entry, "variational kernel") for entry in ENTRIES if entry.name in VARIED),
]
QUICK = {
    ("two effects", "variational kernel"),
    ("two effects", "parallel tempering"),
    ("mixture, Bernoulli", "collapsed Gibbs"),
}


def examine(model: Model, rows: Any, method: Method, **options: Any) -> JointTest:
    model, data = model.prepare(rows)
    return calibration_test(jax.random.key(2), model, data, method, **options)


def parameters() -> list[Any]:
    """By default every sampler on its cheapest model; of Gibbs the joint test, by default too, is sharper."""
    named = [pytest.param(entry, name, id=f"{entry}-{name}") for entry, name in CELLS]
    slow = {(entry.name, name) for entry, name in CELLS} - QUICK
    return with_slow(named, *slow, name=lambda entry, name: (entry.name, name))


# How many steps the chains need to forget where they start, where 64 are too few. Gibbs starts with the centres of
# k-means++, the first of which is in the largest group: with holes in the data components change places so seldom that
# this is still seen after a hundred sweeps (|z| = 10 with 4,000 chains). The variational kernel accepts little in the
# tails (proposition 1): on the regression |z| is 9.8 after 64 steps, 4.9 after 500 and 2.4 after 2,000.
WARMUP = {
    ("mixture, diagonal with holes", "Gibbs"): 1500,
    ("regression, one precision", "variational kernel"): 2000,
}


@pytest.mark.parametrize(("entry", "name"), parameters())
def test_posteriors_average_to_the_prior(entry: Entry, name: str) -> None:
    warmup = WARMUP.get((entry.name, name), 64)
    scores = examine(*entry.problem(np.random.default_rng(5)), METHODS[name], warmup=warmup)
    assert scores.worst < LIMIT, scores


@pytest.mark.slow
def test_coupled_blocks_in_one_group_fail() -> None:
    assert examine(*problem(Together, np.random.default_rng(5)), METHODS["Gibbs"]).worst > 2 * LIMIT


def stuck(method: Method) -> Method:
    """Wrong: the same randomness at every step."""
    kind: Any = type(method)

    class Stuck(kind):
        def step(self, key: Any, model: Model, state: Any, data: Any) -> Any:
            return super().step(jax.random.key(7), model, state, data)

    return Stuck(**{field.name: getattr(method, field.name) for field in dataclasses.fields(kind) if field.init})


@pytest.mark.parametrize("name", ["variational kernel", "collapsed Gibbs"])
def test_a_key_used_again_fails(name: str) -> None:
    entry = next(entry for entry in ENTRIES if (entry.name, name) in QUICK)
    assert examine(*entry.problem(np.random.default_rng(5)), stuck(METHODS[name])).worst > 2 * LIMIT


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
