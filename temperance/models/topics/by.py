"""Shares of topics in groups of documents, or over time, with intervals.

In a group g let θ_d ~ Dirichlet(s μ_g), with s = Σ α and the topics held at their means. The estimate of μ_g is the
fixed point of "the mean of E[θ_d | words]": under the group's own mean as the prior mean, short documents are not drawn
towards the other groups. With S² the variance of E[θ_d | words] over documents and v the mean of Var[θ_d | words], a
fraction B = S² / (S² + v) of what a document differs by is seen, so that the estimate has variance (S² / B²) / n: what
documents differ by, and what their few words leave open. v is that of a Dirichlet distribution, divided by one minus
the fraction of missing information (tokens do not show their topics). Intervals are normal on the logit scale; an end
that this would put further from the estimate than e − 1 half-lengths of the plain interval (the estimate is within one
half-length of 0 or 1, where the logit is too steep) is put there.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.grouping import Grouping
from ...errors import InvalidParameter
from .._model import Posterior
from .report import NAMING, collapsed_counts, document_prior, mean_topics, top_words

if TYPE_CHECKING:
    from .lda import LDA

_STEPS, _TOLERANCE = 20, 1e-4
_SEEN = 0.1  # a fraction B below this is taken for it
_MISSING = 0.9  # an ambiguity above this is taken for it
_PIECE = 100_000  # entries treated at a time
_POOLED = 3.0  # documents that the variance over all groups counts for in each


@dataclasses.dataclass(frozen=True)
class TopicsBy:
    """The mean share of each topic in each group of documents, with intervals."""

    name: str  # of the values
    labels: tuple[str, ...]  # of the groups
    positions: np.ndarray | None  # of groups that are intervals of numbers or of time: their centres
    documents: np.ndarray  # how many are in each group (empty ones are in none)
    share: np.ndarray  # (groups, topics)
    low: np.ndarray
    high: np.ndarray
    level: float
    words: tuple[str, ...]  # the most telling words of each topic

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and topic (numbered from 1), for a table."""
        return [
            {
                self.name: label, "documents": int(self.documents[g]), "topic": k + 1, "words": self.words[k],
                "share": float(self.share[g, k]), "low": float(self.low[g, k]), "high": float(self.high[g, k]),
            }
            for g, label in enumerate(self.labels)
            for k in range(self.share.shape[1])
        ]  # fmt: skip


def shares_by(model: LDA, q: Posterior, corpus: Any, groups: Grouping, level: float = 0.95) -> TopicsBy:
    """The shares of topics by group, each from the documents of the group that have a word."""
    if not 0.0 < level < 1.0:
        raise InvalidParameter(f"level must be between 0 and 1, got {level!r}")
    by_word, alpha = np.ascontiguousarray(mean_topics(q).T), document_prior(model, q)
    codes = np.where(corpus.entries > 0, groups.codes, -1)
    kept = [g for g in range(len(groups.labels)) if (codes == g).any()]
    found = [_mean(by_word, alpha, corpus.take(np.flatnonzero(codes == g))) for g in kept]
    sizes = np.array([int((codes == g).sum()) for g in kept])
    mean, spread, open_ = (np.stack(part) for part in zip(*found, strict=True))
    low, high = _intervals(mean, spread, open_, sizes, level)
    names = tuple(" ".join(str(word) for word, _ in topic) for topic in top_words(model, q, 4, NAMING))
    positions = None if groups.positions is None else groups.positions[kept]
    labels = tuple(groups.labels[g] for g in kept)
    return TopicsBy(groups.name, labels, positions, sizes, mean, low, high, level, names)


def _mean(by_word: np.ndarray, alpha: np.ndarray, corpus: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ of one group, the sum of squares of E[θ_d | words] around it, and the mean of Var[θ_d | words]."""
    total, mu = alpha.sum(), alpha / alpha.sum()
    for _ in range(_STEPS):
        gamma = collapsed_counts(by_word, total * mu, corpus)
        size = gamma.sum(axis=1, keepdims=True)
        theta = gamma / size
        mean, open_ = theta.mean(axis=0), (theta * (1.0 - theta) / (size + 1.0)).mean(axis=0)
        spread = ((theta - mean) ** 2).sum(axis=0)
        seen = np.maximum(_fraction(spread / max(len(theta) - 1, 1), open_), 0.5)  # no step of more than twice
        fresh = np.maximum(mu + (mean - mu) / seen, 0.5 * mean)
        fresh, before = fresh / fresh.sum(), mu
        mu = fresh
        if np.abs(fresh - before).max() < _TOLERANCE:
            break
    return mu, spread, open_ / (1.0 - np.minimum(_ambiguity(by_word, theta, corpus), _MISSING))


def _ambiguity(by_word: np.ndarray, theta: np.ndarray, corpus: Any) -> np.ndarray:
    """The fraction of the information on the share of each topic that is lost because tokens do not show their topics:
    Σ φ (1 − φ) over tokens, beside the same sum for tokens of which nothing is known."""
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

    pooled = squares.sum(axis=0) / max(int((sizes - 1).sum()), 1)
    free = sizes[:, None] - 1 + _POOLED
    spread = (squares + _POOLED * pooled) / free
    error = np.sqrt(spread / _fraction(spread, open_) ** 2 / sizes[:, None])
    mean = np.clip(mean, 1e-12, 1 - 1e-12)
    plain = t.ppf(0.5 + level / 2, free) * error
    half, furthest = plain / (mean * (1.0 - mean)), (math.e - 1.0) * plain
    return np.maximum(expit(logit(mean) - half), mean - furthest), np.minimum(
        expit(logit(mean) + half), mean + furthest
    )
