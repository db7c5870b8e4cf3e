"""Threads for compiled host code that lets go of the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_pools: dict[int, ThreadPoolExecutor] = {}


def thread_count() -> int:
    """TEMPERANCE_THREADS, or as many threads as this process may use cores."""
    chosen = os.environ.get("TEMPERANCE_THREADS", "")
    if chosen.isdigit() and int(chosen) > 0:
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[int, int], object], size: int, grain: int) -> None:
    """Call `work(start, stop)` on pieces of about `grain` until `size` is covered, each piece exactly once.

    Pieces do not depend on the number of threads, so nor does the result if `work` writes only to its own.
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
