"""Message passing against values of an independent implementation: one datum, a tiny data set, the galaxies."""

import numpy as np
import pytest

import temperance as tp

TINY = np.array([[-2.1], [-1.7], [-1.9], [0.9], [1.4], [1.2], [1.1]])
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])


def test_one_datum_is_exact():
    """With one factor EP integrates it exactly: ln s is the log evidence, whatever the number of components."""
    x = np.array([[0.8]])
    exact = float(tp.Gaussian().log_predictive(PRIOR[None], x)[0, 0])
    fit = tp.fit(tp.GaussianMixture(2, prior=PRIOR), x, tp.EP(), seed=0)
    assert fit.log_evidence == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(("alpha", "value"), [(1.0, -11.776216), (0.0, -11.777076)])
def test_two_components_of_seven_points(alpha, value):
    fit = tp.fit(tp.GaussianMixture(2, prior=PRIOR), TINY, tp.MessagePassing(alpha, restarts=4), seed=0)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(value, abs=2e-6)


def test_galaxies_with_three_components():
    x = tp.datasets.load("galaxy")
    fit = tp.fit(tp.GaussianMixture(3, prior=PRIOR), x, tp.EP(restarts=8), seed=0)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(-232.42, abs=0.01)
