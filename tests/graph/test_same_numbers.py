"""A graph that says what a ready model says has its evidence to 1e-8, by every method that both support."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import temperance as tp
from temperance.errors import UnsupportedMethod
from tests.graph.same import PAIRS
from tests.tiers import with_slow

VB = tp.VB(tol=1e-13, max_iter=3000, restarts=12)
ONE = tp.VB(tol=1e-13, max_iter=3000)
WARM = (1.0, 1.5, 2.5)
METHODS: dict[str, Any] = {
    "VB": VB,
    "VB(batches=2)": tp.VB(tol=1e-13, max_iter=3000, batches=2),
    "Annealed": tp.Annealed(ONE, length=5),
    "VT": tp.VT(WARM, ONE, length=5),
    "LVT": tp.LVT(WARM, ONE, length=5),
    "CVB0": tp.CVB0(tol=1e-12),
    "EP": tp.EP(tol=1e-11),
    "MessagePassing(0.5)": tp.MessagePassing(0.5, tol=1e-11),
    "EP(double_loop=True)": tp.EP(double_loop=True, tol=1e-11),
    "EM": tp.EM(tol=1e-13, max_iter=3000, restarts=12),
    "EM(incremental=True)": tp.EM(tol=1e-13, max_iter=3000, incremental=True),
    "Laplace": tp.Laplace(tol=1e-12),
}
MANY_OPTIMA = ("HMM", "LDA")  # only the best of many starts is the same
CELLS = {
    f"{pair}, {method}": (pair, method)
    for pair, method in itertools.product(PAIRS, METHODS)
    if pair not in MANY_OPTIMA or method in ("VB", "EM")
}
QUICK = ("coins, VB", "coins, EP", "regression, EM", "regression, EP", "known covariance, CVB0")


@pytest.mark.parametrize("cell", with_slow(CELLS, *(name for name in CELLS if name not in QUICK)))
def test_a_graph_has_the_numbers_of_the_ready_model(cell: str) -> None:
    pair, method = PAIRS[CELLS[cell][0]], METHODS[CELLS[cell][1]]
    found = []
    for model, data in ((pair.ready(), pair.data), (pair.graph().model(), pair.graph_data)):
        try:
            found.append(tp.fit(model, data, method).log_evidence)
        except UnsupportedMethod as reason:
            pytest.skip(str(reason))
    assert found[0] == pytest.approx(found[1], abs=1e-8)
