"""Room for compiled code: it is dropped before a process has as many memory maps as Linux allows it.

Each executable takes some twenty to two hundred of 65,530. Where they run out, XLA says "Failed to materialize
symbols", or (JAX 0.10) frees the code that it could not make but leaves its frames registered, and the error that
should say so ends the process by a segmentation fault in libgcc. JAX keeps what it has compiled for as long as the
function lives, so that fits of ever new shapes or models would get there.
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
EACH, OFTEN = 200, 64  # maps of one executable at most; executables from one look at the maps to the next at most

_made, _look = 0, 1  # executables since the last look, and from how many the next is due
_full = 0  # maps from which there is no room; 0: not yet known


def another() -> None:
    """There is one more executable."""
    global _made
    _made += 1


def _listen(event: str, *_: Any, **__: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        another()


jax.monitoring.register_event_duration_secs_listener(_listen)


def make_room(drop: Callable[[], None]) -> None:
    """Drop compiled code, that of `drop` and JAX's own, where the maps of this process have come near their limit.

    Nothing is dropped where this thread is tracing. What still runs, or is held elsewhere, stays.
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
            found = _maps()  # of libraries, data and others' code: to drop again at once would not help
            _full = max(allowed // 2, (found + allowed) // 2)
        _look = min(max((_full - found) // EACH, 1), OFTEN)  # a look takes a microsecond for each map


def _maps() -> int:
    return MAPS.read_bytes().count(b"\n")
