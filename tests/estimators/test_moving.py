"""The table of docs/measurements/estimators.md: one changed line, and the same answer to the printed tolerance."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.estimators.moving import CASES, both, distance
from tests.tiers import with_slow

QUICK = ("BayesianGaussianMixture", "BayesianRidge", "ARDRegression", "LogisticRegression")
PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "estimators.md"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", with_slow(CASES, *(set(CASES) - set(QUICK))))
def test_one_changed_line_gives_the_same_answer(name: str) -> None:
    assert distance(name, *both(name)) <= CASES[name].tolerance


def test_the_page_has_these_classes_with_these_tolerances() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    listed = {name: (compared, within) for name, compared, within in rows if name in CASES}
    assert len(CASES) == 12 and list(listed) == list(CASES)
    for name, (compared, within) in listed.items():
        assert compared == CASES[name].compared
        assert (0.0 if within == "the same" else float(within)) == CASES[name].tolerance
