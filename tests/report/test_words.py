"""What a comparison says in words."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import temperance as tp
from temperance.comparison.comparison import Comparison
from temperance.report.words import conclusion

ROWS = np.random.default_rng(0).normal(size=(12, 1))


@cache
def fitted() -> Comparison:
    methods = [tp.VB(restarts=2), tp.Laplace(restarts=2)]
    return tp.compare([tp.GaussianMixture(k) for k in (1, 2, 3)], ROWS, methods, seed=0)


def with_evidence(*values: float) -> Comparison:
    """The same comparison with these log evidences by both methods, all labellings counted."""
    rows = []
    for row in fitted().cells:
        rows.append(
            tuple(
                dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, log_evidence=v), label_correction=0.0)
                for cell, v in zip(row, values, strict=True)
            )
        )
    return dataclasses.replace(fitted(), cells=tuple(rows))


def test_the_runner_up_is_chosen_by_evidence_where_probabilities_underflow() -> None:
    found = with_evidence(-50_000.0, -40_000.0, -1_000.0)
    assert found.probabilities[:2].tolist() == [0.0, 0.0]
    assert conclusion(found)[2].startswith("2 components come next, 39000.0 nats behind")


def test_two_methods_that_agree_are_both() -> None:
    assert conclusion(with_evidence(-3.0, -2.0, -1.0))[1] == "Both methods agree on that: VB and Laplace."


def test_stacking_weights_predict_at_least_as_well_as_every_model() -> None:
    weights = fitted().stacking()
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
    each = np.stack([fitted().fit(k).loo().pointwise for k in (1, 2, 3)], axis=1)
    assert np.log(np.exp(each) @ weights).sum() >= each.sum(axis=0).max() - 1e-6
