"""kill −9 at random moments of fits and saves: what lies on the disk is whole, and the next run ends in the same bits.

Every method is killed `TEMPERANCE_KILLS` times (10 unless set), 220 times over all of them. It can be run in parts:

    python -m pytest -m slow tests/faults/test_kills.py -k "EP or VB"
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import temperance as tp
from temperance import storage
from tests.faults.cases import CASES, fit, same
from tests.faults.nursery import Nursery

KILLS = int(os.environ.get("TEMPERANCE_KILLS", "10"))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_at_any_moment(name: str, nursery: Nursery, tmp_path: Path) -> None:
    kept, out = tmp_path / "kept", tmp_path / "out.tp"
    delays = np.random.default_rng(list(CASES).index(name))
    whole = fit(name)
    early = 0
    for number in range(KILLS):
        child = nursery.start(name, kept, out, again=True)
        # Long and short lives: the first ones end in compilation or early steps, later ones in saves.
        time.sleep(float(delays.uniform(0.0, 1.0 + 0.3 * number)))
        assert nursery.kill(child)
        if kept.exists():
            assert isinstance(storage.load(kept), dict)
        if out.exists():
            same(tp.load(out), whole)
        else:
            early += 1
    assert early > 0  # it was killed before it had a result, too
    nursery.finish(name, kept, out)
    same(tp.load(out), whole)


@pytest.mark.slow
def test_a_result_is_replaced_by_a_whole_one_or_not_at_all(nursery: Nursery, tmp_path: Path) -> None:
    """Kills while one result is saved over another: one of the two is there."""
    kept, out = tmp_path / "kept", tmp_path / "out.tp"
    first, second = fit("EM"), fit("VB")
    delays = np.random.default_rng(0)
    nursery.finish("VB", kept, out)  # from now on the fit itself takes no time
    for _ in range(KILLS):
        first.save(out)
        child = nursery.start("VB", kept, out, again=True)
        time.sleep(float(delays.uniform(0.0, 2.0)))
        assert nursery.kill(child)
        found = tp.load(out)
        same(found, second if isinstance(found.method, tp.VB) else first)


@pytest.mark.slow
def test_killed_once(nursery: Nursery, tmp_path: Path) -> None:
    """The same for one method and one kill, in every run of the tests."""
    kept, out = tmp_path / "kept", tmp_path / "out.tp"
    child = nursery.start("VB, regression", kept, out, again=True)
    while not kept.exists():
        time.sleep(0.02)
    time.sleep(0.15)
    assert nursery.kill(child)
    nursery.finish("VB, regression", kept, out)
    same(tp.load(out), fit("VB, regression"))
