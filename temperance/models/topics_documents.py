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
from ..numerics.host import FAST, exp, exp_digamma
from ..numerics.threads import in_threads

OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": FAST}
TINY = 1e-300  # a word that no topic can explain: its ratio stays finite


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

    spread: np.ndarray  # (words, topics), the first `widths` of each row; its logarithm when powers differ
    topics: np.ndarray  # (words, topics), which topics these are
    widths: np.ndarray  # (words,)
    shift: np.ndarray  # (words,), so that nothing underflows
    column: np.ndarray  # (topics,); when powers differ, still to be raised to them
    common: bool  # whether all documents have the same power


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
    found = Found(
        np.empty(len(rows.words)),
        np.empty((n, n_topics)),
        np.empty((n, n_topics), dtype=np.int32),
        np.empty(n, dtype=np.int32),
    )

    def documents(start: int, stop: int) -> None:
        given = (rows.starts, rows.ends, rows.observation, rows.latent, gamma, evidence, observed, *found[1:])
        these = tuple(array[start:stop] for array in given)
        _documents(*these, rows.words, rows.counts, found.ratios, *layout, prior, steps, tolerance)

    in_threads(documents, n, 64)
    return found


@njit(**OPTIONS)
def _documents(  # type: ignore[no-untyped-def]
    starts, ends, observation, latent, gammas, evidence, observed, shares, actives, n_active,
    words, counts, ratios, spread, topics, widths, shift, column, common, prior, steps, tolerance,
):  # fmt: skip
    n_topics = len(prior)
    longest = 1
    for d in range(len(starts)):
        longest = max(longest, ends[d] - starts[d])
    block = np.empty((n_topics, longest))
    total, kept = np.empty(n_topics), np.empty(n_topics, dtype=np.int32)
    for d in range(len(starts)):
        here, count = words[starts[d] : ends[d]], counts[starts[d] : ends[d]]
        ratio, size = ratios[starts[d] : ends[d]], ends[d] - starts[d]
        gamma, share, active = gammas[d], shares[d], actives[d]
        power = latent[d]
        length, full = 0.0, True
        for i in range(size):
            length += count[i]
            full &= widths[here[i]] == n_topics
        # What is dropped must stay far below what a further iteration could change.
        negligible = max(1e-12 * length, 1e-2 * tolerance)
        for k in range(n_topics):
            active[k] = k
        width, done = n_topics, False
        _set_shares(gamma, active, width, column, power, common, share)
        # The first iteration reads topics where they are; from then on those left are in a block of this
        # document, topic by topic, so that inner loops run along its words.
        gathered = False
        if not common:
            _gather_powers(spread, here, observation[d], block)
            gathered = True
        for step in range(steps + 1):
            change = 0.0
            if step > 0:
                # The next update would bring these topics to their prior.
                left = 0
                for j in range(width):
                    kept[left] = j
                    stays = share[j] * total[j] >= negligible
                    left += stays
                    if not stays and step < steps and not done:
                        change += gamma[active[j]] - prior[active[j]]
                        gamma[active[j]] = prior[active[j]]
            else:
                left = width
                for j in range(width):
                    kept[j] = j
            if not gathered and (step > 0 or steps == 0):
                _gather(spread, topics, widths, here, kept, left, full, active, block)
                gathered = True
            elif left < width:
                for j in range(left):
                    if kept[j] > j:
                        for i in range(size):
                            block[j, i] = block[kept[j], i]
            if left < width:
                for j in range(left):
                    active[j] = active[kept[j]]
                    share[j] = share[kept[j]]
                width = left
            if gathered:
                _explain_block(block, share, count, width, ratio, total)
            elif full:
                _explain_full(spread, here, share, count, total)
            else:
                _explain_sparse(spread, topics, widths, here, share, count, total)
            if step == steps or done:
                break
            for j in range(width):
                k = active[j]
                fresh = prior[k] + power * share[j] * total[j]
                change += abs(fresh - gamma[k])
                gamma[k] = fresh
            _set_shares(gamma, active, width, column, power, common, share)
            done = change <= tolerance * n_topics
        n_active[d] = width
        if len(evidence) > 0:
            value = -power * length * math.log(exp_digamma(gamma.sum()))
            for i in range(size):
                value += count[i] * (math.log(count[i] / ratio[i]) + observation[d] * shift[here[i]])
            evidence[d] = value
        if len(observed) > 0:
            observed[d] = _observed(
                block, spread, here, ratio, share, active, width, shift, column, observation[d], common
            )


@njit(**OPTIONS)
def _set_shares(gamma, active, width, column, power, common, share):  # type: ignore[no-untyped-def]
    """exp{power · ψ(γ)} of the active topics, times their column's factor."""
    for j in range(width):
        share[j] = gamma[active[j]]
    for j in range(width):
        share[j] = exp_digamma(share[j])
    if not common:
        for j in range(width):
            share[j] *= column[active[j]]
    if power != 1.0:
        for j in range(width):
            share[j] = exp(power * math.log(share[j]))
    if common:
        for j in range(width):
            share[j] *= column[active[j]]


@njit(**OPTIONS)
def _observed(  # type: ignore[no-untyped-def]
    block, spread, here, ratio, share, active, width, shift, column, power, common,
):  # fmt: skip
    """Σ_i Σ_j responsibility · E log β."""
    size, value = len(here), 0.0
    for j in range(width):
        k = active[j]
        level = math.log(column[k])
        for i in range(size):
            part = ratio[i] * share[j] * block[j, i]
            if common:
                value += part * ((math.log(max(block[j, i], TINY)) + level) / power + shift[here[i]])
            else:
                value += part * (spread[here[i], k] + level + shift[here[i]])
    return value


@njit(**OPTIONS)
def mean_energy(  # type: ignore[no-untyped-def]
    starts, ends, words, counts, gammas, stored, scale, drift, totals, energy,
):  # fmt: skip
    """Σ_v n_v log Σ_k E[θ_k] E[β_kv] of each document; λ = scale · stored + drift, word by word."""
    n_topics = stored.shape[1]
    share = np.empty(n_topics)
    for d in range(len(starts)):
        whole = gammas[d].sum()
        for k in range(n_topics):
            share[k] = gammas[d, k] / (whole * totals[k])
        rest, value = share.sum(), 0.0
        for i in range(starts[d], ends[d]):
            row, sum_ = stored[words[i]], 0.0
            for k in range(n_topics):
                sum_ += row[k] * share[k]
            value += counts[i] * math.log(max(scale * sum_ + drift[words[i]] * rest, TINY))
        energy[d] = value


@njit(**OPTIONS)
def _explain_block(block, share, count, width, ratio, total):  # type: ignore[no-untyped-def]
    """ratio_i = count_i / Σ_j block_ji share_j and total_j = Σ_i ratio_i block_ji, four topics at a time."""
    size = len(count)
    whole = width - width % 4
    for i in range(size):
        ratio[i] = TINY
    for j in range(0, whole, 4):
        a, b, c, d = block[j], block[j + 1], block[j + 2], block[j + 3]
        of_a, of_b, of_c, of_d = share[j], share[j + 1], share[j + 2], share[j + 3]
        for i in range(size):
            ratio[i] += (a[i] * of_a + b[i] * of_b) + (c[i] * of_c + d[i] * of_d)
    for j in range(whole, width):
        for i in range(size):
            ratio[i] += block[j, i] * share[j]
    for i in range(size):
        ratio[i] = count[i] / ratio[i]
    for j in range(0, whole, 4):
        a, b, c, d = block[j], block[j + 1], block[j + 2], block[j + 3]
        of_a, of_b, of_c, of_d = 0.0, 0.0, 0.0, 0.0
        for i in range(size):
            of_a += ratio[i] * a[i]
            of_b += ratio[i] * b[i]
            of_c += ratio[i] * c[i]
            of_d += ratio[i] * d[i]
        total[j], total[j + 1], total[j + 2], total[j + 3] = of_a, of_b, of_c, of_d
    for j in range(whole, width):
        of_a = 0.0
        for i in range(size):
            of_a += ratio[i] * block[j, i]
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
def _gather(spread, topics, widths, here, kept, left, full, place, block):  # type: ignore[no-untyped-def]
    """block_ji = the spread of word i in the topic kept_j; `place` is overwritten and restored."""
    size = len(here)
    if full:
        # Eight words at a time: their entries of a topic are one line of the cache.
        whole = size - size % 8
        for i in range(0, whole, 8):
            a, b, c, d = spread[here[i]], spread[here[i + 1]], spread[here[i + 2]], spread[here[i + 3]]
            e, f, g, h = spread[here[i + 4]], spread[here[i + 5]], spread[here[i + 6]], spread[here[i + 7]]
            for j in range(left):
                k, line = kept[j], block[j, i : i + 8]
                line[0], line[1], line[2], line[3] = a[k], b[k], c[k], d[k]
                line[4], line[5], line[6], line[7] = e[k], f[k], g[k], h[k]
        for i in range(whole, size):
            row = spread[here[i]]
            for j in range(left):
                block[j, i] = row[kept[j]]
        return
    place[:] = -1
    for j in range(left):
        place[kept[j]] = j
        for i in range(size):
            block[j, i] = 0.0
    for i in range(size):
        v = here[i]
        for j in range(widths[v]):
            at = place[topics[v, j]]
            if at >= 0:
                block[at, i] = spread[v, j]
    for k in range(len(place)):
        place[k] = k


@njit(**OPTIONS)
def _gather_powers(spread, here, power, block):  # type: ignore[no-untyped-def]
    for i in range(len(here)):
        row = spread[here[i]]
        for k in range(len(row)):
            block[k, i] = exp(power * row[k])


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
        factor = scale[d] * ratios[entries[at]]
        share, active = shares[d], actives[d]
        for j in range(n_active[d]):
            row[active[j]] += factor * share[j]
