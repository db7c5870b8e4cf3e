"""XLA's older emitters of code for processors, which compile a small program in a quarter of the time.

JAX 0.10 and older choose them by a compiler option. The XLA of JAX 0.11 has them still, but only an option that JAX
cannot pass on asks for them: it is written into the message that holds all options. JAX 0.12 has the new ones alone.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from jaxlib import version

VERSION = tuple(int(part) for part in version.__version__.split(".")[:2])
OPTION: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False} if VERSION < (0, 11) else {}
BY_MESSAGE = VERSION == (0, 11)

_WANTED: ContextVar[bool] = ContextVar("older_emitters", default=False)


@contextlib.contextmanager
def older(wanted: bool) -> Iterator[None]:
    """What this thread compiles inside is compiled by the older emitters, if that is `wanted` and takes a message."""
    token = _WANTED.set(wanted and BY_MESSAGE and _can_ask())
    try:
        yield
    finally:
        _WANTED.reset(token)


@functools.cache
def _can_ask() -> bool:
    """Let JAX's function that makes the options add this one where it is wanted; False if there is no such function."""
    try:
        from jax._src import compiler

        options_of_jax = compiler.get_compile_options
    except (ImportError, AttributeError):
        return False

    @functools.wraps(options_of_jax)
    def get_compile_options(*args: Any, **kwargs: Any) -> Any:
        options = options_of_jax(*args, **kwargs)
        if not _WANTED.get():
            return options
        # Messages are merged when they follow each other.
        return type(options).ParseFromString(options.SerializeAsString() + MESSAGE)

    compiler.get_compile_options = get_compile_options
    return True


def _field(number: int, content: bytes) -> bytes:
    """A field of a message of protocol buffers."""
    return _number(number << 3 | 2) + _number(len(content)) + content


def _number(value: int) -> bytes:
    """A whole number, seven bits a byte."""
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


# Build options (3), debug options (3), extra options (500): a key (1) and its value (2).
_ENTRY = _field(1, b"xla_cpu_disable_new_fusion_emitters") + _field(2, b"")
MESSAGE = _field(3, _field(3, _field(500, _ENTRY)))
