"""Whether the leading words of a topic occur together: UMass and NPMI by documents, C_v by windows of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Corpus, as_corpus
from ..data.text_sources import open_texts
from ..data.tokenise import Tokeniser
from ..errors import InvalidData, InvalidParameter

_WINDOW, _TINY = 110, 1e-12


def coherence(
    topics: Sequence[Sequence[Any]], documents: Any, *, measure: str = "npmi", vocabulary: Any = None
) -> np.ndarray:
    """One number per topic: the mean over pairs of its words, listed from the most probable (`fit.topics(10)`).

    With D(v) the number of documents that hold v, of N in all:

    - "npmi": log[N D(v,w) / (D(v) D(w))] / log[N / D(v,w)], between −1 (never together) and 1 (always);
    - "umass": log[(D(v,w) + 1) / D(v)], v the more probable word of the pair (Mimno and others, 2011);
    - "c_v": the mean cosine between a word's vector of NPMI with the topic's words and the sum of these vectors,
      where D counts windows of 110 words (Röder, Both and Hinneburg, 2015). The documents are texts or lists of words:
      counts have no order.

    Each of `topics` is a list of words, of their numbers, or of (word, probability) pairs. The `measure` is counted in
    these `documents`: a corpus, a matrix of counts or texts. `vocabulary` gives the words of a matrix.
    """
    if measure not in ("npmi", "umass", "c_v"):
        raise InvalidParameter(f'measure must be "npmi", "umass" or "c_v", got {measure!r}')
    if measure == "c_v":
        listed = [[word[0] if isinstance(word, tuple) else word for word in topic] for topic in topics]
        return _c_v(listed, documents, vocabulary)
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
    # A pair that is in every document is always together: the limit of the ratio is 1.
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


def _c_v(topics: list[list[Any]], documents: Any, vocabulary: Any) -> np.ndarray:
    if not all(isinstance(word, str) for topic in topics for word in topic) or min(map(len, topics)) < 2:
        raise InvalidParameter('"c_v" needs topics of at least two words each, such as fit.topics(10)')
    words = sorted({word for topic in topics for word in topic})
    number = {word: place for place, word in enumerate(words)}
    windows, together = 0, np.zeros((len(words), len(words)))
    tokeniser = getattr(vocabulary, "tokeniser", None) or Tokeniser()
    for piece in tokeniser.read(_texts(documents), words):
        for tokens in np.split(piece.tokens, np.cumsum(piece.lengths)[:-1]):
            here = max(len(tokens) - _WINDOW + 1, 1)
            windows += here
            met = np.unique(tokens[tokens >= 0])
            inside = np.zeros((here, len(met)))
            for place, word in enumerate(met):
                for at in np.flatnonzero(tokens == word):
                    inside[max(at - _WINDOW + 1, 0) : at + 1, place] = 1.0
            together[np.ix_(met, met)] += inside.T @ inside
    share = together / windows
    alone = np.diag(share)
    if (alone == 0).any():
        raise InvalidData(f"the topics' word {words[int(np.argmin(alone))]!r} is in none of the documents")
    npmi = np.log((share + _TINY) / np.outer(alone, alone)) / -np.log(np.minimum(share + _TINY, 1 - _TINY))
    places = [[number[word] for word in topic] for topic in topics]
    return np.array([_mean_cosine(npmi[np.ix_(each, each)]) for each in places])


def _mean_cosine(vectors: np.ndarray) -> float:
    whole = vectors.sum(axis=0)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(whole)
    return float(np.mean(vectors @ whole / np.maximum(lengths, _TINY)))


def _texts(documents: Any) -> Any:
    counts = isinstance(documents, Corpus) or hasattr(documents, "tocsr") or getattr(documents, "ndim", 1) == 2
    if documents is None or counts:
        raise InvalidParameter('"c_v" needs texts or lists of words, whose order counts have lost')
    return open_texts(documents).texts
