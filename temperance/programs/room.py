"""Room for compiled code: it is dropped before a process has as many memory maps as Linux allows.

Each executable takes some twenty to two hundred of 65,530 maps. When they run out, XLA says "Failed to materialize
symbols". Or (JAX 0.10) it frees the code that it could not make but leaves its frames registered, and throwing the
error then ends the process by a segmentation fault in libgcc. JAX keeps compiled code for as long as the function
lives, so a process that keeps fitting new shapes or models would reach the limit.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from .._heap import give_back

try:
    from jax._src.core import trace_state_clean as idle
except ImportError:  # not public: a later version may not have it

    def idle() -> bool:
        return True


MAPS, ALLOWED = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
EACH, OFTEN = 200, 64  # most maps of one executable; most executables between two looks at the maps

_made, _look = 0, 1  # executables since the last look, and their number at which the next look is due
_full = 0  # maps above which there is no room; 0: not yet known


def another() -> None:
    """Count one more executable, and look at the maps when a look is due."""
    global _made
    _made += 1


def _listen(event: str, *_: Any, **__: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        another()


jax.monitoring.register_event_duration_secs_listener(_listen)


def make_room(drop: Callable[[], None]) -> None:
    """Drop compiled code, by `drop` and from JAX's caches, if the maps of this process are near their limit.

    Nothing is dropped while this thread is tracing. Code that still runs, or is referred to elsewhere, stays.
    """
    global _made, _look, _full
    if _made < _look or not idle():
        return
    _made = 0
    with contextlib.suppress(OSError, ValueError):  # not Linux, or no /proc
        allowed, found = int(ALLOWED.read_text()), _maps()
        _full = _full or allowed // 2
        if found >= _full:
            drop()
            jax.clear_caches()
            gc.collect()
            give_back()
            found = _maps()  # of libraries, data and other code: dropping again at once would not help
            _full = max(allowed // 2, (found + allowed) // 2)
        _look = min(max((_full - found) // EACH, 1), OFTEN)  # a look takes a microsecond for each map


def _maps() -> int:
    return MAPS.read_bytes().count(b"\n")
