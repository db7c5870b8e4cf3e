"""A random permutation of 0 … n − 1, one element at a time, without the list.

A Feistel network is a bijection of the numbers of a fixed number of bits, whatever its round function; walking along
its cycles until the value is below n makes it a bijection of 0 … n − 1. The cost of a minibatch is then proportional to
its size, whereas a whole permutation costs a sort of all data (and that in every step, once restarts are vectorised).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, UInt32

_ROUNDS = 8
_SMALL = 1024  # up to this size a sort is as cheap, and a network of so few bits would not be uniform


def shuffled(key: Key[Array, ""], index: Int[Array, " b"], n: int) -> Int[Array, " b"]:
    """The elements at `index` of the permutation of 0 … n − 1 that belongs to the key."""
    if n <= _SMALL:
        return jax.random.permutation(key, n)[index]
    bits = (n - 1).bit_length()
    if bits > 32:
        raise ValueError(f"n must be at most 2³², got {n}")
    low = bits // 2
    masks = jnp.uint32((1 << low) - 1), jnp.uint32((1 << (bits - low)) - 1)
    keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)

    def permute(value: UInt32[Array, " b"]) -> UInt32[Array, " b"]:
        halves = [value & masks[0], value >> low]
        for number in range(_ROUNDS):
            here, other = number % 2, 1 - number % 2
            halves[here] = (halves[here] ^ _mix(halves[other] ^ keys[number])) & masks[here]
        return (halves[1] << low) | halves[0]

    def walk(value: UInt32[Array, " b"]) -> UInt32[Array, " b"]:
        return jnp.where(value < n, value, permute(value))

    start = permute(index.astype(jnp.uint32))
    return jax.lax.while_loop(lambda value: jnp.any(value >= n), walk, start).astype(index.dtype)


def _mix(value: UInt32[Array, " b"]) -> UInt32[Array, " b"]:
    """A 32-bit hash in which every bit of the result depends on every bit of the value."""
    value = (value ^ (value >> 16)) * jnp.uint32(0x7FEB352D)
    value = (value ^ (value >> 15)) * jnp.uint32(0x846CA68B)
    return value ^ (value >> 16)
