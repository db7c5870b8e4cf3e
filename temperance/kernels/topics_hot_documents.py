"""Coordinate ascent in each document of LDA at a temperature above 1, in single precision.

Heat leaves documents more topics and takes a logarithm and an exponential for every power, but it also blurs: what is
hot need not be known to more than six digits, and numbers of half the length go through a processor twice as fast.
Exponents end at −38 below the largest, so that the product of a topic's share and its word is never lost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import FAST, OPTIONS, exp_digamma
from ._host_single import digamma, exp, log
from .topics_documents import Found, Rows

_NONE = np.float32(0.0)
_WORDS, _TOPICS = 32, 8  # that loops take at a time


class Table(NamedTuple):
    """Topics word by word: E log β_kv = level_vk + shift_v − column_k."""

    values: np.ndarray  # (words, topics), levels, at most 0; with a power for all documents, exp(power · level)
    shift: np.ndarray  # (words,)
    column: np.ndarray  # (topics,)
    own: bool  # whether each document has its own power


def step_hot_documents(
    table: Table,
    rows: Rows,
    prior: np.ndarray,
    gamma: np.ndarray,
    steps: int,
    tolerance: float,
    evidence: np.ndarray | None = None,
) -> tuple[Found, np.ndarray]:
    """Update γ of each document in place, and if asked for its evidence; the responsibilities, and with powers of
    their own Σ_v n_v E log β of each document."""
    n, n_topics = gamma.shape
    single = np.float32
    found = Found(
        np.empty(len(rows.words), single),
        np.empty((n, n_topics), single),
        np.empty((n, n_topics), np.int32),
        np.empty(n, np.int32),
    )
    observed = np.empty(n if table.own else 0)
    evidence = np.empty(0) if evidence is None else evidence
    prior = np.array(prior)  # whether it may be written to or not: compiled once

    def documents(start: int, stop: int) -> None:
        _documents(start, stop, rows, table, prior, gamma, evidence, observed, found, steps, tolerance)

    in_threads(documents, n, 64)
    return found, observed


class _Document(NamedTuple):
    """The topics of a document that are not negligible, one after the other, and its words."""

    topics: np.ndarray
    place: np.ndarray  # where the block has them
    gamma: np.ndarray
    prior: np.ndarray
    column: np.ndarray  # to the power of the words
    share: np.ndarray
    total: np.ndarray
    counts: np.ndarray  # of words, and 0 as often as to fill what a processor takes at a time
    ratio: np.ndarray
    lines: np.ndarray  # words × topics: exp(power · level), where the table does not have it
    block: np.ndarray  # the same by topics


@njit(**OPTIONS)
def _filled(size, by):  # type: ignore[no-untyped-def]
    return (size + by - 1) // by * by


@njit(**OPTIONS)
def _documents(  # type: ignore[no-untyped-def]
    start, stop, rows, table, prior, gammas, evidence, observed, found, steps, tolerance,
):  # fmt: skip
    n_topics, longest = len(prior), 1
    for d in range(start, stop):
        longest = max(longest, _filled(rows.ends[d] - rows.starts[d], _WORDS))
    of_topics, of_words = np.empty((5, _filled(n_topics, _TOPICS)), np.float32), np.empty((2, longest), np.float32)
    topics, place = np.empty((2, of_topics.shape[1]), np.int32)
    lines = np.empty((longest if table.own else 1, n_topics), np.float32)
    block = np.empty((n_topics, longest), np.float32)
    for d in range(start, stop):
        first, last = rows.starts[d], rows.ends[d]
        words, size = rows.words[first:last], _filled(last - first, _WORDS)
        observation, latent = np.float32(rows.observation[d]), np.float32(rows.latent[d])
        x = _Document(
            topics, place, of_topics[0], of_topics[1], of_topics[2], of_topics[3], of_topics[4],
            of_words[0, :size], of_words[1, :size], lines, block,
        )  # fmt: skip
        x.counts[:] = 0.0
        for i in range(len(words)):
            x.counts[i] = rows.counts[first + i]
        for k in range(n_topics):
            x.topics[k] = x.place[k] = k
            x.gamma[k], x.prior[k], x.column[k] = gammas[d, k], prior[k], observation * table.column[k]
        if table.own:
            for i in range(len(words)):
                _raise(table.values[words[i]], observation, lines[i])
        _gather(lines if table.own else table.values, table.own, words, block)
        gammas[d] = prior
        width, top = _ascend(x, gammas[d], latent, steps, tolerance)
        if len(evidence) > 0:
            evidence[d] = _evidence(x, table, words, gammas[d], top, observation, latent)
        if table.own:
            observed[d] = _observed(x, table, words, width)
        for i in range(len(words)):
            found.ratios[first + i] = x.ratio[i]
        found.n_active[d] = _write_shares(x, width, found.active[d], found.shares[d])


@njit(**OPTIONS)
def _raise(levels, power, line):  # type: ignore[no-untyped-def]
    for k in range(len(levels)):
        line[k] = exp(power * levels[k])


@njit(**OPTIONS)
def _gather(lines, in_order, words, block):  # type: ignore[no-untyped-def]
    """The lines of words, one after the other if they are in their order, turned to lines of topics: eight at a time,
    half a line of the cache. After the last word, 1."""
    size, n_topics = len(words), block.shape[0]
    at = np.empty(8, np.int64)
    for first in range(0, size, 8):
        count = min(8, size - first)
        for word in range(count):
            at[word] = first + word if in_order else words[first + word]
        if count == 8:
            a, b, c, d = lines[at[0]], lines[at[1]], lines[at[2]], lines[at[3]]
            e, f, g, h = lines[at[4]], lines[at[5]], lines[at[6]], lines[at[7]]
            for k in range(n_topics):
                to = block[k, first : first + 8]
                to[0], to[1], to[2], to[3] = a[k], b[k], c[k], d[k]
                to[4], to[5], to[6], to[7] = e[k], f[k], g[k], h[k]
        else:
            for word in range(count):
                for k in range(n_topics):
                    block[k, first + word] = lines[at[word], k]
    for k in range(n_topics):
        block[k, size : _filled(size, _WORDS)] = 1.0


@njit(**OPTIONS)
def _ascend(x, gamma, latent, steps, tolerance):  # type: ignore[no-untyped-def]
    """At most `steps` updates of γ, until they change it by less; then the responsibilities that go with it. Returns
    how many topics are left (those that the next update would bring to their prior, which `gamma` has at first, are
    left out), and what their shares are relative to."""
    n_topics, length = len(gamma), 0.0
    for i in range(len(x.counts)):
        length += x.counts[i]
    # What is dropped must stay far below what a further iteration could change.
    negligible = np.float32(max(1e-9 * length, 1e-2 * tolerance))
    width, last = n_topics, steps == 0
    for step in range(steps + 1):
        top = _set_shares(x, latent, width)
        left, change = width, _NONE
        if step > 0:
            left = 0
            for j in range(width):
                left += x.share[j] * x.total[j] >= negligible
        if last:
            for j in range(width):
                gamma[x.topics[j]] = x.gamma[j]
        if left < width:
            change = _drop(x, negligible, width)
            width = left
        _explain(x, width)
        if last:
            break
        for j in range(width):
            fresh = x.prior[j] + latent * x.share[j] * x.total[j]
            change += abs(fresh - x.gamma[j])
            x.gamma[j] = fresh
        last = change <= tolerance * n_topics or step == steps - 1
    return width, top


@njit(**OPTIONS)
def _drop(x, negligible, width):  # type: ignore[no-untyped-def]
    """Keep the others, in their order; returns by how much γ changes."""
    left, change = 0, _NONE
    for j in range(width):
        if x.share[j] * x.total[j] >= negligible:
            x.topics[left], x.place[left], x.share[left] = x.topics[j], x.place[j], x.share[j]
            x.gamma[left], x.prior[left], x.column[left] = x.gamma[j], x.prior[j], x.column[j]
            left += 1
        else:
            change += x.gamma[j] - x.prior[j]
    return change


@njit(**OPTIONS)
def _set_shares(x, latent, width):  # type: ignore[no-untyped-def]
    """exp{power · ψ(γ) − column}, relative to the largest, which is returned."""
    share = x.share
    for j in range(width):
        share[j] = latent * digamma(x.gamma[j]) - x.column[j]
    top = largest(share, width)
    for j in range(width):
        share[j] = exp(share[j] - top)
    return top


@njit(**OPTIONS)
def _explain(x, width):  # type: ignore[no-untyped-def]
    """ratio_i = count_i / Σ_j block_ji share_j and total_j = Σ_i ratio_i block_ji, eight topics at a time; the last of
    them are filled up with some that have no share."""
    count, ratio, share, total, block, place = x.counts, x.ratio, x.share, x.total, x.block, x.place
    size = len(count)
    for j in range(width, _filled(width, _TOPICS)):
        place[j], share[j] = place[0], _NONE
    ratio[:] = _NONE
    for j in range(0, width, _TOPICS):
        a, b, c, d = block[place[j]], block[place[j + 1]], block[place[j + 2]], block[place[j + 3]]
        e, f, g, h = block[place[j + 4]], block[place[j + 5]], block[place[j + 6]], block[place[j + 7]]
        of_a, of_b, of_c, of_d = share[j], share[j + 1], share[j + 2], share[j + 3]
        of_e, of_f, of_g, of_h = share[j + 4], share[j + 5], share[j + 6], share[j + 7]
        for i in range(size):
            low = (a[i] * of_a + b[i] * of_b) + (c[i] * of_c + d[i] * of_d)
            ratio[i] += low + ((e[i] * of_e + f[i] * of_f) + (g[i] * of_g + h[i] * of_h))
    for i in range(size):
        ratio[i] = count[i] / ratio[i]
    for j in range(0, width, _TOPICS):
        a, b, c, d = block[place[j]], block[place[j + 1]], block[place[j + 2]], block[place[j + 3]]
        e, f, g, h = block[place[j + 4]], block[place[j + 5]], block[place[j + 6]], block[place[j + 7]]
        of_a, of_b, of_c, of_d, of_e, of_f, of_g, of_h = _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, _NONE
        for i in range(size):
            of_a += ratio[i] * a[i]
            of_b += ratio[i] * b[i]
            of_c += ratio[i] * c[i]
            of_d += ratio[i] * d[i]
            of_e += ratio[i] * e[i]
            of_f += ratio[i] * f[i]
            of_g += ratio[i] * g[i]
            of_h += ratio[i] * h[i]
        total[j], total[j + 1], total[j + 2], total[j + 3] = of_a, of_b, of_c, of_d
        total[j + 4], total[j + 5], total[j + 6], total[j + 7] = of_e, of_f, of_g, of_h


@njit(**OPTIONS)
def _write_shares(x, width, active, share):  # type: ignore[no-untyped-def]
    """The topics left and their shares. Many are all of them, some with a share of 0: sums over topics in their order
    are the quicker ones."""
    if 2 * width < len(share):
        for j in range(width):
            active[j], share[j] = x.topics[j], x.share[j]
        return width
    share[:] = 0.0
    for j in range(width):
        share[x.topics[j]] = x.share[j]
    return len(share)


@njit(**OPTIONS | {"fastmath": FAST | {"nnan"}})
def largest(values, width):  # type: ignore[no-untyped-def]
    """Of the first `width` values; only without a promise about NaN are several compared at a time."""
    top = values[0]
    for j in range(width):
        top = max(top, values[j])
    return top


@njit(**OPTIONS)
def _evidence(x, table, words, gamma, top, observation, latent):  # type: ignore[no-untyped-def]
    """Σ_v n_v log Σ_k exp{E log θ_k + E log β_kv}, each to its power; the ratios have the sums."""
    length, value = 0.0, 0.0
    for i in range(len(words)):
        length += x.counts[i]
        value += x.counts[i] * (log(x.counts[i] / x.ratio[i]) + observation * table.shift[words[i]])
    return value + length * (top - latent * math.log(exp_digamma(gamma.sum())))


@njit(**OPTIONS)
def _observed(x, table, words, width):  # type: ignore[no-untyped-def]
    """Σ_i Σ_j responsibility · E log β, word by word."""
    value, share = 0.0, x.prior  # no longer needed
    share[:] = 0.0
    for j in range(width):
        share[x.topics[j]] = x.share[j]
    for i in range(len(words)):
        line, level, part = x.lines[i], table.values[words[i]], _NONE
        for k in range(len(level)):
            part += share[k] * line[k] * (level[k] - table.column[k])
        value += x.ratio[i] * part + x.counts[i] * table.shift[words[i]]
    return value
