"""Gibbs sampling leaves the joint distribution of every model as it is; samplers broken on purpose do not."""

from typing import Any

import jax
import numpy as np
import pytest

from temperance.diagnostics.geweke import JointTest, joint_test
from temperance.models import Data, Model, Powers
from temperance.models._gibbs import conditional
from tests.matrix.effects import Effects, Together, problem
from tests.matrix.registry import ENTRIES, Entry
from tests.tiers import with_slow

# Of a few hundred scores a right sampler's exceed this for one seed in thousands; the broken ones pass it by far.
LIMIT = 5.0


def examine(model: Model, rows: Any, **options: Any) -> JointTest:
    model, data = model.prepare(rows)
    return joint_test(jax.random.key(1), model, data, **options)


QUICK = {"two effects", "regression, one precision"}
SLOW = {entry.name for entry in ENTRIES} - QUICK


@pytest.mark.parametrize("entry", with_slow(ENTRIES, *SLOW, name=repr), ids=repr)
def test_right_sampler_passes(entry: Entry) -> None:
    scores = examine(*entry.problem(np.random.default_rng(5)))
    assert len(scores.names) == len(scores.means) == len(scores.products)
    assert scores.worst < LIMIT, scores


def test_coupled_blocks_in_one_group_fail() -> None:
    assert examine(*problem(Together, np.random.default_rng(5))).worst > 2 * LIMIT


def test_reused_key_fails() -> None:
    def stuck(model: Model, key: Any, draws: Any, data: Data, local: Any) -> Any:
        return model.gibbs(jax.random.key(0), draws, data, local=local)

    assert examine(*problem(Effects, np.random.default_rng(5)), kernel=stuck).worst > 2 * LIMIT


def test_key_shared_by_groups_fails() -> None:
    """The same randomness for every block: each conditional alone is right, together they are not."""

    def shared(model: Model, key: Any, draws: Any, data: Data, local: Any) -> Any:
        for group in model.groups:
            natural = conditional(model, key, draws, data, Powers(), local)
            draws = draws | {name: model._family(name, natural[name]).sample(key) for name in group}
        return draws, local

    assert examine(*problem(Effects, np.random.default_rng(5)), kernel=shared).worst > 2 * LIMIT
