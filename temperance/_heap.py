"""Memory that is free but still counted as this process's."""

from __future__ import annotations

import contextlib
import ctypes

import numpy as np


def give_back() -> None:
    """Return freed memory to the system; glibc would keep it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep() -> None:
    """From now on glibc keeps up to 62 MB that are freed for the next arrays, as after any large array: until it has
    seen one, it gives temporary arrays of a megabyte back at once, and the next ones wait for new pages."""
    np.empty(31 * 2**17)  # 31 MB that nobody touches
