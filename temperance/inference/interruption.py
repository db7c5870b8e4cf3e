"""Ctrl-C between steps: a run ends at the next whole state, and never in the middle of one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interruption:
    """Inside this context the first Ctrl-C only sets `asked`; a second one raises as usual.

    Nothing changes where Python's default handler is not installed (another thread, or a program with its own).
    """

    def __init__(self) -> None:
        self.asked = False
        self._installed = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._installed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._installed:
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
