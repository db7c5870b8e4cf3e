"""Which restarts are of one optimum."""

import numpy as np

from temperance.evidence.optima import distinct


def test_the_best_of_each_optimum_in_order():
    assert distinct(np.array([-20.0, np.nan, -10.0, -10.0004, -20.0001, -np.inf])) == [2, 0]


def test_rounding_does_not_choose_among_equals():
    bounds = np.array([-20.0, -10.0, -10.0])
    for change in (1e-14, -1e-14):
        assert distinct(bounds + np.array([0.0, 0.0, change])) == [1, 0]
