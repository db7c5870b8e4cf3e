"""The results of a topic model: the words of its topics, the topics of documents, and mean shares by group.

Shares by group. In a group g let θ_d ~ Dirichlet(s μ_g), with s = Σ α and the topics held at their means. The estimate
of μ_g is the fixed point at which the mean of E[θ_d | words] over the group equals the prior mean μ_g, so that short
documents are not drawn towards the other groups. Let S² be the variance of E[θ_d | words] over documents and v the mean
of Var[θ_d | words]. The words show a fraction B = S² / (S² + v) of what distinguishes documents, so the estimate has
variance (S² / B²) / n. v is the variance of a Dirichlet distribution divided by one minus the fraction of missing
information (tokens do not show their topics). Intervals are Normal on the logit scale; within one half-length of 0 or 1
the logit is too steep, so an end is moved no further from the estimate than e − 1 half-lengths of the plain interval.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...data.documents import Documents
from ...data.grouping import Grouping
from ...data.stream import ahead
from ...errors import InvalidParameter
from ...families import Point
from ...programs import program
from .._model import Posterior

if TYPE_CHECKING:
    from . import LDA


_ROWS = 4096  # documents processed at a time
_READERS = 2  # threads that read documents while an accelerator works
LEAST = 1e-300  # replaces a probability of zero in a point estimate
NAMING = 0.6  # the relevance by which words name a topic (Sievert and Shirley, 2014)


def top_words(model: LDA, q: Posterior, n_words: int, relevance: float = 1.0) -> list[list[tuple[str | int, float]]]:
    """The `n_words` most relevant words of each topic with their probabilities.

    Relevance is λ log p(w | k) + (1 − λ) log[p(w | k) / p(w)] (Sievert and Shirley, 2014): with λ = 1 words are ordered
    by their probability; with a smaller λ words that other topics lack come first.
    """
    if isinstance(relevance, bool) or not isinstance(relevance, int | float) or not 0 <= relevance <= 1:
        raise InvalidParameter(f"relevance must be a number between 0 and 1, got {relevance!r}")
    if isinstance(n_words, bool) or not isinstance(n_words, int | np.integer) or n_words < 1:
        raise InvalidParameter(f"n_words must be a whole number of at least 1, got {n_words!r}")
    beta = mean_topics(q)
    lam = topic_weights(q)
    overall = lam.sum(axis=0) / lam.sum()
    names = None if model.vocabulary is None else model.vocabulary.words
    result = []
    for row in beta:
        # λ log p − (1 − λ) log(p(w)/p) = log p − (1 − λ) log p(w); exactly the probability where λ = 1.
        score = row if relevance == 1 else np.log(row) - (1.0 - relevance) * np.log(overall)
        best = np.argsort(-score, kind="stable")[:n_words]
        result.append([(int(v) if names is None else names[v], float(row[v])) for v in best])
    return result


def names(model: LDA, q: Posterior, n_words: int) -> tuple[str, ...]:
    """The words that name each topic."""
    return tuple(" ".join(str(word) for word, _ in topic) for topic in top_words(model, q, n_words, NAMING))


def by_number(model: LDA, q: Posterior) -> np.ndarray:
    """The places of topics 1, 2, …: first the topics with seeds, in the order of the seeds, then the others, the
    largest first."""
    largest, seeded = np.argsort(-topic_weights(q).sum(axis=1), kind="stable"), sorted(k for k, _ in model.seeds)
    order = np.array([*seeded, *(k for k in largest if k not in seeded)], dtype=int)
    return order[model.used(q)[order]]


def topic_weights(q: Posterior) -> Float[np.ndarray, "k v"]:
    """Weights proportional to E[β]: concentrations, or for a point the counts whose shares are its probabilities.

    A probability of zero in a point estimate is replaced by `LEAST`, whose logarithm is finite.
    """
    topics = q.blocks["topics"]
    if not isinstance(topics, Point):
        return np.asarray(topics.concentration)  # type: ignore[attr-defined]
    counts = np.maximum(np.asarray(topics.natural.log), 0.0)
    totals = np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return totals * np.maximum(np.asarray(topics.mode()), LEAST)


def mean_topics(q: Posterior) -> Float[np.ndarray, "k v"]:
    """E[β], one row per topic."""
    lam = topic_weights(q)
    return lam / lam.sum(axis=1, keepdims=True)


def proportions(model: LDA, q: Posterior, corpus: Any) -> Float[np.ndarray, "n k"]:
    """E[θ] of each document given the mean topics, in the precision of the model's local step."""
    if model.collapsed:
        return _collapsed_proportions(model, q, corpus)
    log_beta = jnp.log(mean_topics(q))
    found = np.empty((len(corpus), model.n_topics), np.float32 if model.single else np.float64)
    parts = [slice(first, min(first + _ROWS, len(corpus))) for first in range(0, len(corpus), _ROWS)]
    jobs = (functools.partial(_read, model, corpus, part) for part in parts)
    # While an accelerator works on some documents, later ones are read and the shares of earlier ones are stored.
    read = (job() for job in jobs) if model.on_host else ahead(jobs, _READERS)
    waiting: list[tuple[slice, Array]] = []
    for part, rows in zip(parts, read, strict=True):
        share = _infer(model, q.blocks, rows, log_beta)
        share.copy_to_host_async()
        waiting.append((part, share))
        _store(found, waiting, keep=0 if model.on_host else _READERS)
    _store(found, waiting, keep=0)
    return found


def _read(model: LDA, corpus: Any, part: slice) -> Documents:
    """A part of the documents, on the device that makes the local step."""
    rows = model.new_rows(corpus.take(part))
    size = len(rows.lengths)
    if part.start and size < _ROWS:  # one shape, one compilation
        again = np.minimum(np.arange(_ROWS), size - 1)
        rows = jax.tree.map(lambda leaf: leaf[again], rows)
    return rows if model.on_host else jax.device_put(rows)


def _store(found: np.ndarray, waiting: list[tuple[slice, Array]], keep: int) -> None:
    """Store the shares of all waiting parts except the last `keep`."""
    while len(waiting) > keep:
        part, share = waiting.pop(0)
        found[part] = np.asarray(share)[: part.stop - part.start]


def _collapsed_proportions(model: LDA, q: Posterior, corpus: Any) -> Float[np.ndarray, "n k"]:
    found = collapsed_counts(np.ascontiguousarray(mean_topics(q).T), document_prior(model, q), corpus)
    return (found / found.sum(axis=1, keepdims=True)).astype(np.float32 if model.single else np.float64, copy=False)


def document_prior(model: LDA, q: Posterior) -> Float[np.ndarray, " k"]:
    """α, as given or as learned."""
    return np.array(model.concentration({name: q.blocks[name].mean() for name in q.blocks if name != "topics"}))


def collapsed_counts(by_word: np.ndarray, alpha: np.ndarray, corpus: Any) -> Float[np.ndarray, "n k"]:
    """α plus the expected number of tokens of each topic in each document, by collapsed updates given the mean topics
    (words × topics)."""
    from ...kernels import topics_small
    from ...kernels.topics_entries import Ascent, rows_of_corpus

    ascent = Ascent(alpha, 200, 1e-4)
    parts = []
    for first in range(0, len(corpus), _ROWS):
        part = corpus.take(slice(first, first + _ROWS))
        ones = np.ones(len(part))
        rows = rows_of_corpus(part, np.arange(len(part)), ones, ones, ones)
        if topics_small.folds_in(rows, len(alpha)):
            found = topics_small.fold_in(rows, by_word, ascent)
        else:
            from ...kernels.topics_collapsed import fold_in

            found = fold_in(rows, by_word, ascent).counts
        parts.append(found)
    return np.concatenate(parts)


@program
def _infer(model: LDA, blocks: dict[str, Any], x: Documents, log_beta: Array) -> Array:
    gamma = model.infer(blocks, x, log_beta)[0].gamma
    return (gamma / jnp.sum(gamma, axis=1, keepdims=True)).astype(jnp.float32 if model.single else jnp.float64)


# ---- shares of topics in groups of documents ---------------------------------------------------------------


_STEPS, _TOLERANCE = 20, 1e-4
_SEEN = 0.1  # smaller fractions B are replaced by this
_MISSING = 0.9  # larger ambiguities are replaced by this
_PIECE = 100_000  # entries processed at a time
_POOLED = 3.0  # weight, in documents, of the variance within all groups in each, and of the total in the former


@dataclasses.dataclass(frozen=True)
class TopicsBy:
    """The mean share of each topic in each group of documents, with intervals."""

    name: str  # of the values
    labels: tuple[str, ...]  # of the groups
    positions: np.ndarray | None  # of groups that are intervals of numbers or of time: their centres
    documents: np.ndarray  # the number in each group (empty documents are in none)
    share: np.ndarray  # (groups, topics)
    low: np.ndarray  # end of the interval
    high: np.ndarray  # end of the interval
    level: float  # of the interval
    words: tuple[str, ...]  # the most telling words of each topic
    order: np.ndarray  # the places of topics 1, 2, … (see `fit.order`)
    by_formula: bool = False  # whether the shares are those that a formula expects, with the error of the topics

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and topic, in the order of the topics' numbers, for a table."""
        return [
            {
                self.name: label, "documents": int(self.documents[g]), "topic": number, "words": self.words[k],
                "share": float(self.share[g, k]), "low": float(self.low[g, k]), "high": float(self.high[g, k]),
            }
            for g, label in enumerate(self.labels)
            for number, k in enumerate(self.order, 1)
        ]  # fmt: skip


def shares_by(model: LDA, q: Posterior, corpus: Any, groups: Grouping, level: float = 0.95) -> TopicsBy:
    """The shares of topics by group, from the documents of each group that are not empty."""
    if not 0.0 < level < 1.0:
        raise InvalidParameter(f"level must be between 0 and 1, got {level!r}")
    by_word, alpha = np.ascontiguousarray(mean_topics(q).T), document_prior(model, q)
    codes = np.where(corpus.entries > 0, groups.codes, -1)
    kept = [g for g in range(len(groups.labels)) if (codes == g).any()]
    found = [_mean(by_word, alpha, corpus.take(np.flatnonzero(codes == g))) for g in kept]
    sizes = np.array([int((codes == g).sum()) for g in kept])
    mean, spread, open_ = (np.stack(part) for part in zip(*found, strict=True))
    low, high = _intervals(mean, spread, open_, sizes, level)
    mean = np.clip(mean, low, high)  # by rounding a share may lie outside its interval
    positions = None if groups.positions is None else groups.positions[kept]
    labels = tuple(groups.labels[g] for g in kept)
    words, order = names(model, q, 4), by_number(model, q)
    return TopicsBy(groups.name, labels, positions, sizes, mean, low, high, level, words, order)


def _mean(by_word: np.ndarray, alpha: np.ndarray, corpus: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ of one group, the sum of squares of E[θ_d | words] around it, and the mean of Var[θ_d | words]."""
    total, mu = alpha.sum(), alpha / alpha.sum()
    for _ in range(_STEPS):
        gamma = collapsed_counts(by_word, total * mu, corpus)
        size = gamma.sum(axis=1, keepdims=True)
        theta = gamma / size
        mean, open_ = theta.mean(axis=0), (theta * (1.0 - theta) / (size + 1.0)).mean(axis=0)
        spread = ((theta - mean) ** 2).sum(axis=0)
        seen = np.maximum(_fraction(spread / max(len(theta) - 1, 1), open_), 0.5)  # at most a doubled step
        fresh = np.maximum(mu + (mean - mu) / seen, 0.5 * mean)
        fresh, before = fresh / fresh.sum(), mu
        mu = fresh
        if np.abs(fresh - before).max() < _TOLERANCE:
            break
    return mu, spread, open_ / (1.0 - np.minimum(_ambiguity(by_word, theta, corpus), _MISSING))


def _ambiguity(by_word: np.ndarray, theta: np.ndarray, corpus: Any) -> np.ndarray:
    """The fraction of the information on the share of each topic that is lost because tokens do not show their topics:
    Σ φ (1 − φ) over tokens, relative to this sum for tokens whose topics are unknown."""
    document = np.repeat(np.arange(len(corpus)), corpus.entries)
    lost = np.zeros(theta.shape[1])
    for first in range(0, len(document), _PIECE):
        part = slice(first, first + _PIECE)
        phi = theta[document[part]] * by_word[corpus.words[part]]
        phi /= phi.sum(axis=1, keepdims=True)
        lost += corpus.counts[part] @ (phi * (1.0 - phi))
    return lost / np.maximum(corpus.lengths @ (theta * (1.0 - theta)), 1e-300)


def _fraction(spread: np.ndarray, open_: np.ndarray) -> np.ndarray:
    return np.maximum(spread / np.maximum(spread + open_, 1e-300), _SEEN)


def _intervals(
    mean: np.ndarray, squares: np.ndarray, open_: np.ndarray, sizes: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import expit, logit
    from scipy.stats import t

    # Groups of one document do not show the variance within groups, which is then bounded by that over all documents.
    n, overall = sizes.sum(), sizes @ mean / sizes.sum()
    whole = (squares.sum(axis=0) + sizes @ (mean - overall) ** 2) / (n - 1) if n > 1 else np.full(mean.shape[1], 0.25)
    pooled = (squares.sum(axis=0) + _POOLED * whole) / (n - len(sizes) + _POOLED)
    free = sizes[:, None] - 1 + _POOLED
    spread = (squares + _POOLED * pooled) / free
    error = np.sqrt(spread / _fraction(spread, open_) ** 2 / sizes[:, None])
    mean = np.clip(mean, 1e-12, 1 - 1e-12)
    plain = t.ppf(0.5 + level / 2, free) * error
    half, furthest = plain / (mean * (1.0 - mean)), (math.e - 1.0) * plain
    return np.maximum(expit(logit(mean) - half), mean - furthest), np.minimum(
        expit(logit(mean) + half), mean + furthest
    )
