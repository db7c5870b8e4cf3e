"""The probability that two rows belong together, against a sum over every assignment of the rows."""

import itertools

import numpy as np
import pytest

import temperance as tp
from temperance.errors import UnsupportedMethod
from tests.exact import enumeration
from tests.inference.monte_carlo import tiny


def by_enumeration(shares):
    """p(z_i = z_j) where the rows are independent: the sum over all assignments of the products of their shares."""
    n, k = shares.shape
    total = np.zeros((n, n))
    for z in itertools.product(range(k), repeat=n):
        weight = np.prod([shares[i, j] for i, j in enumerate(z)])
        total += weight * np.equal.outer(z, z)
    return total


def in_order_of_rows(found):
    places = np.argsort(found.rows)
    return found.probability[np.ix_(places, places)]


def test_independent_rows_are_those_of_enumeration():
    fit = tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=3))
    exact = by_enumeration(fit.responsibilities(tiny.X))
    found = fit.co_membership()
    np.testing.assert_allclose(in_order_of_rows(found), exact, atol=1e-6)
    for a, b in itertools.product(range(len(found.labels)), repeat=2):
        pairs = [exact[i, j] for i, g in zip(found.rows, found.groups, strict=True)
                 for j, h in zip(found.rows, found.groups, strict=True) if (g, h) == (a, b) and i != j]  # fmt: skip
        assert found.between[a, b] == pytest.approx(np.mean(pairs), abs=1e-6)
    assert list(found.to_frame().index) == list(found.labels)


@pytest.mark.parametrize(
    "method",
    [tp.Gibbs(draws=2000, warmup=200), pytest.param(tp.ImportanceSampling(draws=20_000), marks=pytest.mark.slow)],
)
def test_draws_are_those_of_the_exact_posterior(method):
    """Two components that overlap: no numbering of the draws is the same for all of them."""
    exact = tiny.same_component()
    found = in_order_of_rows(tp.fit(tiny.MODEL, tiny.X, method, seed=1).co_membership())
    rows = np.triu_indices(len(tiny.X), 1)
    np.testing.assert_allclose(found[rows], exact[rows], atol=0.05)
    assert np.ptp(exact[rows]) > 0.3 and (np.diag(found) == 1).all()


@pytest.mark.slow
def test_a_comparison_averages_over_the_number_of_components():
    """With one component all rows are together; the exact average has the exact probabilities of both models."""
    ones = tp.GaussianMixture(1, prior=tp.NormalWishart(**tiny.PRIOR))
    method = tp.ParallelTempering(draws=2000, warmup=200)
    hill = tp.compare([ones, tiny.MODEL], tiny.X, method, seed=2)
    single = enumeration.log_evidence(tiny.X, tiny.marginal, np.ones(1))
    weight = 1.0 / (1.0 + np.exp(tiny.LOG_EVIDENCE - single))  # of one component
    exact = weight + (1.0 - weight) * tiny.same_component()
    rows = np.triu_indices(len(tiny.X), 1)
    np.testing.assert_allclose(in_order_of_rows(hill.co_membership())[rows], exact[rows], atol=0.05)
    assert 0.1 < weight < 0.9


def test_large_tables_are_sampled_and_summed_up():
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1, 2], [6000, 3000, 1000])
    fit = tp.fit(tp.ClassMixture(3), {"x": rng.normal(4.0 * z, 1.0), "y": rng.normal(-4.0 * z, 1.0)}, tp.VB())
    found = fit.co_membership(most=200)
    assert found.probability.shape == (200, 200) and found.labels == ("A", "B", "C")
    assert np.bincount(found.groups).tolist() == pytest.approx([120, 60, 20], abs=2)
    assert (np.diff(found.groups) >= 0).all() and np.isin(found.rows, range(10_000)).all()
    assert np.mean(found.groups == z[found.rows]) > 0.97
    shares = fit.responsibilities({"x": [0.0], "y": [0.0]})[0]  # deep in the largest
    assert shares.max() > 0.99 and found.settled > 0.95
    assert (np.diag(found.between) > 0.95).all() and found.between[0, 2] < 0.01
    np.testing.assert_allclose(found.between, found.between.T)


def test_the_picture_shows_the_probabilities():
    fit = tp.fit(tiny.MODEL, tiny.X, tp.VB(restarts=3))
    axes = tp.plot.together(fit)
    np.testing.assert_array_equal(axes.images[0].get_array(), fit.co_membership().probability)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(fit.co_membership().labels)


def test_steps_of_a_sequence_are_refused():
    rng = np.random.default_rng(0)
    fit = tp.fit(tp.HMM(2), rng.normal(size=(30, 1)), tp.VB(max_iter=3))
    with pytest.raises(UnsupportedMethod, match="steps of HMM depend on each other"):
        fit.co_membership()
