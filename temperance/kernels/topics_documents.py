"""Coordinate ascent in each document of LDA: the Numba kernel that both walks and minibatch steps are made of.

Topics are laid out word by word, so that inner loops run along topics, and a word keeps only the topics that can
matter for it; ψ(Σγ) cancels in the responsibilities and is left out; a topic whose expected count in a document is
about to be negligible is left out for the rest of that document. Threads write to rows of their own, so the result
does not depend on their number.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..data import Corpus
from ..numerics.threads import in_threads
from ._host import OPTIONS, digamma, exp, exp_digamma, log

TINY = 1e-300  # a word that no topic can explain: its ratio stays finite
_FEW = 128  # topics are gathered as soon as no more are left, or half of all


class Rows(NamedTuple):
    """Documents d with entries starts[d] : ends[d] of `words` and `counts`, and one row each of the rest."""

    starts: np.ndarray
    ends: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    observation: np.ndarray  # powers
    latent: np.ndarray


def padded_rows(words: np.ndarray, counts: np.ndarray, *each: np.ndarray) -> Rows:
    """Documents padded with counts of zero at their ends."""
    n, width = words.shape
    starts = np.arange(n, dtype=np.int64) * width
    return Rows(starts, starts + (counts > 0).sum(axis=1), words.ravel(), counts.ravel(), *each)


def rows_of_corpus(corpus: Any, rows: np.ndarray, *each: np.ndarray) -> Rows:
    """Documents where they are in memory, or read from disk."""
    if not isinstance(corpus, Corpus):
        corpus, rows = corpus.take(rows), np.arange(len(rows))
    return Rows(corpus.starts[rows], corpus.starts[rows + 1], corpus.words, corpus.counts, *each)


class Layout(NamedTuple):
    """Topics word by word: E log β_kv = log(spread_vj · column_k) / power + shift_v, with k = topics_vj."""

    spread: np.ndarray  # (words, topics), the first `widths` of each row
    topics: np.ndarray  # (words, topics), which topics these are
    widths: np.ndarray  # (words,)
    shift: np.ndarray  # (words,), so that nothing underflows
    column: np.ndarray  # (topics,)


class Found(NamedTuple):
    """Responsibilities of documents: ratio of an entry × share of a topic × spread, over the active topics."""

    ratios: np.ndarray  # like words
    shares: np.ndarray  # (documents, topics), the first n_active of each
    active: np.ndarray
    n_active: np.ndarray


def step_documents(
    layout: Layout,
    rows: Rows,
    prior: np.ndarray,
    gamma: np.ndarray,
    evidence: np.ndarray,
    steps: int,
    tolerance: float,
    observed: np.ndarray | None = None,
) -> Found:
    """Update γ of each document in place, and if they have any length its evidence and Σ_v n_v E log β of the topics
    its words are assigned to."""
    n, n_topics = gamma.shape
    observed = np.empty(0) if observed is None else observed
    prior = np.array(prior)  # whether it may be written to or not: compiled once
    found = Found(
        np.empty(len(rows.words)),
        np.empty((n, n_topics)),
        np.empty((n, n_topics), dtype=np.int32),
        np.empty(n, dtype=np.int32),
    )

    def documents(start: int, stop: int) -> None:
        _documents(start, stop, rows, layout, gamma, evidence, observed, found, prior, steps, tolerance)

    in_threads(documents, n, 64)
    return found


class _Document(NamedTuple):
    """One document: its words, and rows of what is found."""

    words: np.ndarray
    counts: np.ndarray
    observation: float  # powers
    latent: float
    gamma: np.ndarray
    ratio: np.ndarray
    share: np.ndarray  # of the active topics, in their order
    active: np.ndarray


class _Room(NamedTuple):
    """Memory that documents use one after the other: topics × words of the document, and what goes with topics."""

    block: np.ndarray
    place: np.ndarray  # where the block has each of the active topics
    total: np.ndarray


@njit(**OPTIONS)
def _documents(  # type: ignore[no-untyped-def]
    start, stop, rows, layout, gammas, evidence, observed, found, prior, steps, tolerance,
):  # fmt: skip
    n_topics, longest = len(prior), 1
    for d in range(start, stop):
        longest = max(longest, rows.ends[d] - rows.starts[d])
    room = _Room(np.empty((n_topics, longest)), np.empty(n_topics, dtype=np.int32), np.empty(n_topics))
    for d in range(start, stop):
        first, last = rows.starts[d], rows.ends[d]
        x = _Document(
            rows.words[first:last], rows.counts[first:last], rows.observation[d], rows.latent[d],
            gammas[d], found.ratios[first:last], found.shares[d], found.active[d],
        )  # fmt: skip
        width = _ascend(x, layout, room, prior, steps, tolerance)
        found.n_active[d] = width
        if len(evidence) > 0:
            evidence[d] = _evidence(x, layout)
        if len(observed) > 0:
            observed[d] = _observed(x, layout, room, width)


@njit(**OPTIONS)
def _ascend(x, layout, room, prior, steps, tolerance):  # type: ignore[no-untyped-def]
    """At most `steps` updates of γ, until they change it by less; then the responsibilities that go with it. Returns
    how many topics are left.

    At first topics are read where they are. Once few of them are left, these are gathered in a block, topic by topic,
    so that inner loops run along the words of the document.
    """
    n_topics = len(prior)
    length, full = _look(x, layout.widths, n_topics)
    # What is dropped must stay far below what a further iteration could change.
    negligible = max(1e-12 * length, 1e-2 * tolerance)
    few = max(_FEW, n_topics // 2) if full else n_topics
    width, dropped = n_topics, 0.0
    last, gathered = steps == 0, False
    for k in range(n_topics):
        x.active[k] = room.place[k] = k
    for step in range(steps + 1):
        _set_shares(x, layout, width)
        narrow = gathered or last or (step > 0 and _count_left(x.share, room.total, negligible, width) <= few)
        if narrow and step > 0:
            width, dropped = _drop(x, prior, room, negligible, width, last)
        if narrow and not gathered:
            _gather(x, layout, full, width, room)
            gathered = True
        if gathered:
            _explain_block(room.block, room.place, x.share, x.counts, width, x.ratio, room.total)
        elif full:
            _explain_full(layout.spread, x.words, x.share, x.counts, room.total)
        else:
            _explain_sparse(layout.spread, layout.topics, layout.widths, x.words, x.share, x.counts, room.total)
        if last:
            break
        change = dropped + _update(x, prior, room.total, width)
        last = change <= tolerance * n_topics or step == steps - 1
    return width


@njit(**OPTIONS)
def _look(x, widths, n_topics):  # type: ignore[no-untyped-def]
    """The number of tokens, and whether all of the words have all topics."""
    length, full = 0.0, True
    for i in range(len(x.words)):
        length += x.counts[i]
        full &= widths[x.words[i]] == n_topics
    return length, full


@njit(**OPTIONS)
def _update(x, prior, total, width):  # type: ignore[no-untyped-def]
    """γ = α + power · counts of the active topics; returns by how much it changes."""
    change = 0.0
    for j in range(width):
        k = x.active[j]
        fresh = prior[k] + x.latent * x.share[j] * total[j]
        change += abs(fresh - x.gamma[k])
        x.gamma[k] = fresh
    return change


@njit(**OPTIONS)
def _count_left(share, total, negligible, width):  # type: ignore[no-untyped-def]
    left = 0
    for j in range(width):
        left += share[j] * total[j] >= negligible
    return left


@njit(**OPTIONS)
def _drop(x, prior, room, negligible, width, last):  # type: ignore[no-untyped-def]
    """Leave out topics that the next update would bring to their prior, and bring them there unless there is none.

    Returns how many are left, and by how much γ changes.
    """
    left, change = 0, 0.0
    for j in range(width):
        k = x.active[j]
        if x.share[j] * room.total[j] >= negligible:
            x.active[left], x.share[left], room.place[left] = k, x.share[j], room.place[j]
            left += 1
        elif not last:
            change += x.gamma[k] - prior[k]
            x.gamma[k] = prior[k]
    return left, change


@njit(**OPTIONS)
def _evidence(x, layout):  # type: ignore[no-untyped-def]
    """Σ_v n_v log Σ_k …, of which the ratios have the sums."""
    length, value = 0.0, 0.0
    for i in range(len(x.words)):
        length += x.counts[i]
        value += x.counts[i] * (math.log(x.counts[i] / x.ratio[i]) + x.observation * layout.shift[x.words[i]])
    return value - x.latent * length * math.log(exp_digamma(x.gamma.sum()))


@njit(**OPTIONS)
def _set_shares(x, layout, width):  # type: ignore[no-untyped-def]
    """exp{power · ψ(γ)} of the active topics, times their column's factor."""
    gamma, active, share, column, power = x.gamma, x.active, x.share, layout.column, x.latent
    for j in range(width):
        share[j] = gamma[active[j]]
    if power == 1.0:
        for j in range(width):
            share[j] = exp_digamma(share[j])
    else:
        for j in range(width):
            share[j] = exp(power * digamma(share[j]))
    for j in range(width):
        share[j] *= column[active[j]]


@njit(**OPTIONS)
def _observed(x, layout, room, width):  # type: ignore[no-untyped-def]
    """Σ_i Σ_j responsibility · E log β."""
    value, size = 0.0, len(x.words)
    for j in range(width):
        line, part = room.block[room.place[j]], 0.0
        for i in range(size):
            part += x.ratio[i] * line[i]
        value += x.share[j] * part * math.log(layout.column[x.active[j]])
        part = 0.0
        for i in range(size):
            part += x.ratio[i] * line[i] * log(max(line[i], TINY))
        value += x.share[j] * part
    value /= x.observation
    for i in range(size):
        value += x.counts[i] * layout.shift[x.words[i]]
    return value


@njit(**OPTIONS)
def _explain_block(block, place, share, count, width, ratio, total):  # type: ignore[no-untyped-def]
    """ratio_i = count_i / Σ_j block_ji share_j and total_j = Σ_i ratio_i block_ji, four topics at a time."""
    size = len(count)
    whole = width - width % 4
    for i in range(size):
        ratio[i] = TINY
    for j in range(0, whole, 4):
        a, b, c, d = block[place[j]], block[place[j + 1]], block[place[j + 2]], block[place[j + 3]]
        of_a, of_b, of_c, of_d = share[j], share[j + 1], share[j + 2], share[j + 3]
        for i in range(size):
            ratio[i] += (a[i] * of_a + b[i] * of_b) + (c[i] * of_c + d[i] * of_d)
    for j in range(whole, width):
        a, of_a = block[place[j]], share[j]
        for i in range(size):
            ratio[i] += a[i] * of_a
    for i in range(size):
        ratio[i] = count[i] / ratio[i]
    for j in range(0, whole, 4):
        a, b, c, d = block[place[j]], block[place[j + 1]], block[place[j + 2]], block[place[j + 3]]
        of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
        for i in range(size):
            of_a += ratio[i] * a[i]
            of_b += ratio[i] * b[i]
            of_c += ratio[i] * c[i]
            of_d += ratio[i] * d[i]
        total[j], total[j + 1], total[j + 2], total[j + 3] = of_a, of_b, of_c, of_d
    for j in range(whole, width):
        a, of_a = block[place[j]], 0.0
        for i in range(size):
            of_a += ratio[i] * a[i]
        total[j] = of_a


@njit(**OPTIONS)
def _explain_full(spread, here, share, count, total):  # type: ignore[no-untyped-def]
    """total_k = Σ_i count_i spread_ik / Σ_j spread_ij share_j over words with all topics, four at a time."""
    n_topics, size = len(share), len(here)
    total[:] = 0.0
    whole = size - size % 4
    for i in range(0, whole, 4):
        a, b, c, d = spread[here[i]], spread[here[i + 1]], spread[here[i + 2]], spread[here[i + 3]]
        norm_a, norm_b, norm_c, norm_d = 0.0, 0.0, 0.0, 0.0
        for j in range(n_topics):
            norm_a += a[j] * share[j]
            norm_b += b[j] * share[j]
            norm_c += c[j] * share[j]
            norm_d += d[j] * share[j]
        norm_a = count[i] / max(norm_a, TINY)
        norm_b = count[i + 1] / max(norm_b, TINY)
        norm_c = count[i + 2] / max(norm_c, TINY)
        norm_d = count[i + 3] / max(norm_d, TINY)
        for j in range(n_topics):
            total[j] += (norm_a * a[j] + norm_b * b[j]) + (norm_c * c[j] + norm_d * d[j])
    for i in range(whole, size):
        a = spread[here[i]]
        norm_a = 0.0
        for j in range(n_topics):
            norm_a += a[j] * share[j]
        norm_a = count[i] / max(norm_a, TINY)
        for j in range(n_topics):
            total[j] += norm_a * a[j]


@njit(**OPTIONS)
def _explain_sparse(spread, topics, widths, here, share, count, total):  # type: ignore[no-untyped-def]
    """The same where words keep only some of the topics."""
    total[:] = 0.0
    for i in range(len(here)):
        v = here[i]
        norm = 0.0
        for j in range(widths[v]):
            norm += spread[v, j] * share[topics[v, j]]
        norm = count[i] / max(norm, TINY)
        for j in range(widths[v]):
            total[topics[v, j]] += norm * spread[v, j]


@njit(**OPTIONS)
def _gather(x, layout, full, width, room):  # type: ignore[no-untyped-def]
    """block_ji = the spread of word i in the j-th of the active topics."""
    spread, words, block, active, size = layout.spread, x.words, room.block, x.active, len(x.words)
    if full:
        # Eight words at a time: their entries of a topic are one line of the cache.
        whole = size - size % 8
        for i in range(0, whole, 8):
            a, b, c, d = spread[words[i]], spread[words[i + 1]], spread[words[i + 2]], spread[words[i + 3]]
            e, f, g, h = spread[words[i + 4]], spread[words[i + 5]], spread[words[i + 6]], spread[words[i + 7]]
            for j in range(width):
                k, line = active[j], block[j, i : i + 8]
                line[0], line[1], line[2], line[3] = a[k], b[k], c[k], d[k]
                line[4], line[5], line[6], line[7] = e[k], f[k], g[k], h[k]
        for i in range(whole, size):
            row = spread[words[i]]
            for j in range(width):
                block[j, i] = row[active[j]]
    else:
        room.place[:] = -1
        for j in range(width):
            room.place[active[j]] = j
            block[j, :size] = 0.0
        for i in range(size):
            v = words[i]
            for j in range(layout.widths[v]):
                at = room.place[layout.topics[v, j]]
                if at >= 0:
                    block[at, i] = spread[v, j]
    for j in range(width):
        room.place[j] = j


@njit(**OPTIONS)
def lengths(starts, ends, counts):  # type: ignore[no-untyped-def]
    """The number of tokens of each document."""
    result = np.zeros(len(starts))
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            result[d] += counts[i]
    return result


@njit(**OPTIONS)
def sort_by_word(starts, ends, words, n_words):  # type: ignore[no-untyped-def]
    """The entries of all documents sorted by word, the document of each, and where each word ends."""
    place = np.zeros(n_words + 1, dtype=np.int64)
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            place[words[i] + 1] += 1
    for v in range(n_words):
        place[v + 1] += place[v]
    entries = np.empty(place[n_words], dtype=np.int64)
    documents = np.empty(place[n_words], dtype=np.int32)
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            at = place[words[i]]
            place[words[i]] += 1
            entries[at] = i
            documents[at] = d
    return entries, documents, place


@njit(**OPTIONS)
def add_word(  # type: ignore[no-untyped-def]
    entries, documents, ends, v, ratios, shares, actives, n_active, scale, row,
):  # fmt: skip
    """row_k = Σ_d scale_d ratio share_k over the documents that have word v, before the factor of its spread."""
    row[:] = 0.0
    for at in range(0 if v == 0 else ends[v - 1], ends[v]):
        d = documents[at]
        factor = row.dtype.type(scale[d] * ratios[entries[at]])
        share, active = shares[d], actives[d]
        if n_active[d] == len(row):  # then they are in their order
            for k in range(len(row)):
                row[k] += factor * share[k]
        else:
            for j in range(n_active[d]):
                row[active[j]] += factor * share[j]
