"""The standing attack (`attack.py`): a sample with every change, all of it in `make test-slow`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from temperance.registry import methods, models
from tests.faults import siege
from tests.faults.attack import CASES, GOOD, METHODS, PAIRS, Outcome, attack
from tests.faults.inputs import INPUTS
from tests.tiers import with_slow

# Each pair with inputs that once ended in a raw error, a NaN or another answer.
SAMPLE = {
    ("topics", "em"): ("int64", "a cell of 1e+139", "csr", "a column out of range", "a column before the first"),
    ("multinomial-mixture", "vb"): ("one column", "times 1e+09", "no rows", "polars, null", "a generator"),
    ("categorical-mixture", "vb"): ("a cell of 1e+09", "a cell of 1e+139", "a cell of -999", "one column"),
    ("mixture", "vb"): ("times 1e-300", "Fortran", "strided", "masked", "500 columns", "complex128", "pandas, NA"),
    ("regression", "kernel"): ("int64", "zeros", "Fortran"),
    ("relevance", "importance"): ("int64",),
    ("poisson-mixture", "cvb0"): ("a cell of 1e+139",),
    ("poisson", "vb"): ("far away",),
    ("poisson", "gibbs"): ("far away",),
    ("poisson", "laplace"): ("far away",),
    ("topics", "vb"): ("a cell of 1e+09",),
    ("factorial-mixture", "gibbs"): ("far away",),
    ("factorial-mixture", "em"): ("constant", "collinear", "every row the first"),
    ("graph, noise", "gibbs"): ("zeros", "times 1e+300", "a cell of 1e+308"),
}
LONG = ("topics", "vb"), *(pair for pair in SAMPLE if pair[0] in ("poisson", "factorial-mixture"))  # to compile


def test_every_model_and_method_is_attacked() -> None:
    assert {entry.command for entry in models() if entry.command} <= set(CASES)
    assert set(METHODS) == {entry.command for entry in methods()}
    assert len(PAIRS) * len(INPUTS) > 30_000


@pytest.mark.parametrize(("model", "method"), with_slow(SAMPLE, *LONG))
def test_a_sample(model: str, method: str) -> None:
    clean: dict[str, Outcome] = {}
    for name in SAMPLE[model, method]:
        found = attack(model, method, name, clean)
        assert found.outcome in GOOD, (name, found)


def test_what_is_done_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "attack.jsonl"
    options = ["--jobs", "1", "--rounds", "gate", "--only", "hdp, vb", "--out", str(out)]
    for inputs in (["no rows"], ["no rows", "a word", "Fortran"]):
        monkeypatch.setattr(sys, "argv", ["attack", *options, "--inputs", json.dumps(inputs)])
        with pytest.raises(SystemExit) as ended:
            siege.main()
        assert ended.value.code == 0
        out.write_text(out.read_text() + '{"model": "hd')  # cut short
    assert [line["input"] for line in siege.read([str(out)])] == ["no rows", "a word"]


def test_a_case_that_ends_its_process_is_noted_and_the_next_one_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "python"
    dying.write_text('#!/bin/sh\necho \'{"outcome": "answered"}\'\nexit 7\n')
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dying))
    told: list[str] = []
    siege.in_processes("hdp", [("vb", "zeros"), ("vb", "halves"), ("vb", "records")], False, told.append)
    assert [json.loads(line)["outcome"] for line in told] == ["answered", "crash", "answered"]
    assert json.loads(told[1])["input"] == "halves"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "method"), PAIRS)
def test_all(model: str, method: str) -> None:
    clean: dict[str, Outcome] = {}
    found = {name: attack(model, method, name, clean) for name in INPUTS}
    bad = {name: outcome for name, outcome in found.items() if outcome.outcome not in GOOD}
    assert not bad, bad
