"""Compiled code in a process that has few memory maps left, as after many fits.

python tests/faults/crowded.py 300 jax  # JAX alone: a segmentation fault in libgcc (JAX 0.10, Linux)
python -m tests.faults.crowded 3000  # 16 fits of ever new shapes: Temperance drops in time what it has compiled
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

PAGE = 4096


def maps() -> int:
    return Path("/proc/self/maps").read_bytes().count(b"\n")


def crowd(free: int) -> None:
    """Take so many memory maps that only these are left."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    pairs = (int(Path("/proc/sys/vm/max_map_count").read_text()) - free - maps()) // 2
    start = libc.mmap(None, 2 * pairs * PAGE, 3, 0x22, -1, 0)  # private, of no file; to read and to write
    for number in range(pairs):
        assert libc.mprotect(start + 2 * number * PAGE, PAGE, 1) == 0  # every other page only to read: a map of its own


def jax_alone(free: int) -> None:
    import jax
    import jax.numpy as jnp

    kept = []
    for size in range(2, 1000):
        function = jax.jit(lambda x: jnp.sort(jnp.sin(jnp.sort(x))))
        kept.append(function.lower(np.ones(size)).compile())
        if len(kept) == 1:  # its threads are there
            crowd(free)
        print(size, maps(), flush=True)


def fits(free: int) -> None:
    import temperance as tp

    crowd(free)
    rng = np.random.default_rng(0)
    for number in range(16):
        x = rng.normal(size=(10 + number, 1 + number))
        fit = tp.fit(tp.LinearRegression(), (x, x.sum(axis=1)), tp.Gibbs(draws=4, warmup=1, chains=1), seed=0)
        assert np.isfinite(fit.predict(x).mean).all()
        print(number, maps(), flush=True)


if __name__ == "__main__":
    (jax_alone if "jax" in sys.argv[2:] else fits)(int(sys.argv[1]))
