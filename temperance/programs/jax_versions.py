"""What differs between the versions of JAX, from 0.7.2 on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
from jaxlib import version

VERSION = tuple(int(part) for part in version.__version__.split(".")[:2])

# Versions after 0.10 have only code emitters that take four times as long for a small program.
OLDER_EMITTERS: Mapping[str, Any] = {"xla_cpu_use_fusion_emitters": False} if VERSION < (0, 11) else {}
# Versions before 0.10 stop at an option that they do not know, after a quarter of a second. With it, 0.12 computes
# wrong numbers: the steps of a factorial mixture (tests/papers/test_variational_tempering.py).
_PRESETS = VERSION in {(0, 10), (0, 11)}
PRESET: Mapping[str, Any] = {"xla_cpu_opt_preset": "CPU_OPT_PRESET_FAST_COMPILE"} if _PRESETS else {}
# Whether a marked call runs as one piece (see `one_call`): not tried before 0.10, and 0.12 is as fast without the mark.
MARKS_CALLS = VERSION in {(0, 10), (0, 11)}


def stop_listening(listener: Callable[..., None]) -> None:
    """Undo `jax.monitoring.register_event_listener`, which JAX 0.7 cannot: there the listener stays."""
    stop = getattr(jax.monitoring, "unregister_event_listener", None)
    if stop is not None:
        stop(listener)


def unwritten() -> contextlib.AbstractContextManager[Any]:
    """Keep programs that this thread compiles inside out of JAX's cache, if this version of JAX has the setting."""
    try:
        from jax._src.config import persistent_cache_min_compile_time_secs as threshold

        return threshold(float("inf"))
    except (ImportError, TypeError):
        return contextlib.nullcontext()


def context() -> tuple[Hashable, ...]:
    """JAX's settings that a trace depends on, those of this thread included."""
    try:
        from jax._src.config import trace_context

        return tuple(trace_context())
    except ImportError:
        return tuple(sorted((name, repr(value)) for name, value in jax.config.values.items()))
