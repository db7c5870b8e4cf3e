"""Whether the leading words of a topic occur together: UMass and NPMI, from counts of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import as_corpus
from ..errors import InvalidData, InvalidParameter


def coherence(
    topics: Sequence[Sequence[Any]], documents: Any, *, measure: str = "npmi", vocabulary: Any = None
) -> np.ndarray:
    """One number per topic: the mean over pairs of its words, listed from the most probable (`fit.topics(10)`).

    With D(v) the number of documents that hold v, of N in all:

    - "npmi": log[N D(v,w) / (D(v) D(w))] / log[N / D(v,w)], between −1 (never together) and 1 (always);
    - "umass": log[(D(v,w) + 1) / D(v)], v the more probable word of the pair (Mimno and others, 2011).

    A topic is a list of words, of their numbers, or of (word, probability) pairs.
    """
    if measure not in ("npmi", "umass"):
        raise InvalidParameter(f'measure must be "npmi" or "umass", got {measure!r}')
    corpus = as_corpus(documents, vocabulary=vocabulary, fractional=True)
    present = corpus.take(slice(None)).to_sparse().tocsc()
    present.data = np.ones_like(present.data, dtype=np.float64)
    numbers = {word: index for index, word in enumerate(corpus.vocabulary or ())}
    return np.array([_one(present, _numbers(topic, numbers, corpus.n_words), measure) for topic in topics])


def _one(present: Any, words: list[int], measure: str) -> float:
    columns = present[:, words]
    together = np.asarray((columns.T @ columns).todense())
    alone = np.diag(together)
    if (alone == 0).any():
        raise InvalidData(f"word {words[int(np.argmin(alone))]} of a topic is in none of the documents")
    first, second = np.triu_indices(len(words), 1)
    pair = together[first, second]
    if measure == "umass":
        return float(np.mean(np.log((pair + 1.0) / alone[first])))
    n = present.shape[0]
    met = np.maximum(pair, 1.0)
    gain = np.log(n * met / (alone[first] * alone[second]))
    # In every document: always together, so the limit of the ratio.
    share = np.where(met < n, gain / np.where(met < n, np.log(n / met), 1.0), 1.0)
    return float(np.mean(np.where(pair > 0, share, -1.0)))


def _numbers(topic: Sequence[Any], numbers: dict[str, int], n_words: int) -> list[int]:
    words = [word[0] if isinstance(word, tuple) else word for word in topic]
    if len(words) < 2:
        raise InvalidParameter(f"a topic needs at least two words to be coherent, got {len(words)}")
    result = []
    for word in words:
        number = numbers.get(word, -1) if isinstance(word, str) else int(word)
        if not 0 <= number < n_words:
            raise InvalidData(f"the topics' word {word!r} is not in the vocabulary of the documents")
        result.append(number)
    return result
