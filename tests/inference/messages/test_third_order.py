"""The third order of the perturbative correction: exact with three data, and better than the second with a few more."""

from typing import Any

import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidParameter, UnsupportedMethod
from tests.exact import enumeration
from tests.matrix.truths import FLAGS, HEADS, STEPS, graph_of_a_mixture, heads


def fitted(model: Any, x: np.ndarray) -> tp.Fit:
    fit = tp.fit(model, x, tp.EP(restarts=2, max_passes=300), seed=1, progress=False)
    assert fit.converged
    return fit


def exact(x: np.ndarray) -> float:
    return enumeration.log_evidence(x, heads, np.ones(2))


def test_three_data_are_exact() -> None:
    fit = fitted(tp.Mixture(2, "bernoulli", prior=tp.Beta(**HEADS)), FLAGS[:3])
    assert fit.corrected(3) == pytest.approx(exact(FLAGS[:3]), abs=1e-8)
    with pytest.raises(InvalidParameter, match="order must be 2 or 3, got 4"):
        fit.corrected(4)


def test_where_the_second_order_helps_the_third_does() -> None:
    fit = fitted(tp.Mixture(2, "bernoulli", prior=tp.Beta(**HEADS)), FLAGS)
    plain, second, third = (
        abs(value - exact(FLAGS)) for value in (fit.log_evidence, fit.corrected(2), fit.corrected(3))
    )
    assert third < second < plain


@pytest.mark.slow
def test_a_graph_has_the_same() -> None:
    x = np.array([-1.9, 0.9, 1.3])
    fit = fitted(graph_of_a_mixture(), x)
    from tests.matrix.truths import gaussian

    assert fit.corrected(3) == pytest.approx(enumeration.log_evidence(x[:, None], gaussian, np.ones(2)), abs=1e-7)


def test_a_chain_has_the_second_only() -> None:
    model = tp.HMM(2, "bernoulli", prior=tp.Beta(**HEADS))
    fit = tp.fit(model, STEPS[:2], tp.EP(max_passes=5), seed=1, progress=False)
    with pytest.raises(UnsupportedMethod, match="not for chains"):
        fit.corrected(3)
