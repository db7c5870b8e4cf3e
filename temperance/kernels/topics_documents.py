"""Coordinate ascent in each document of LDA: the Numba kernel behind walks and minibatch steps.

With B_vk = exp E log β_kv and e_k = exp ψ(γ_k), each to its power, an update is γ_k = α_k + power · Σ_v n_v φ_vk with
φ_vk ∝ e_k B_vk; ψ(Σγ) cancels. A topic whose expected count in a document is about to be negligible is dropped for the
rest of that document. Threads write to rows of their own, so the result does not depend on their number.

The kernel works in the precision of the table of topics. Cold documents (powers of 1) have a table in double precision,
and need neither a logarithm nor a power. Hot ones may be in single precision: heat leaves documents more topics and
needs a logarithm and an exponential for every power, but six digits are enough for hot documents, and numbers of half
the length are processed twice as fast. In single precision exponents are cut at 38 below the largest, so that the
product of a topic's share and its word's value never underflows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..numerics.threads import in_threads
from ._host import OPTIONS
from ._host_either import INNER, digamma, exp, exp_digamma, largest, log
from .topics_entries import Ascent, Rows, own
from .topics_products import TINY, explain_block, explain_full, explain_sparse, gather, gather_lists

_FEW = 128  # topics are gathered when at most this many, or half of all, are left
_FAINT = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-9}  # negligible expected counts, per token
_LINE = 128  # vector width in bytes


class Table(NamedTuple):
    """Topics word by word: E log β_kv = level_vj + shift_v + log column_k, with k = topics_vj."""

    values: np.ndarray  # (words, topics), the first `widths` of each row: exp(power · level), or level if `own`
    topics: np.ndarray  # (words, topics), which topics these are
    widths: np.ndarray  # (words,)
    shift: np.ndarray  # (words,), so that nothing underflows
    column: np.ndarray  # (topics,)
    own: bool  # whether each document has its own power


def empty_table(shape: tuple[int, ...], kind: Any, own: bool) -> Table:
    """A table in which every word lists all topics, in order."""
    n_words, n_topics = shape
    topics = np.tile(np.arange(n_topics, dtype=np.int32), (n_words, 1))
    widths, shift = np.full(n_words, n_topics, dtype=np.int32), np.zeros(n_words)
    return Table(np.empty(shape, kind), topics, widths, shift, np.ones(n_topics), own)


class Found(NamedTuple):
    """Documents after their ascent; a responsibility is ratio of an entry × share of a topic × value of the table."""

    gamma: np.ndarray  # (documents, topics)
    evidence: np.ndarray  # Σ_v n_v log Σ_k …, if asked for
    observed: np.ndarray  # Σ_v n_v E log β under the responsibilities, if asked for or if powers differ
    ratios: np.ndarray  # one for each entry
    shares: np.ndarray  # (documents, topics), the first n_active of each
    active: np.ndarray
    n_active: np.ndarray


def step_documents(
    table: Table, rows: Rows, ascent: Ascent, gamma: np.ndarray, evidence: bool = False, observed: bool = False
) -> Found:
    """Update γ of each document in place; returns it with the responsibilities and, if asked for, Σ log and Σ E log
    β."""
    n, kind = len(gamma), table.values.dtype
    found = Found(
        gamma,
        np.empty(n if evidence else 0),
        np.empty(n if table.own or observed else 0),
        np.empty(len(rows.words), kind),
        np.empty(gamma.shape, kind),
        np.empty(gamma.shape, np.int32),
        np.empty(n, np.int32),
    )
    ascent = ascent._replace(prior=np.atleast_2d(own(ascent.prior)[0]))

    def documents(start: int, stop: int) -> None:
        longest = int((rows.ends[start:stop] - rows.starts[start:stop]).max())
        longest += -longest % (_LINE // kind.itemsize)
        # Without levels, the kernel is compiled without the code that uses them.
        levels = np.empty((gamma.shape[1], longest), kind) if table.own or observed else None
        _documents(start, stop, rows, table, ascent, (longest, _FAINT[kind]), levels, found)

    in_threads(documents, n, 64)
    return found


class _Document(NamedTuple):
    """Working memory for one document: its remaining topics, one after the other, and its words."""

    topics: np.ndarray
    place: np.ndarray  # their positions in the blocks
    gamma: np.ndarray
    prior: np.ndarray
    column: np.ndarray  # `Table.column`; unless powers are 1, its logarithm times the power of the words
    share: np.ndarray
    total: np.ndarray
    counts: np.ndarray  # word counts, zero-padded to the vector width
    ratio: np.ndarray
    block: np.ndarray  # topics × words: exp(power · level)


class _Powers(NamedTuple):
    cold: bool  # whether both powers are 1
    observation: float
    latent: float


@njit(**OPTIONS)
def _documents(start, stop, rows, table, ascent, limits, levels, found):  # type: ignore[no-untyped-def]
    kind, by, n_topics = table.values.dtype.type, _LINE // table.values.itemsize, ascent.prior.shape[1]
    longest, faint = limits
    topics, place = np.empty(n_topics, np.int32), np.empty(n_topics, np.int32)
    of_topics, of_words = np.empty((5, n_topics), table.values.dtype), np.empty((2, longest), table.values.dtype)
    block = np.empty((n_topics, longest), table.values.dtype)
    for d in range(start, stop):
        first, size = rows.starts[d], rows.ends[d] - rows.starts[d]
        words, padded = rows.words[first : first + size], (size + by - 1) // by * by
        x = _Document(
            topics, place, of_topics[0], of_topics[1], of_topics[2], of_topics[3], of_topics[4],
            of_words[0, :padded], of_words[1, :padded], block,
        )  # fmt: skip
        observation, latent = kind(rows.observation[d]), kind(rows.latent[d])
        powers = _Powers(observation == 1.0 and latent == 1.0, observation, latent)
        length = 0.0
        for i in range(padded):
            x.counts[i] = rows.counts[first + i] if i < size else 0.0
            length += x.counts[i]
        _enter(x, table, powers, ascent.prior[min(d, len(ascent.prior) - 1)], found.gamma[d])
        if levels is not None:
            _raise(x, table, words, powers, levels)
        negligible = kind(max(faint * length, 1e-2 * ascent.tolerance))  # far below the effect of an update
        width, top = _ascend(x, table, words, powers, ascent, negligible, found.gamma[d])
        if len(found.evidence) > 0:
            found.evidence[d] = _evidence(x, table, words, powers, found.gamma[d], top)
        if levels is not None:
            _lower(x, table, words, powers, levels, width)
            found.observed[d] = _observed(x, table, words, levels, width)
        for i in range(size):
            found.ratios[first + i] = x.ratio[i]
        found.n_active[d] = _write_shares(x, width, found.active[d], found.shares[d])


@njit(**INNER)
def _enter(x, table, powers, prior, gamma):  # type: ignore[no-untyped-def]
    """Load a document with all topics; its γ is read and overwritten with the prior."""
    for k in range(len(gamma)):
        x.topics[k] = x.place[k] = k
        x.gamma[k], x.prior[k], x.column[k] = gamma[k], prior[k], table.column[k]
        gamma[k] = prior[k]
    if not powers.cold:
        for k in range(len(gamma)):
            x.column[k] = powers.observation * log(x.column[k])


@njit(**INNER)
def _raise(x, table, words, powers, levels):  # type: ignore[no-untyped-def]
    """Exponentiate the block of a document with its own power."""
    if table.own:
        gather(table.values, words, x.topics, len(x.topics), levels)
        for k in range(len(x.topics)):
            line, level = x.block[k], levels[k]
            for i in range(len(words)):
                line[i] = exp(powers.observation * level[i])
            for i in range(len(words), len(x.counts)):
                line[i] = 1.0


@njit(**INNER)
def _ascend(x, table, words, powers, ascent, negligible, gamma):  # type: ignore[no-untyped-def]
    """Update γ until it converges; returns the number of topics left and the log of the scale of their shares. At first
    topics are read in place. When few are left, they are gathered in a block, topic by topic, so that inner loops run
    along the words of the document.
    """
    n_topics, zero = len(gamma), x.share.dtype.type(0.0)
    full = True
    for i in range(len(words)):
        full &= table.widths[words[i]] == n_topics
    few = max(_FEW, n_topics // 2) if full else n_topics
    width, last, gathered, top = n_topics, ascent.steps == 0, table.own, zero
    for step in range(ascent.steps + 1):
        top = _set_shares(x, powers, width)
        left, change = width, zero
        if step > 0:
            left = 0
            for j in range(width):
                left += x.share[j] * x.total[j] >= negligible
        if last:
            for j in range(width):
                gamma[x.topics[j]] = x.gamma[j]
        if gathered or last or (step > 0 and left <= few):
            if left < width:
                change = _drop(x, negligible, width)
                width = left
            if not gathered and full:
                gather(table.values, words, x.topics, width, x.block)
            elif not gathered:
                gather_lists(x, table, words, width)
            if not gathered:
                for j in range(width):
                    x.place[j] = j
                    for i in range(len(words), len(x.counts)):
                        x.block[j, i] = 1.0
            gathered = True
        if gathered:
            explain_block(x, width)
        elif full:
            explain_full(x, table.values, words)
        else:
            explain_sparse(x, table, words)
        if last:
            break
        for j in range(width):
            fresh = x.prior[j] + powers.latent * x.share[j] * x.total[j]
            change += abs(fresh - x.gamma[j])
            x.gamma[j] = fresh
        last = change <= ascent.tolerance * n_topics or step == ascent.steps - 1
    return width, top


@njit(**INNER)
def _set_shares(x, powers, width):  # type: ignore[no-untyped-def]
    """Set the shares to exp{power · ψ(γ)} times the column's factor. Unless powers are 1, shares are relative to the
    largest, whose logarithm is returned."""
    share, top = x.share, x.share.dtype.type(0.0)
    if powers.cold:
        for j in range(width):
            share[j] = exp_digamma(x.gamma[j]) * x.column[j]
    else:
        for j in range(width):
            share[j] = powers.latent * digamma(x.gamma[j]) + x.column[j]
        top = largest(share, width)
        for j in range(width):
            share[j] = exp(share[j] - top)
    return top


@njit(**INNER)
def _drop(x, negligible, width):  # type: ignore[no-untyped-def]
    """Drop topics that the next update would bring down to their prior; returns how much γ changed."""
    left, change = 0, negligible - negligible
    for j in range(width):
        if x.share[j] * x.total[j] >= negligible:
            x.topics[left], x.place[left], x.share[left] = x.topics[j], x.place[j], x.share[j]
            x.gamma[left], x.prior[left], x.column[left] = x.gamma[j], x.prior[j], x.column[j]
            left += 1
        else:
            change += x.gamma[j] - x.prior[j]
    return change


@njit(**INNER)
def _evidence(x, table, words, powers, gamma, top):  # type: ignore[no-untyped-def]
    """Σ_v n_v log Σ_k exp{E log θ_k + E log β_kv}, each to its power; the ratios contain the inner sums."""
    length, value, total = 0.0, 0.0, 0.0
    for i in range(len(words)):
        length += x.counts[i]
        value += x.counts[i] * (math.log(x.counts[i] / x.ratio[i]) + powers.observation * table.shift[words[i]])
    for k in range(len(gamma)):
        total += gamma[k]
    return value + length * (top - powers.latent * math.log(exp_digamma(total)))


@njit(**INNER)
def _observed(x, table, words, levels, width):  # type: ignore[no-untyped-def]
    """Σ_i Σ_j n_i φ_ij E log β_ij over words i and topics j."""
    value = 0.0
    for j in range(width):
        line, level = x.block[x.place[j]], levels[x.place[j]]
        part, whole = x.share.dtype.type(0.0), x.share.dtype.type(0.0)
        for i in range(len(words)):
            part += x.ratio[i] * line[i] * level[i]
            whole += x.ratio[i] * line[i]
        value += x.share[j] * (part + whole * math.log(table.column[x.topics[j]]))
    for i in range(len(words)):
        value += x.counts[i] * table.shift[words[i]]
    return value


@njit(**INNER)
def _lower(x, table, words, powers, levels, width):  # type: ignore[no-untyped-def]
    """Set the levels of a document's words, for documents that share one power."""
    if not table.own:
        for j in range(width):
            line, level = x.block[x.place[j]], levels[x.place[j]]
            for i in range(len(words)):
                level[i] = log(max(line[i], x.share.dtype.type(TINY))) / powers.observation


@njit(**INNER)
def _write_shares(x, width, active, share):  # type: ignore[no-untyped-def]
    """Write the topics left and their shares. If many are left, all topics are written, some with a share of 0, because
    sums over topics in order are faster."""
    if 2 * width < len(share):
        for j in range(width):
            active[j], share[j] = x.topics[j], x.share[j]
        return width
    for k in range(len(share)):
        share[k] = 0.0
    for j in range(width):
        share[x.topics[j]] = x.share[j]
    return len(share)


@njit(**OPTIONS)
def lengths(starts, ends, counts):  # type: ignore[no-untyped-def]
    """The number of tokens of each document."""
    result = np.zeros(len(starts))
    for d in range(len(starts)):
        for i in range(starts[d], ends[d]):
            result[d] += counts[i]
    return result
