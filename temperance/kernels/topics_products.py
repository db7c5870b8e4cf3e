"""The two products of an update of a document in LDA: the matrix (words × topics) of the document times the shares of
topics, and its transpose times the ratios of words. Topics are read in place, or first gathered in a block, topic by
topic.

`x` is the working memory of a document and `table` the topics word by word, both from `topics_documents.py`.
"""

from __future__ import annotations

from numba import njit

from ._host_either import INNER

TINY = 1e-300  # keeps the ratio of a word that no topic explains finite


@njit(**INNER)
def gather(values, words, topics, width, block):  # type: ignore[no-untyped-def]
    """block_ji = the value of word i in the j-th of the topics left."""
    # Eight words at a time: their entries of a topic are a line of the cache, or half of one.
    whole = len(words) - len(words) % 8
    for i in range(0, whole, 8):
        a, b, c, d = words[i], words[i + 1], words[i + 2], words[i + 3]
        e, f, g, h = words[i + 4], words[i + 5], words[i + 6], words[i + 7]
        for j in range(width):
            k = topics[j]
            block[j, i], block[j, i + 1], block[j, i + 2] = values[a, k], values[b, k], values[c, k]
            block[j, i + 3], block[j, i + 4], block[j, i + 5] = values[d, k], values[e, k], values[f, k]
            block[j, i + 6], block[j, i + 7] = values[g, k], values[h, k]
    for i in range(whole, len(words)):
        for j in range(width):
            block[j, i] = values[words[i], topics[j]]


@njit(**INNER)
def gather_lists(x, table, words, width):  # type: ignore[no-untyped-def]
    """`gather` for words that list only some of the topics."""
    for k in range(len(x.place)):
        x.place[k] = -1
    for j in range(width):
        x.place[x.topics[j]] = j
        for i in range(len(words)):
            x.block[j, i] = 0.0
    for i in range(len(words)):
        v = words[i]
        for j in range(table.widths[v]):
            at = x.place[table.topics[v, j]]
            if at >= 0:
                x.block[at, i] = table.values[v, j]


@njit(**INNER)
def explain_block(x, width):  # type: ignore[no-untyped-def]
    """ratio_i = count_i / Σ_j block_ji share_j and total_j = Σ_i ratio_i block_ji, four topics at a time."""
    count, ratio, share, total, block, place = x.counts, x.ratio, x.share, x.total, x.block, x.place
    size, whole, kind = len(count), width - width % 4, x.share.dtype.type
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
        of_a, of_b, of_c, of_d = kind(0.0), kind(0.0), kind(0.0), kind(0.0)
        for i in range(size):
            of_a += ratio[i] * a[i]
            of_b += ratio[i] * b[i]
            of_c += ratio[i] * c[i]
            of_d += ratio[i] * d[i]
        total[j], total[j + 1], total[j + 2], total[j + 3] = of_a, of_b, of_c, of_d
    for j in range(whole, width):
        a, of_a = block[place[j]], kind(0.0)
        for i in range(size):
            of_a += ratio[i] * a[i]
        total[j] = of_a


@njit(**INNER)
def explain_full(x, values, words):  # type: ignore[no-untyped-def]
    """total_k = Σ_i count_i value_ik / Σ_j value_ij share_j over words with all topics, four at a time."""
    count, share, total = x.counts, x.share, x.total
    n_topics, size, kind = len(share), len(words), x.share.dtype.type
    whole, tiny = size - size % 4, kind(TINY)
    for j in range(n_topics):
        total[j] = 0.0
    for i in range(0, whole, 4):
        a, b, c, d = values[words[i]], values[words[i + 1]], values[words[i + 2]], values[words[i + 3]]
        norm_a, norm_b, norm_c, norm_d = kind(0.0), kind(0.0), kind(0.0), kind(0.0)
        for j in range(n_topics):
            norm_a += a[j] * share[j]
            norm_b += b[j] * share[j]
            norm_c += c[j] * share[j]
            norm_d += d[j] * share[j]
        norm_a, norm_b = count[i] / max(norm_a, tiny), count[i + 1] / max(norm_b, tiny)
        norm_c, norm_d = count[i + 2] / max(norm_c, tiny), count[i + 3] / max(norm_d, tiny)
        for j in range(n_topics):
            total[j] += (norm_a * a[j] + norm_b * b[j]) + (norm_c * c[j] + norm_d * d[j])
    for i in range(whole, size):
        a, norm_a = values[words[i]], kind(0.0)
        for j in range(n_topics):
            norm_a += a[j] * share[j]
        norm_a = count[i] / max(norm_a, tiny)
        for j in range(n_topics):
            total[j] += norm_a * a[j]


@njit(**INNER)
def explain_sparse(x, table, words):  # type: ignore[no-untyped-def]
    """`explain_full` for words that list only some of the topics."""
    kind = x.share.dtype.type
    for k in range(len(x.total)):
        x.total[k] = 0.0
    for i in range(len(words)):
        value, topics, norm = table.values[words[i]], table.topics[words[i]], kind(0.0)
        for j in range(table.widths[words[i]]):
            norm += value[j] * x.share[topics[j]]
        norm = x.counts[i] / max(norm, kind(TINY))
        for j in range(table.widths[words[i]]):
            x.total[topics[j]] += norm * value[j]
