"""The evidence lower bound never decreases, whatever the model, its prior, the data, their holes and weights."""

import numpy as np
import pytest

from tests.matrix.problems import ascents
from tests.matrix.registry import ENTRIES, Entry


@pytest.mark.parametrize("entry", ENTRIES, ids=repr)
def test_bound_never_decreases(entry: Entry) -> None:
    bounds = ascents(entry).bounds
    assert len(bounds) == 100
    assert np.isfinite(bounds).all()
    rounding = 1e-12 * (1 + np.abs(bounds[:, 1:]))
    assert (np.diff(bounds, axis=1) >= -rounding).all()
    # A bound that stands still from the start would pass too.
    assert (bounds[:, -1] > bounds[:, 0] + 1e-3).mean() > 0.5


def test_enough_problems() -> None:
    assert 100 * len(ENTRIES) >= 1000
