"""What a fitted topic model says: its topics, the topics of documents, and how well it completes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...data import Corpus
from ...errors import InvalidData, InvalidParameter, UnsupportedMethod
from ...families import Point
from ...programs import program
from .._model import Posterior
from .documents import Documents

if TYPE_CHECKING:
    from ...fit import Fit
    from .lda import LDA

_ROWS = 4096  # documents treated at a time
LEAST = 1e-300  # the probability of a word that a point estimate gives none
NAMING = 0.6  # the relevance by which words name a topic (Sievert and Shirley, 2014)


class Completion(NamedTuple):
    """How well the rest of each document was predicted from the part of it that was seen."""

    log_predictive: float  # per held-out token, in nats
    perplexity: float
    tokens: int  # held out
    by: str  # what was shared out: "tokens", or "types" (all tokens of a word together)


def document_completion(fit: Fit, documents: Any, *, seed: int = 0, by: str = "tokens") -> Completion:
    """Infer the proportions of each document from half of its tokens (or types), and predict the other half.

    Proportions are inferred given the mean topics; a held-out token w then has probability Σ_k E[θ_k] E[β_kw].
    """
    rest, scores = _completed(fit, documents, seed, by)
    each = sum(float(np.sum(part)) for part in scores) / rest.n_tokens
    return Completion(each, float(np.exp(-each)), int(rest.n_tokens), by)


def completion_scores(fit: Fit, documents: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same for each document: Σ log p of its held-out tokens, and how many these are."""
    rest, scores = _completed(fit, documents, seed, "tokens")
    owner = np.repeat(np.arange(len(rest)), rest.entries)
    return np.bincount(owner, np.concatenate(list(scores)), minlength=len(rest)), rest.lengths


def _completed(fit: Fit, documents: Any, seed: int, by: str) -> tuple[Corpus, Iterator[np.ndarray]]:
    """The held-out halves, and the scores of their entries."""
    model, q = _fitted(fit)
    observed, rest = model.new_corpus(documents).halves(seed, by)
    if rest.n_tokens == 0:
        raise InvalidData("no document has a token to hold out: each needs at least two")
    return rest, _token_scores(model.transform(q, observed), mean_topics(q), rest)


def perplexity(fit: Fit, documents: Any) -> float:
    """exp(−bound per token) of whole documents: an upper bound on the perplexity given the mean topics."""
    model, _ = _fitted(fit)
    corpus = model.new_corpus(documents)
    if corpus.n_tokens == 0:
        raise InvalidData("all documents are empty")
    return float(np.exp(-np.sum(fit.log_predictive(corpus)) / corpus.n_tokens))


def top_words(model: LDA, q: Posterior, n_words: int, relevance: float = 1.0) -> list[list[tuple[str | int, float]]]:
    """The `n_words` most relevant words of each topic with their probabilities.

    Relevance is λ log p(w | k) + (1 − λ) log[p(w | k) / p(w)] (Sievert and Shirley, 2014): with λ = 1 words are ordered
    by their probability, with less those come first that other topics do not have.
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


def topic_weights(q: Posterior) -> Float[np.ndarray, "k v"]:
    """What E[β] is in proportion to: concentrations, or at a point the counts whose shares are its probabilities.

    A point may give a word no probability at all; it gets the least whose logarithm is finite.
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
    """E[θ] of each document given the mean topics."""
    if model.collapsed:
        return _collapsed_proportions(model, q, corpus)
    log_beta = jnp.log(mean_topics(q))
    parts = []
    for first in range(0, len(corpus), _ROWS):
        rows = model.new_rows(corpus.take(slice(first, first + _ROWS)))
        size = len(rows.lengths)
        if first and size < _ROWS:  # one shape, one compilation
            again = np.minimum(np.arange(_ROWS), size - 1)
            rows = jax.tree.map(lambda leaf, again=again: leaf[again], rows)
        gamma = np.asarray(_infer(model, q.blocks, rows, log_beta))[:size]
        parts.append(gamma / gamma.sum(axis=1, keepdims=True))
    return np.concatenate(parts)


def _collapsed_proportions(model: LDA, q: Posterior, corpus: Any) -> Float[np.ndarray, "n k"]:
    found = collapsed_counts(np.ascontiguousarray(mean_topics(q).T), document_prior(model, q), corpus)
    return found / found.sum(axis=1, keepdims=True)


def document_prior(model: LDA, q: Posterior) -> Float[np.ndarray, " k"]:
    """α as it is given, or as it was learned."""
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
    return model.infer(blocks, x, log_beta)[0].gamma


def _token_scores(theta: np.ndarray, beta: np.ndarray, corpus: Corpus) -> Iterator[np.ndarray]:
    """n_dv log Σ_k θ_dk β_kv for the entries of a corpus, in pieces."""
    by_word = np.ascontiguousarray(beta.T)
    document = np.repeat(np.arange(len(corpus)), corpus.entries)
    for first in range(0, len(document), 100_000):
        part = slice(first, first + 100_000)
        probability = np.einsum("ik,ik->i", theta[document[part]], by_word[corpus.words[part]])
        yield corpus.counts[part] * np.log(probability)


def _fitted(fit: Fit) -> tuple[LDA, Posterior]:
    from .lda import LDA

    if not isinstance(fit.model, LDA) or not isinstance(fit.state, Posterior):
        raise UnsupportedMethod(
            f"this needs a variational fit of tp.LDA, got {fit.method.name} of {type(fit.model).__name__}"
        )
    return fit.model, fit.state
