"""JAX's random keys made on the host: the bits of `jax.random.key`, `fold_in` and `split`, without a compilation.

Threefry-2x32 (Salmon et al., 2011) is a few additions and rotations, for which JAX compiles a program each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

_SETTINGS: Any = jax.config  # typed Any, because only the newest JAX declares the names of its settings
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def make_key(seed: int) -> Key[Array, ""]:
    """`jax.random.key(seed)`."""
    if not _is_threefry():
        return jax.random.key(seed)
    return wrap(_seed(seed))


def fold_in(key: Key[Array, ""], number: int) -> Key[Array, ""]:
    """`jax.random.fold_in(key, number)` of one key, outside compiled code."""
    if not _is_threefry(key):
        return jax.random.fold_in(key, number)
    high, low = _seed(number & 0xFFFFFFFF)
    return wrap(np.array(_threefry(_data(key), np.array([high]), np.array([low])))[:, 0])


def split(key: Key[Array, ""], count: int, which: slice = slice(None)) -> Key[Array, " n"]:
    """`jax.random.split(key, count)[which]` of one key, outside compiled code."""
    if not _is_threefry(key) or not _SETTINGS.jax_threefry_partitionable:
        return jax.random.split(key, count)[which]
    low = np.arange(count, dtype=np.uint32)
    return wrap(np.stack(_threefry(_data(key), np.zeros_like(low), low), axis=-1)[which])


def is_host() -> bool:
    """Whether `hashes` and `uniforms` give the numbers of `jax.random` under its present settings."""
    config: Any = jax.config
    return _is_threefry() and config.jax_threefry_partitionable and not config.jax_high_dynamic_range_gumbel


def hashes(keys: np.ndarray, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """Keys (r, n, 2) from keys (r, 2), as NumPy arrays: `fold_in` of each number, or `split` for numbers 0, 1, …"""
    low = np.asarray(numbers, dtype=np.uint32)
    return np.stack(_threefry((keys[:, :1], keys[:, 1:]), np.zeros_like(low), low), axis=-1)


def uniforms(keys: np.ndarray, count: int) -> np.ndarray:
    """`jax.random.uniform(key, (count,))` for each of the keys (r, 2), in rows (r, count)."""
    bits = hashes(keys, np.arange(count)).astype(np.uint64)
    mantissa = (bits[..., 0] << np.uint64(20)) | (bits[..., 1] >> np.uint64(12))
    return (mantissa | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0


def shuffles(keys: np.ndarray, count: int) -> np.ndarray:
    """`jax.random.permutation(key, count)` for each of the keys (r, 2), in rows (r, count): numbers are sorted by
    random bits, as many times as it takes to make ties among the bits negligible."""
    order = np.tile(np.arange(count), (len(keys), 1))
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log(2**32 - 1))):
        both = hashes(keys, [0, 1])
        keys, bits = both[:, 0], hashes(both[:, 1], np.arange(count))
        places = np.argsort(bits[..., 0] ^ bits[..., 1], axis=1, kind="stable")
        order = np.take_along_axis(order, places, axis=1)
    return order


def _is_threefry(key: Key[Array, ""] | None = None) -> bool:
    if key is None:
        return _SETTINGS.jax_default_prng_impl == "threefry2x32"
    return str(jax.random.key_impl(key)) in ("threefry2x32", "fry")


def wrap(data: np.ndarray) -> Key[Array, "..."]:
    """Keys from their integers."""
    return jax.random.wrap_key_data(jax.device_put(data), impl="threefry2x32")


def _data(key: Key[Array, ""]) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def _seed(seed: int) -> np.ndarray:
    return np.array([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF], dtype=np.uint32)


def _threefry(
    key: Sequence[np.ndarray] | np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Twenty rounds, with a part of the key added after every four."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x, y = first + keys[0], second + keys[1]
        for turn in range(5):
            for rotation in _ROTATIONS[turn % 2]:
                x = x + y
                y = ((y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))) ^ x
            x, y = x + keys[(turn + 1) % 3], y + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return x, y
