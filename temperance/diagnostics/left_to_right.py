"""The probability of whole documents under a topic model, from left to right.

Given the mean topics β and the mean concentrations α, with the proportions summed out, the words of a document are

    p(w_1 … w_n) = Π_i p(w_i | w_1 … w_{i−1}),   p(w_i | z_1 … z_{i−1}) = Σ_k (α_k + c_k) β_k(w_i) / (Σ_k α_k + i − 1)

where c_k of the earlier tokens have topic k (Wallach, Murray, Salakhutdinov and Mimno, 2009). Particles are such
counts: at each token they are weighted by this probability, resampled, and given its topic. The product of the mean
weights is an unbiased estimate of p (Doucet, de Freitas and Gordon, 2001), so over all documents of one length it sums
to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._arguments import check_count
from ..errors import InvalidData
from ..models.topics.report import mean_topics
from .completion import fitted_topics

if TYPE_CHECKING:
    from ..fit import Fit

_NUMBERS = 2**22  # counts of topics held at a time
_LONGEST = 100_000  # most tokens of a document
_LEAST = 1e-300


def left_to_right(fit: Fit, documents: Any, *, particles: int = 200, seed: int = 0) -> Float[np.ndarray, " n"]:
    """log p of each document under the `fit` of a topic model, given the mean topics and concentrations.

    `documents` are whatever `tp.LDA` takes, and `seed` is a whole number. The estimate is from `particles` particles,
    without the bias of a bound: its exponential is right on average. Time grows with tokens × particles × topics.
    """
    check_count("particles", particles)
    model, q = fitted_topics(fit)
    corpus = model.new_corpus(documents)
    if (corpus.counts != np.floor(corpus.counts)).any():
        raise InvalidData("tokens are taken one after the other: counts must be whole numbers")
    if corpus.lengths.max(initial=0.0) > _LONGEST:
        raise InvalidData(
            f"a document has {corpus.lengths.max():,.0f} tokens, and they are taken one after the other, at most "
            f"{_LONGEST:,}; use tp.document_completion"
        )
    rng = np.random.default_rng(seed)
    by_word = np.ascontiguousarray(np.maximum(mean_topics(q), _LEAST).T)
    m = {name: block.mean() for name, block in q.blocks.items() if name != "topics"}
    found = np.zeros(len(corpus))
    order = np.argsort(-corpus.lengths, kind="stable")
    together = max(1, _NUMBERS // (particles * model.n_topics))
    for first in range(0, len(order), together):
        some = order[first : first + together]
        part = corpus.take(some)
        alpha = np.atleast_2d(np.asarray(model.concentration(m, model.new_rows(part))))[: len(part)]
        alpha = np.broadcast_to(alpha, (len(part), model.n_topics))
        tokens = [
            rng.permutation(np.repeat(part.words[a:b], part.counts[a:b].astype(int)))
            for a, b in zip(part.starts[:-1], part.starts[1:], strict=True)
        ]
        found[some] = _filtered(tokens, alpha, by_word, particles, rng)
    return found


def _filtered(
    tokens: list[np.ndarray],
    alpha: Float[np.ndarray, "n k"],
    by_word: Float[np.ndarray, "v k"],
    particles: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, " n"]:
    """log p of documents, which are sorted with the longest first."""
    log_p, total = np.zeros(len(tokens)), alpha.sum(axis=1)
    held = np.zeros((len(tokens), particles, alpha.shape[1]))
    lengths = np.array([len(row) for row in tokens])
    for i in range(lengths[0]):
        on = int(np.sum(lengths > i))
        words = np.array([row[i] for row in tokens[:on]])
        below = np.cumsum((alpha[:on, None] + held[:on]) * by_word[words][:, None], axis=2)
        weight = below[:, :, -1]
        log_p[:on] += np.log(weight.mean(axis=1) / (total[:on] + i))
        row, parent = np.arange(on)[:, None], _resampled(weight, rng)
        below = below[row, parent]
        topic = np.sum(below[:, :, :-1] < rng.uniform(size=(on, particles, 1)) * below[:, :, -1:], axis=2)
        held[:on] = held[row, parent]
        held[row, np.arange(particles)[None], topic] += 1.0
    return log_p


def _resampled(weight: Float[np.ndarray, "n r"], rng: np.random.Generator) -> np.ndarray:
    """The ancestor of each particle, by systematic resampling: equal steps through the cumulative weights from a random
    start."""
    n, size = weight.shape
    row = np.arange(n)[:, None]
    edges = np.cumsum(weight, axis=1)
    edges = np.minimum(edges / edges[:, -1:], 1.0) + row
    at = (np.arange(size)[None] + rng.uniform(size=(n, 1))) / size + row
    parent = np.searchsorted(edges.ravel(), at.ravel()).reshape(n, size) - size * row
    return np.clip(parent, 0, size - 1)
