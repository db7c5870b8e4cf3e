"""Seeded topics: words that a topic should or should not have, as counts of the prior.

The prior of a topic counts a word that it should have as often as a tenth of the word's occurrences, or as often as a
given number. A word that it should not have gets a count near zero, and stays out as long as another topic explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import InvalidData, InvalidParameter
from . import Corpus

_SHARE = 0.1  # of the occurrences of a word
_AVOIDED = 1e-6  # of the prior of other words

Seeds = tuple[tuple[int, tuple[tuple[str, float | None], ...]], ...]  # topic → words with their counts (0: avoided)


def parse_seeds(seeds: Any, n_topics: int) -> Seeds:
    """Seeds from {topic: words} or a list with words for each topic. Words are a list, in which "-word" is a word to
    avoid, or a dictionary of counts."""
    if seeds is None:
        return ()
    if isinstance(seeds, str) or not isinstance(seeds, Mapping | list | tuple):
        raise InvalidParameter(f"seeds must be {{topic: words}} or a list of words for each topic, got {seeds!r}")
    found = []
    for topic, words in seeds.items() if isinstance(seeds, Mapping) else enumerate(seeds):
        if isinstance(topic, bool) or not isinstance(topic, int | np.integer) or not 0 <= topic < n_topics:
            raise InvalidParameter(f"topics of seeds must be whole numbers from 0 to {n_topics - 1}, got {topic!r}")
        found.append((int(topic), tuple(_word(*pair) for pair in _pairs(words))))
    return tuple(found)


def _pairs(words: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(words, Mapping):
        return words.items()
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise InvalidParameter(f"the words of a topic in seeds must be a list or a dictionary of counts, got {words!r}")
    return ((word[1:], 0.0) if isinstance(word, str) and word[:1] == "-" else (word, None) for word in words)


def _word(word: Any, count: Any) -> tuple[str, float | None]:
    if not isinstance(word, str) or not word:
        raise InvalidParameter(f"words of seeds must be texts, got {word!r}")
    number = isinstance(count, int | float | np.number) and not isinstance(count, bool)
    if count is not None and not (number and np.isfinite(count) and count >= 0):
        raise InvalidParameter(f"the count of {word!r} in seeds must be a number of at least 0, got {count!r}")
    return word, None if count is None else float(count)


def seeded_prior(
    seeds: Seeds, eta: np.ndarray, n_topics: int, corpus: Any, words: tuple[str, ...] | None
) -> np.ndarray:
    """η as (topics, words), with the counts that the seeds add to it."""
    if words is None:
        raise InvalidData("seeds need a vocabulary, and the documents have none: give vocabulary=…")
    prior = np.array(np.broadcast_to(eta, (n_topics, len(words))))
    place = {word: number for number, word in enumerate(words)}
    seen = np.bincount(corpus.words, corpus.counts, minlength=len(words)) if isinstance(corpus, Corpus) else None
    for topic, given in seeds:
        for word, count in given:
            if word not in place:
                raise InvalidParameter(
                    f"{word!r} of seeds is not among the {len(words):,} words that are kept of the documents"
                )
            v = place[word]
            if count is None and seen is None:
                raise InvalidParameter(
                    f"the count of {word!r} in seeds must be given: documents on disk are not counted"
                )
            if count is None:
                assert seen is not None
                count = max(1.0, _SHARE * float(seen[v]))
            prior[topic, v] = prior[topic, v] + count if count > 0 else max(_AVOIDED * prior[topic, v], 1e-12)
    return prior
