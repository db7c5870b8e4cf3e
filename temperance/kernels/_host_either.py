"""exp, log, digamma and exp ∘ digamma for Numba kernels that are written once for both precisions: the precision of the
argument selects the version (`_host.py` for double, `_host_single.py` for single).

Import this module only from a kernel: it imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from . import _host as double
from . import _host_single as single
from ._host import EXACT, FAST, OPTIONS

# Only kernels call these: no entry point from Python is compiled, and nothing is cached on disk.
INNER: dict[str, Any] = OPTIONS | {"cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@njit(**EXACT)
def _single_exp_digamma(x: np.float32) -> np.float32:
    return single.exp(single.digamma(x))


def _either(of_double: Any, of_single: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        raise NotImplementedError("only for compiled code")

    @overload(function, jit_options=EXACT)  # type: ignore[arg-type]
    def _choose(x):  # type: ignore[no-untyped-def]  # Numba compares its signature with that of the lambda
        chosen = of_single if x == types.float32 else of_double
        return lambda x: chosen(x)

    return function


exp = _either(double.exp, single.exp)
log = _either(double.log, single.log)
digamma = _either(double.digamma, single.digamma)
exp_digamma = _either(double.exp_digamma, _single_exp_digamma)


@njit(**INNER | {"fastmath": FAST | {"nnan"}})
def largest(values, width):  # type: ignore[no-untyped-def]
    """The largest of the first `width` values. The compiler compares several at a time only if told that none is
    NaN."""
    top = values[0]
    for j in range(width):
        top = max(top, values[j])
    return top
