"""How well a fitted topic model completes documents of which it saw a part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data import Corpus
from ..errors import InvalidData, UnsupportedMethod
from ..models._model import Posterior
from ..models.topics.report import mean_topics

if TYPE_CHECKING:
    from ..fit import Fit
    from ..models.topics import LDA


class Completion(NamedTuple):
    """How well the rest of each document was predicted from the part of it that was seen."""

    log_predictive: float  # per held-out token, in nats
    perplexity: float  # exp(−log_predictive)
    tokens: int  # held out
    by: str  # the unit of the halves: "tokens", or "types" (all tokens of a word together)


def document_completion(fit: Fit, documents: Any, *, seed: int = 0, by: str = "tokens") -> Completion:
    """How well one half of each document is predicted from its other half.

    `fit` is of a topic model, and `documents` are whatever `tp.LDA` takes. `by` is "tokens", or "types" to put all
    tokens of a word into the same half; `seed` shares them out. Proportions are inferred given the mean topics; a
    held-out token w then has probability Σ_k E[θ_k] E[β_kw].
    """
    rest, scores = _completed(fit, documents, seed, by)
    each = sum(float(np.sum(part)) for part in scores) / rest.n_tokens
    return Completion(each, float(np.exp(-each)), int(rest.n_tokens), by)


def completion_scores(fit: Fit, documents: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """For each document Σ log p of its held-out tokens, and their number."""
    rest, scores = _completed(fit, documents, seed, "tokens")
    owner = np.repeat(np.arange(len(rest)), rest.entries)
    return np.bincount(owner, np.concatenate(list(scores)), minlength=len(rest)), rest.lengths


def _completed(fit: Fit, documents: Any, seed: int, by: str) -> tuple[Corpus, Iterator[np.ndarray]]:
    """The held-out halves, and the scores of their entries."""
    model, q = fitted_topics(fit)
    observed, rest = model.new_corpus(documents).halves(seed, by)
    if rest.n_tokens == 0:
        raise InvalidData("no document has a token to hold out: each needs at least two")
    return rest, _token_scores(model.transform(q, observed), mean_topics(q), rest)


def perplexity(fit: Fit, documents: Any) -> float:
    """exp(−bound per token) of whole `documents` under the `fit` of a topic model: an upper bound on the perplexity
    given the mean topics."""
    model, _ = fitted_topics(fit)
    corpus = model.new_corpus(documents)
    if corpus.n_tokens == 0:
        raise InvalidData("all documents are empty")
    return float(np.exp(-np.sum(fit.log_predictive(corpus)) / corpus.n_tokens))


def _token_scores(theta: np.ndarray, beta: np.ndarray, corpus: Corpus) -> Iterator[np.ndarray]:
    """n_dv log Σ_k θ_dk β_kv for the entries of a corpus, in pieces."""
    by_word = np.ascontiguousarray(beta.T)
    document = np.repeat(np.arange(len(corpus)), corpus.entries)
    for first in range(0, len(document), 100_000):
        part = slice(first, first + 100_000)
        probability = np.einsum("ik,ik->i", theta[document[part]], by_word[corpus.words[part]])
        yield corpus.counts[part] * np.log(probability)


def fitted_topics(fit: Fit) -> tuple[LDA, Posterior]:
    from ..models.topics import LDA

    if not isinstance(fit.model, LDA) or not isinstance(fit.state, Posterior):
        raise UnsupportedMethod(
            f"this needs a variational fit of tp.LDA, got {fit.method.name} of {type(fit.model).__name__}"
        )
    return fit.model, fit.state
