"""One walk over data of a mixture of Gaussians with full covariance: the kernel behind `gaussian_walk.py`.

Rows are processed in tiles that stay in the cache. The products of their columns stay there too: they are formed a few
at a time when needed, once for E log p(x, z) and once for the statistics. Only the data are read from memory.
"""

# mypy: disable-error-code="call-arg"
# (for intrinsics, to which Numba passes the first argument)

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS, exp
from ._tiles import TALL, WIDE, add_inner, add_outer, lanes, multiply

_TILE = 450_000  # bytes of a tile of rows (measured)
_DEPTH = 128  # products of columns formed at a time for E log p(x, z)
_PRODUCTS = 2 * WIDE  # products formed at a time for the statistics
_PIECES, _SUMS = 32, 2**26  # pieces of work, and the most bytes that their sums may take


def host_statistics(
    x: np.ndarray, row_weights: np.ndarray, bias: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With logits_nk = bias_k + ⟨weights_k, (x_n, the upper triangle of x_n x_nᵀ)⟩ and r = softmax(logits):
    Σ_n w_n log Σ_k exp(logits_nk), Σ_n w_n r_nk, and Σ_n w_n r_nk (x_n, …)."""
    n, d = x.shape
    k, size = weights.shape
    first, second = _pairs(d)
    # Tiles are TALL × WIDE, padded with components without data and columns that are never read.
    tall, wide = -(-k // TALL) * TALL, len(first)
    padded = np.zeros((tall, wide), dtype=x.dtype)
    padded[:k, :size] = weights
    x, row_weights, bias = (_frozen(array) for array in (x, row_weights, bias))
    packed = np.ascontiguousarray(padded.reshape(-1, TALL, wide).swapaxes(1, 2)).ravel()
    width = WIDE * lanes(x.itemsize)
    rows = width * int(np.clip(_TILE // (width * (8 * tall + x.itemsize * (tall + d))), 8, 40))
    pieces = int(np.clip(_SUMS // (8 * tall * wide), 4, _PIECES))
    grain = rows * max(4, -(-n // (rows * pieces)))
    count = -(-n // grain)
    values, counts, sums = np.zeros(count), np.zeros((count, k)), np.zeros((count, tall * wide))

    def work(start: int, stop: int) -> None:
        at = start // grain
        here = slice(start, stop)
        totals = (values[at : at + 1], counts[at], sums[at])
        _walk(x[here], row_weights[here], bias, packed, first, second, width, rows, *totals)

    in_threads(work, n, grain)
    return values.sum(), counts.sum(axis=0), sums.sum(axis=0).reshape(tall, wide)[:k, :size]


def _frozen(array: np.ndarray) -> np.ndarray:
    """Make an array read-only, as those from JAX are: Numba would compile the kernel again for writable arrays."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


def _pairs(d: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns whose products are the features; column d is all ones."""
    first, second = np.triu_indices(d)
    spare = np.full(-(d + len(first)) % WIDE, d)
    ones = np.full(d, d)
    return np.concatenate([np.arange(d), first, spare]), np.concatenate([ones, second, spare])


@njit(**OPTIONS)
def _walk(  # type: ignore[no-untyped-def]
    x, row_weights, bias, weights, first, second, width, rows, value, counts, sums,
):  # fmt: skip
    n, d = x.shape
    k, wide = len(bias), len(first)
    tall = len(weights) // wide
    stride = rows + width  # rarely a power of two, at which lines of the cache would push each other out
    columns = np.ones((d + 1) * stride, dtype=x.dtype)
    products = np.empty(max(_DEPTH * width, _PRODUCTS * stride), dtype=x.dtype)
    logits, shares = np.zeros(tall * stride), np.zeros(tall * stride, dtype=x.dtype)
    top, total, scale = np.empty(rows), np.empty(rows), np.zeros(rows)
    for start in range(0, n, rows):
        here = min(rows, n - start)
        for row in range(here):
            scale[row] = row_weights[start + row]
            for i in range(d):
                columns[i * stride + row] = x[start + row, i]
        for row in range(here, rows):
            scale[row] = 0.0  # clears what an earlier tile left
        used = -(-here // width) * width
        for c in range(k):
            logits[c * stride : c * stride + used] = bias[c]
        for begin in range(0, wide, _DEPTH):
            end = min(begin + _DEPTH, wide)
            for row in range(0, used, width):
                for f in range(begin, end):
                    multiply(
                        columns, first[f] * stride + row, second[f] * stride + row, products, (f - begin) * width, width
                    )
                for c in range(0, tall, TALL):
                    add_outer(
                        weights, c * wide + begin * TALL, products, 0, logits, c * stride + row, stride, end - begin
                    )
        value[0] += _respond(logits, stride, used, scale, top, total, shares, counts)
        for begin in range(0, wide, _PRODUCTS):
            end = min(begin + _PRODUCTS, wide)
            for f in range(begin, end):
                multiply(columns, first[f] * stride, second[f] * stride, products, (f - begin) * stride, used)
            for c in range(0, tall, TALL):
                for f in range(begin, end, WIDE):
                    at = (f - begin) * stride
                    add_inner(shares, c * stride, stride, products, at, stride, sums, c * wide + f, wide, used)


@njit(**OPTIONS)
def _respond(logits, stride, used, scale, top, total, shares, counts):  # type: ignore[no-untyped-def]
    """Weighted responsibilities and their sums; returns Σ_n w_n log Σ_k exp(logits_nk)."""
    k = len(counts)
    top[:used] = logits[:used]
    total[:used] = 0.0
    for c in range(1, k):
        for row in range(used):
            top[row] = max(top[row], logits[c * stride + row])
    for c in range(k):
        for row in range(used):
            here = exp(logits[c * stride + row] - top[row])
            logits[c * stride + row] = here
            total[row] += here
    value = 0.0
    for row in range(used):
        if scale[row] != 0.0:
            value += scale[row] * (top[row] + math.log(total[row]))
        total[row] = scale[row] / total[row]
    for c in range(k):
        sum_ = 0.0
        for row in range(used):
            here = logits[c * stride + row] * total[row]
            shares[c * stride + row] = here
            sum_ += here
        counts[c] += sum_
    return value
