"""The toy images of the paper on variational tempering, by the script that makes the table."""

import importlib
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "examples" / "papers"


@pytest.mark.slow
def test_critical_annealing_finds_the_images_and_has_the_best_mean_bound():
    sys.path.insert(0, str(SCRIPTS))
    try:
        images = importlib.import_module("tempering_images")
    finally:
        sys.path.remove(str(SCRIPTS))
    for name in ("dominoes", "bars", "blocks"):
        rows = images.table(name, 20)
        best = max(row["bounds"].mean() for row in rows.values())
        # Equal up to where runs stop: a relative change of 1e-6.
        assert rows["critical"]["bounds"].mean() >= best - 1e-6 * abs(best)
        if name != "blocks":
            assert rows["critical"]["found"] >= 19
