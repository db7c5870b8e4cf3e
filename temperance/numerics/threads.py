"""Threads for compiled host code that releases the interpreter's lock, and a limit to BLAS threads where these do
harm."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_pools: dict[int, ThreadPoolExecutor] = {}
kernels = threading.Lock()  # held by the kernels of topic models, which use all cores and must not be entered twice


def thread_count() -> int:
    """The number of threads: TEMPERANCE_THREADS, or else the number of cores that this process may use."""
    chosen = os.environ.get("TEMPERANCE_THREADS", "")
    if chosen.isdigit() and int(chosen) > 0:
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[int, int], object], size: int, grain: int) -> None:
    """Call `work(start, stop)` once for each piece of range(size); pieces have a length of about `grain`.

    The pieces do not depend on the number of threads, and neither does the result if `work` writes only to its piece.
    """
    pieces = [(start, min(start + grain, size)) for start in range(0, size, grain)]
    threads = min(thread_count(), len(pieces))
    if threads <= 1:
        for start, stop in pieces:
            work(start, stop)
        return
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="temperance")
    for done in [_pools[threads].submit(work, *piece) for piece in pieces]:
        done.result()


class _Blas:
    """How many callers are inside `one_blas_thread`, and what restores the limits when the last one leaves."""

    lock = threading.Lock()
    inside = 0
    restore: Any = None
    controller: Any = None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with many small matrices LAPACK's threads would wait for each other at each of them.

    XLA runs several factorisations at once; where each also starts threads of its own, those of OpenBLAS spin for
    each other's locks, and a sweep with 64 matrices of 64 rows took from 0.02 s to seconds.
    """
    with _Blas.lock:
        if _Blas.inside == 0:
            from threadpoolctl import ThreadpoolController

            # The loaded libraries are scanned once: SciPy's BLAS, which JAX calls, is loaded with this package.
            _Blas.controller = _Blas.controller or ThreadpoolController()
            _Blas.restore = _Blas.controller.limit(limits=1, user_api="blas")
            _Blas.restore.__enter__()
        _Blas.inside += 1
    try:
        yield
    finally:
        with _Blas.lock:
            _Blas.inside -= 1
            if _Blas.inside == 0:
                _Blas.restore.__exit__(None, None, None)
