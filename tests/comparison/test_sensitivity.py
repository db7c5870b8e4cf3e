"""The choice of size under wider and narrower priors."""

import numpy as np
import pytest
from scipy import stats

import temperance as tp
from temperance.errors import UnsupportedMethod

X = np.array([-2.1, -1.7, -1.9, 0.9, 1.4, 1.2, 1.1])[:, None]
PRIOR = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])


def test_a_prior_worth_half_as_much_is_its_density_to_that_power() -> None:
    """A Normal doubles its variance; for a Gamma and a Normal-Wishart, ratios of densities are compared."""
    normal = tp.Normal([1.0], [[4.0]]).worth(0.5)
    assert float(normal.mode()[0]) == pytest.approx(1.0)
    gamma = tp.Gamma(3.0, 2.0).worth(2.0)
    exact = 2.0 * np.diff(stats.gamma(3.0, scale=0.5).logpdf([0.7, 1.9]))
    assert np.diff(np.asarray([gamma.log_prob(v) for v in (0.7, 1.9)])) == pytest.approx(exact)
    assert np.asarray(tp.Dirichlet([1.0, 3.0]).worth(2.0).concentration) == pytest.approx([2.0, 6.0])
    assert float(tp.Beta(1.0, 3.0).worth(0.5).b) == pytest.approx(1.5)


def test_the_choice_and_its_probability_under_each_prior() -> None:
    hill = tp.compare([tp.GaussianMixture(k, prior=PRIOR) for k in (1, 2)], X, tp.VB(restarts=3), seed=0)
    found = hill.prior_sensitivity()
    assert [row["prior"] for row in found.rows()] == ["components", "components", "weights", "weights"]
    assert found.best == 2 and found.stable
    assert str(found).startswith("The choice of 2 components stays when any prior is made twice as wide or half")
    wide = tp.NormalWishart(mean=[0.0], pseudo_count=0.005, dof=1.5, scatter=[[0.11]])
    again = tp.compare([tp.GaussianMixture(k, prior=wide) for k in (1, 2)], X, tp.VB(restarts=3), seed=0)
    changed = found.changed["components", "twice as wide"]
    np.testing.assert_allclose(changed.log_evidence, again.log_evidence, rtol=1e-8)


def test_a_choice_that_rests_on_the_prior_is_said_to() -> None:
    """Two groups two standard deviations apart."""
    x = np.array([-1.5, -1.1, -0.8, -1.3, 0.9, 1.2, 1.6, 1.0])[:, None]
    hill = tp.compare([tp.GaussianMixture(k, prior=PRIOR) for k in (1, 2)], x, tp.VB(restarts=3), seed=0)
    found = hill.prior_sensitivity()
    assert found.stable == (set(found.choices.values()) == {hill.best})
    assert ("rests on the prior" in str(found)) == (not found.stable)


def test_data_in_pieces_are_refused() -> None:
    hill = tp.compare([tp.GaussianMixture(1, prior=PRIOR)], X, tp.SVI(max_iter=5), seed=0)
    with pytest.raises(UnsupportedMethod, match=r"takes them in pieces; use tp\.VB"):
        hill.prior_sensitivity()
