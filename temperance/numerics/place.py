"""Host values on the device without a compilation: `jnp.asarray` compiles a program for each new shape."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

_LINE = 64  # bytes


def on_device(value: Any, kind: Any = None) -> Array:
    """A number or a NumPy array as a JAX array; a JAX array as it is."""
    return value if isinstance(value, jax.Array) else jax.device_put(np.asarray(value, dtype=kind))


def empty(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """An uninitialised array, aligned as JAX requires, so that JAX on the CPU takes it without a copy."""
    size = np.dtype(kind).itemsize * math.prod(shape)
    room = np.empty(size + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size].view(kind).reshape(shape)
