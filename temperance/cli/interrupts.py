"""Ctrl-C on the command line is answered within two seconds, whatever runs.

Python calls a handler between two of its own instructions, so not while a library is loaded or a program compiled. A
thread that the signal wakes answers then; and while modules are imported, which an exception in the middle can crash,
the process ends at once.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import NoReturn

_PATIENCE = 1.0  # seconds within which the main thread must reach the handler
_STOPPED = "interrupted before there was a result"
_WAITING = "interrupted: the step that is running has to end first; press Ctrl-C again to stop at once"
_seen = threading.Event()  # the handler below has run


def answer_interrupts() -> None:
    """Install the handler and start the thread, where nobody else has a handler."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    ours, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _interrupt)
    threading.Thread(target=_watch, args=(ours, wakes), daemon=True).start()


def leave(code: int) -> NoReturn:
    """Exit; after Ctrl-C at once, because libraries that were stopped in their work do not always end well."""
    if _seen.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _seen.set()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _stop()
        frame = frame.f_back
    raise KeyboardInterrupt


_interrupt.like_default = True  # type: ignore[attr-defined]  # a run may put its own handler in its place


def _watch(ours: socket.socket, wakes: socket.socket) -> None:
    """`wakes` is kept alive for the signals to write to."""
    presses = 0
    while signals := ours.recv(1):
        if signals[0] != signal.SIGINT:
            continue
        presses += 1
        handler = signal.getsignal(signal.SIGINT)
        came = _seen.wait(_PATIENCE) if handler is _interrupt else _came(handler)
        if not came and (handler is _interrupt or presses > 1):
            _stop()
        elif not came:
            print(f"temperance: {_WAITING}", file=sys.stderr, flush=True)


def _came(handler: object) -> bool:
    """Whether a run has seen Ctrl-C: it then removes its handler."""
    threading.Event().wait(_PATIENCE)
    return signal.getsignal(signal.SIGINT) is not handler


def _stop() -> None:
    os.write(2, f"temperance: {_STOPPED}\n".encode())
    os._exit(1)
