"""Host values on the device without a compilation: `jnp.asarray` compiles a program for each new shape."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Array


def on_device(value: Any, kind: Any = None) -> Array:
    """A number or a NumPy array as a JAX array; a JAX array as it is."""
    return value if isinstance(value, jax.Array) else jax.device_put(np.asarray(value, dtype=kind))
