"""Functions for kernels against SciPy's."""

import numpy as np
import pytest
from numba import njit
from scipy.special import digamma
from threadpoolctl import ThreadpoolController

from temperance.kernels import _host as host
from temperance.numerics.threads import in_threads, one_blas_thread, thread_count


@pytest.fixture(scope="module")
def apply():
    @njit(error_model="numpy", fastmath=host.FAST)
    def exps(x, out):
        for i in range(len(x)):
            out[i] = host.exp(x[i])

    @njit(error_model="numpy", fastmath=host.FAST)
    def exp_digammas(x, out):
        for i in range(len(x)):
            out[i] = host.exp_digamma(x[i])

    @njit(error_model="numpy", fastmath=host.FAST)
    def logs(x, out):
        for i in range(len(x)):
            out[i] = host.log(x[i])

    @njit(error_model="numpy", fastmath=host.FAST)
    def digammas(x, out):
        for i in range(len(x)):
            out[i] = host.digamma(x[i])

    def call(function, x):
        out = np.empty_like(x)
        function(x, out)
        return out

    functions = (exps, exp_digammas, logs, digammas)
    return [lambda x, function=function: call(function, x) for function in functions]


def test_exponential(apply) -> None:
    x = np.linspace(-700.0, 700.0, 100_001)
    assert np.allclose(apply[0](x), np.exp(x), rtol=1e-13)
    assert (apply[0](np.array([-np.inf, -1e9])) < 1e-300).all()


def test_exponential_of_digamma(apply) -> None:
    x = np.logspace(-2.5, 12, 100_001)
    assert np.allclose(apply[1](x), np.exp(digamma(x)), rtol=1e-12)


def test_digamma(apply) -> None:
    x = np.logspace(-8, 12, 100_001)
    np.testing.assert_allclose(apply[3](x), digamma(x), rtol=1e-12, atol=1e-12)


def test_logarithm(apply) -> None:
    x = np.concatenate([np.logspace(-300, 300, 100_001), 1.0 + np.linspace(-0.5, 1.0, 100_001)])
    np.testing.assert_allclose(apply[2](x), np.log(x), rtol=4e-16, atol=3e-16)


def test_every_piece_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPERANCE_THREADS", "3")
    assert thread_count() == 3
    done = np.zeros(100, dtype=int)

    def work(start: int, stop: int) -> None:
        done[start:stop] += 1

    in_threads(work, 100, 7)
    assert (done == 1).all()

    def broken(start: int, stop: int) -> None:
        raise RuntimeError("from a thread")

    with pytest.raises(RuntimeError, match="from a thread"):
        in_threads(broken, 100, 7)


def test_blas_has_one_thread_inside_and_what_it_had_outside() -> None:
    controller = ThreadpoolController()

    def threads() -> list[int]:
        return [one["num_threads"] for one in controller.select(user_api="blas").info()]

    before = threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    assert set(threads()) <= {1}
    first.__exit__(None, None, None)  # as two fits in two threads may end
    assert set(threads()) <= {1}
    second.__exit__(None, None, None)
    assert threads() == before
