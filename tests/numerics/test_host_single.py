"""Functions of single precision for kernels against SciPy's."""

import numpy as np
import pytest
from numba import njit
from scipy.special import digamma

from temperance.kernels import _host as host
from temperance.kernels import _host_single as host_single


@pytest.fixture(scope="module")
def apply():
    @njit(error_model="numpy", fastmath=host.FAST)
    def exps(x, out):
        for i in range(len(x)):
            out[i] = host_single.exp(x[i])

    @njit(error_model="numpy", fastmath=host.FAST)
    def logs(x, out):
        for i in range(len(x)):
            out[i] = host_single.log(x[i])

    @njit(error_model="numpy", fastmath=host.FAST)
    def digammas(x, out):
        for i in range(len(x)):
            out[i] = host_single.digamma(x[i])

    def call(function, x):
        x = x.astype(np.float32)
        out = np.empty_like(x)
        function(x, out)
        return x.astype(np.float64), out.astype(np.float64)

    return [lambda x, function=function: call(function, x) for function in (exps, logs, digammas)]


def test_exponential(apply) -> None:
    x, found = apply[0](np.linspace(-38.0, 80.0, 100_001))
    np.testing.assert_allclose(found, np.exp(x), rtol=2e-7)
    _, faint = apply[0](np.array([-38.5, -1e4, -1e30, -np.inf]))
    np.testing.assert_allclose(faint, np.exp(-38.0), rtol=2e-7)
    assert faint[0] ** 2 > np.finfo(np.float32).tiny, "products of the faintest must not vanish"


def test_logarithm(apply) -> None:
    x, found = apply[1](np.concatenate([np.logspace(-37, 37, 100_001), np.linspace(0.5, 2.0, 100_001)]))
    np.testing.assert_allclose(found, np.log(x), rtol=2e-7, atol=2e-7)


def test_digamma(apply) -> None:
    x, found = apply[2](np.logspace(-12, 9, 100_001))
    np.testing.assert_allclose(found, digamma(x), rtol=1e-6, atol=1e-6)
    assert np.isfinite(apply[2](np.array([1e10, 1e20, 1e38]))[1]).all()


def test_what_is_not_a_number_stays_so(apply) -> None:
    for which in (0, 2):
        assert np.isnan(apply[which](np.full(20, np.nan))[1]).all()
