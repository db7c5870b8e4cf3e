"""How many components have the galaxies? A comparison by the defaults beside the average of runs of other seeds."""

import json
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from benchmarks import galaxies
from benchmarks.evidence.problems import problems

REFERENCE = json.loads((Path(galaxies.__file__).parent / "evidence" / "galaxies.json").read_text())


def test_the_reference_agrees_with_what_is_known_otherwise() -> None:
    """One component in closed form; two and three by two long computations (the yardstick)."""
    for size in ("1", "2", "3"):
        found, known = REFERENCE["log_evidence"][size], problems()[f"galaxies, components: {size}"]
        assert abs(found["mean"] - known.log_evidence) < 3 * np.hypot(found["error"], known.uncertainty)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [500, 501])
def test_the_posterior_by_the_defaults_is_that_of_a_long_run(seed: int) -> None:
    """Within 0.02 in total variation over 1 to 10 components. The reference has other seeds."""
    sizes = [REFERENCE["log_evidence"][str(size)]["mean"] for size in galaxies.SIZES]
    long = galaxies._posterior(np.array(sizes))
    hill = tp.compare(galaxies._models(), tp.datasets.load("galaxy"), tp.ParallelTempering(), seed=seed)
    assert hill.models == tuple(galaxies.SIZES)
    assert 0.5 * np.abs(hill.probabilities - long).sum() < 0.02
