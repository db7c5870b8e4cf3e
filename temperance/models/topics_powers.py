"""Topics to the powers of documents at temperatures of their own, for the kernels of LDA.

A table of powers serves all documents only where they share a temperature; otherwise each takes exponentials of its
own words, in loops that the compiler can vectorise.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..numerics.host import OPTIONS, exp, log
from ..numerics.threads import in_threads


@njit(**OPTIONS)
def gather_powers(levels, words, power, block):  # type: ignore[no-untyped-def]
    """block_ki = exp(power · level of topic k in word i)."""
    size, n_topics = len(words), levels.shape[1]
    lines = np.empty((8, n_topics))
    for i in range(0, size, 8):
        count = min(8, size - i)
        for word in range(count):
            row, line = levels[words[i + word]], lines[word]
            for k in range(n_topics):
                line[k] = exp(power * row[k])
        if count == 8:
            # Eight words of a topic are one line of the cache.
            for k in range(n_topics):
                to = block[k, i : i + 8]
                to[0], to[1], to[2], to[3] = lines[0, k], lines[1, k], lines[2, k], lines[3, k]
                to[4], to[5], to[6], to[7] = lines[4, k], lines[5, k], lines[6, k], lines[7, k]
        else:
            for word in range(count):
                for k in range(n_topics):
                    block[k, i + word] = lines[word, k]


@njit(**OPTIONS)
def mean_level(levels, words, ratio, share, active, place, width, block):  # type: ignore[no-untyped-def]
    """Σ_i Σ_j responsibility · level, word by word: the levels of a topic are far from each other."""
    value, whole = 0.0, len(words) - len(words) % 4
    for i in range(0, whole, 4):
        a, b, c, d = levels[words[i]], levels[words[i + 1]], levels[words[i + 2]], levels[words[i + 3]]
        of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
        for j in range(width):
            k, line = active[j], block[place[j], i : i + 4]
            of_a += share[j] * line[0] * a[k]
            of_b += share[j] * line[1] * b[k]
            of_c += share[j] * line[2] * c[k]
            of_d += share[j] * line[3] * d[k]
        value += (ratio[i] * of_a + ratio[i + 1] * of_b) + (ratio[i + 2] * of_c + ratio[i + 3] * of_d)
    for i in range(whole, len(words)):
        row = levels[words[i]]
        for j in range(width):
            value += ratio[i] * share[j] * block[place[j], i] * row[active[j]]
    return value


@njit(**OPTIONS)
def add_powers(levels, share, active, width, factor, power, parts, row):  # type: ignore[no-untyped-def]
    """row_k += factor · share_j · exp(power · level_k) of the active topics k; `parts` is to work in."""
    for j in range(width):
        parts[j] = levels[active[j]]
    for j in range(width):
        parts[j] = factor * share[j] * exp(power * parts[j])
    for j in range(width):
        row[active[j]] += parts[j]


def weighted_sums(values: np.ndarray, table: np.ndarray, least: float, step: float) -> np.ndarray:
    """Σ_v x_kv f_j(x_kv) of each row of values, for functions whose values (columns) are in a table at equal steps of
    log x: each value is shared out between the two entries beside it, and the table comes in once."""
    shares = np.zeros((len(values), len(table)))
    in_threads(lambda *part: _share_out(*part, values, math.log(least), 1.0 / step, shares), len(values), 8)
    return shares @ table


@njit(**OPTIONS)
def _share_out(start, stop, values, origin, scale, shares):  # type: ignore[no-untyped-def]
    last = shares.shape[1] - 2
    places = np.empty(values.shape[1])
    for row in range(start, stop):
        value, share = values[row], shares[row]
        for v in range(len(value)):
            places[v] = (log(value[v]) - origin) * scale
        for v in range(len(value)):
            low = min(max(int(places[v]), 0), last)
            part = min(max(places[v] - low, 0.0), 1.0) * value[v]
            share[low] += value[v] - part
            share[low + 1] += part
