"""Checks that data fit into this machine's memory, before memory is taken."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import InvalidData

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # limits of a container


@functools.cache
def memory() -> int:
    """The bytes that this process may use: the machine's, or its container's where that has fewer."""
    found = [2**40]  # used if neither limit is known
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            found.append(int(Path(path).read_text()))
    return min(size for size in found if size > 0)


def require_memory(size: int, what: str) -> None:
    """Refuse `what` if its `size` in bytes exceeds the memory."""
    if size > memory():
        raise InvalidData(f"{what} would take {_bytes(size)}, and this machine has {_bytes(memory())} of memory")


@contextlib.contextmanager
def within_memory() -> Iterator[None]:
    """Inside, data that need more memory than can be had, or lists that hold themselves, are a sentence."""
    try:
        yield
    except MemoryError as error:
        raise InvalidData(f"the data and the model's prior do not fit in memory: {error}") from error
    except RecursionError as error:
        raise InvalidData("the data are nested too deeply, or a list holds itself") from error


def _bytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e15 else f"{size / 1e9:.1e} GB"
