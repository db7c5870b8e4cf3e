"""A fork copies memory but not threads, so JAX in a child waits for ever for the threads of its parent.

If the parent had imported JAX but not used it, the child may use it.
"""

from __future__ import annotations

import os
import sys

from ..errors import ForkedProcess

_lost = False  # whether the threads of JAX were left behind in the parent


def refuse_after_fork() -> None:
    """Raise in a forked child whose parent had used JAX, because the next call of JAX would not return."""
    if _lost:
        raise ForkedProcess(
            "this process was forked from one that had already used JAX, which does not survive a fork; start "
            'processes with multiprocessing.get_context("spawn") (joblib\'s default, loky, works too)'
        )


def _after_fork() -> None:
    global _lost
    bridge = sys.modules.get("jax._src.xla_bridge")
    begun = getattr(bridge, "backends_are_initialized", lambda: bridge is not None)
    _lost = _lost or begun()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
