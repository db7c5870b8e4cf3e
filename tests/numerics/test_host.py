"""Special functions of NumPy arrays against SciPy's."""

import numpy as np
import pytest
from scipy import special

from temperance.numerics import host

POSITIVE = np.concatenate([np.geomspace(1e-12, 1e12, 400), np.linspace(0.5, 20.0, 400)])


@pytest.mark.parametrize("ours, theirs", [(host.log_gamma, special.gammaln), (host.digamma, special.digamma)])
def test_gamma_and_its_derivative(ours, theirs):
    expected = theirs(POSITIVE)
    np.testing.assert_allclose(ours(POSITIVE), expected, rtol=1e-13, atol=2e-14)
    assert ours(2.5) == pytest.approx(theirs(2.5), rel=1e-14) and np.ndim(ours(2.5)) == 0


def test_beta():
    np.testing.assert_allclose(host.log_beta(POSITIVE[500:], 3.5), special.betaln(POSITIVE[500:], 3.5), atol=1e-11)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_in_log_space(axis):
    values = np.random.default_rng(0).normal(size=(5, 7)) * 300
    values[2] = -np.inf
    values[:, 3] = -np.inf
    for keepdims in (False, True):
        found = host.logsumexp(values, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(found, special.logsumexp(values, axis=axis, keepdims=keepdims), rtol=1e-14)
        assert np.shape(found) == np.shape(special.logsumexp(values, axis=axis, keepdims=keepdims))


def test_shares():
    values = np.random.default_rng(1).normal(size=(4, 6)) * 100
    np.testing.assert_allclose(host.softmax(values, axis=1), special.softmax(values, axis=1), rtol=1e-13)
    np.testing.assert_allclose(host.expit(values), special.expit(values), rtol=1e-13)
    assert host.expit(np.array([-1e4, 1e4])).tolist() == [0.0, 1.0]
