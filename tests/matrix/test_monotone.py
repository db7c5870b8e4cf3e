"""The evidence lower bound never decreases, whatever the model, its prior, the data, their holes and weights."""

import numpy as np
import pytest

from tests.matrix.problems import ascents
from tests.matrix.registry import ENTRIES, Entry
from tests.tiers import with_slow

QUICK = {"two effects", "mixture, full", "mixture, full with holes"}
SLOW = {entry.name for entry in ENTRIES} - QUICK


@pytest.mark.parametrize("entry", with_slow(ENTRIES, *SLOW, name=repr), ids=repr)
def test_bound_never_decreases(entry: Entry) -> None:
    bounds = ascents(entry).bounds
    assert len(bounds) == 100
    assert np.isfinite(bounds).all()
    rounding = 1e-12 * (1 + np.abs(bounds[:, 1:]))
    assert (np.diff(bounds, axis=1) >= -rounding).all()
    # A bound that stands still from the start would pass too.
    assert (bounds[:, -1] > bounds[:, 0] + 1e-3).mean() > 0.5


@pytest.mark.slow
def test_enough_problems() -> None:
    assert 100 * len(ENTRIES) >= 1000
