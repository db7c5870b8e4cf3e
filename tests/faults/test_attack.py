"""The standing attack (`attack.py`): a sample with every change, all of it in `make test-slow`."""

from __future__ import annotations

import pytest

from temperance.registry import methods, models
from tests.faults.attack import CASES, GOOD, METHODS, PAIRS, Outcome, attack
from tests.faults.inputs import INPUTS

# Each pair with inputs that once ended in a raw error, a NaN or another answer.
SAMPLE = {
    ("topics", "em"): ("int64", "a cell of 1e+139", "csr", "a column out of range", "a column before the first"),
    ("multinomial-mixture", "vb"): ("one column", "times 1e+09", "no rows", "polars, null", "a generator"),
    ("categorical-mixture", "vb"): ("a cell of 1e+09", "a cell of 1e+139", "a cell of -999", "one column"),
    ("mixture", "vb"): ("times 1e-300", "Fortran", "strided", "masked", "500 columns", "complex128", "pandas, NA"),
    ("regression", "kernel"): ("int64", "zeros", "Fortran"),
    ("relevance", "importance"): ("int64",),
}


def test_every_model_and_method_is_attacked() -> None:
    assert {entry.command for entry in models() if entry.command} <= set(CASES)
    assert set(METHODS) == {entry.command for entry in methods()}
    assert len(PAIRS) * len(INPUTS) > 30_000


@pytest.mark.parametrize(("model", "method"), SAMPLE)
def test_a_sample(model: str, method: str) -> None:
    clean: dict[str, Outcome] = {}
    for name in SAMPLE[model, method]:
        found = attack(model, method, name, clean)
        assert found.outcome in GOOD, (name, found)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "method"), PAIRS)
def test_all(model: str, method: str) -> None:
    clean: dict[str, Outcome] = {}
    found = {name: attack(model, method, name, clean) for name in INPUTS}
    bad = {name: outcome for name, outcome in found.items() if outcome.outcome not in GOOD}
    assert not bad, bad
