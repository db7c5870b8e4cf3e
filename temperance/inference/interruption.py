"""Ctrl-C between steps: a run ends at the next whole state, and never in the middle of one; and an end in time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any, Self

from ..errors import NumericalFailure

_ENDS = ContextVar("_ENDS", default=float("inf"))


class OutOfTime(NumericalFailure):
    """A run had no result within its time."""


@contextmanager
def until(ends: float) -> Iterator[None]:
    """Inside this context runs end at this time of `time.perf_counter`, after the chunk in progress, with
    `OutOfTime`."""
    token = _ENDS.set(ends)
    try:
        yield
    finally:
        _ENDS.reset(token)


def in_time() -> None:
    """Raise `OutOfTime` if the time that `until` has set is over."""
    if time.perf_counter() > _ENDS.get():
        raise OutOfTime("the time for this run is over")


class Interruption:
    """Inside this context the first Ctrl-C only sets `asked`; a second one raises as usual.

    Nothing changes where Python's default handler is not installed (another thread, or a program with its own).
    """

    def __init__(self) -> None:
        self.asked = False
        self._installed = False
        self._before: Any = signal.default_int_handler

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            plain = self._before is signal.default_int_handler or getattr(self._before, "like_default", False)
            self._installed = plain
        if self._installed:
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
