"""A corpus from texts, which are read once and in pieces; `corpus.report` says what was left out and how much."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._heap import give_back
from ..errors import InvalidData, InvalidParameter
from .cleaning import Cleaner
from .corpus import Corpus, as_corpus, make_corpus
from .phrases import find_phrases, merge_phrases
from .stop_words import is_english, stop_words_of
from .text_sources import open_texts
from .tokenise import LETTER, NUMBER, STOP, Dictionary, Sequences, Tokeniser, number_tokens

_ALONE = "topics are told by which words share documents, and there is only one: cut it into parts, such as paragraphs"
_FEW = 20  # with fewer documents no word is left out as rare or frequent
_FREED = 2**23  # used-up entries after which memory is given back
_PHRASE = 10  # fewest occurrences of a phrase
_SURE, _LEAST_STOPPED = 100, 0.1  # with this many tokens and a smaller share of stop words, the language is questioned
_COPIES = 0.01  # share of copies from which the report mentions them


class Report(NamedTuple):
    """The sentences of `corpus.report` that do not concern words left out, and their sources."""

    source: tuple[str, ...]
    words: tuple[str, ...]
    copies: tuple[str, ...]


def read_texts(
    source: Any,
    column: str | None = None,
    *,
    language: str | None = "english",
    stop_words: Iterable[str] | Callable[[str], bool] | None = None,
    phrases: bool | int = False,
    min_documents: int | None = None,
    max_share: float | None = None,
    stem: Callable[[str], str] | None = None,
    numbers: bool = False,
) -> Corpus:
    """A corpus made from texts.

    `source` is a list, generator or Series of strings; a folder of .txt files; a csv, JSON-lines or parquet file or a
    frame, of which `column` names the column (by default the one that holds text); or a pair of a matrix of counts
    from scikit-learn and its vectoriser or words, whose words are all kept.

    Words are in lower case and have letters; `numbers=True` keeps numbers. `stop_words` (a list, or a function that
    says whether a word is one) replaces the list of the `language`; `language=None` has no list. `phrases` joins pairs
    of words that belong together and occur 10 times (or the number given). Words in fewer than `min_documents` (by
    default 1 to 10, more for more documents) or in more than a share `max_share` of the documents (0.7; with fewer than
    20 documents 1) are left out. `stem` gives the word for which a form stands. Empty documents stay in their place.
    """
    if _is_vectorised(source):
        matrix, words = source
        return as_corpus(matrix, vocabulary=_feature_names(words))
    if stem is not None and not callable(stem):
        raise InvalidParameter(f"stem must be a function of a word, got {stem!r}")
    limits = _check_limits(min_documents, max_share)
    least = _PHRASE if phrases is True else phrases
    if isinstance(least, float) or not (least is False or least >= 2):
        raise InvalidParameter(f"phrases must be True, False or a number of occurrences from 2, got {phrases!r}")
    dictionary = Dictionary(stop_words_of(language, stop_words), language, numbers, stem)
    opened = open_texts(source, column)
    removed, cleaner = np.zeros(4, dtype=np.int64), Cleaner()
    pieces: Iterable[Sequences] = _watched(number_tokens(opened.texts, dictionary, cleaner), removed)
    pairs: dict[tuple[int, int], int] = {}
    if least:
        pieces = list(pieces)
        found = find_phrases(pieces, width := len(dictionary.words), int(least))
        pairs = {(a, b): dictionary.add(f"{dictionary.words[a]}_{dictionary.words[b]}") for a, b in found}
        pieces = (Sequences(*merge_phrases(*piece, pairs, width)) for piece in pieces)
    counted = [count_tokens(piece, len(dictionary.words)) for piece in pieces]
    told = (*cleaner.report(), *(_of_another_language(removed) if stop_words is None and is_english(language) else ()))
    report = Report(opened.notes, told, tuple(_copies(counted, len(dictionary.words))))
    return _finished(counted, dictionary, pairs, limits, removed, language, report)


def count_texts(texts: Iterable[Any], vocabulary: Sequence[str], tokeniser: Tokeniser | None = None) -> Corpus:
    """New texts over a known vocabulary, read as the tokeniser says; other words are counted in `unknown`."""
    tokeniser = tokeniser or Tokeniser()
    counted, unknown = [], 0
    for piece in tokeniser.read(texts, vocabulary):
        unknown += int(np.sum(piece.tokens < 0))
        counted.append(count_tokens(piece, len(vocabulary)))
    return _joined(counted, np.arange(len(vocabulary)), vocabulary=tuple(vocabulary), unknown=unknown)


def count_tokens(piece: Sequences, n_words: int) -> Corpus:
    """The count of each word in each document of a piece; negative word numbers are left out."""
    documents = np.repeat(np.arange(len(piece.lengths)), piece.lengths)
    here = piece.tokens >= 0
    counts = np.ones(int(here.sum()), dtype=np.float32)
    return make_corpus(documents[here], piece.tokens[here], counts, (len(piece.lengths), max(n_words, 1)))


def _watched(pieces: Iterable[Sequences], removed: np.ndarray) -> Iterator[Sequences]:
    """Pass the pieces on, and add up in `removed` how many tokens were left out for each reason."""
    for piece in pieces:
        removed += np.bincount(np.maximum(-piece.tokens, 0), minlength=4)
        yield piece


def _is_vectorised(source: Any) -> bool:
    return isinstance(source, tuple) and len(source) == 2 and hasattr(source[0], "tocsr")


def _feature_names(words: Any) -> list[str]:
    """The words of a vectoriser, of its dictionary (word → column), or of a list."""
    if hasattr(words, "get_feature_names_out"):
        return [str(word) for word in words.get_feature_names_out()]
    return [str(word) for word in (sorted(words, key=words.__getitem__) if isinstance(words, dict) else words)]


def _check_limits(min_documents: int | None, max_share: float | None) -> tuple[int | None, float | None]:
    if min_documents is not None and not (isinstance(min_documents, int | np.integer) and min_documents >= 1):
        raise InvalidParameter(f"min_documents must be a whole number of at least 1, got {min_documents!r}")
    if max_share is not None and not (isinstance(max_share, int | float) and 0.0 < max_share <= 1.0):
        raise InvalidParameter(f"max_share must be above 0 and at most 1, got {max_share!r}")
    return min_documents, max_share


def _finished(
    pieces: list[Corpus],
    dictionary: Dictionary,
    pairs: dict[tuple[int, int], int],
    limits: tuple[int | None, float | None],
    removed: np.ndarray,
    language: str | None,
    told: Report,
) -> Corpus:
    """The pieces as one corpus over the words that are neither rare nor frequent, in alphabetical order."""
    words, n = dictionary.words, sum(len(piece) for piece in pieces)
    if n < 1:
        raise InvalidData("there is no text: a corpus must have at least one document")
    least = limits[0] if limits[0] is not None else 1 if n < _FEW else min(10, max(2, n // 500))
    most = limits[1] if limits[1] is not None else 1.0 if n < _FEW else 0.7
    inside, total = np.zeros(len(words), dtype=np.int64), np.zeros(len(words))
    for piece in pieces:
        inside += np.bincount(piece.words, minlength=len(words))
        total += np.bincount(piece.words, piece.counts, minlength=len(words))
    met = inside > 0  # leaves out words that occur only in phrases
    rare, frequent = met & (inside < least), met & (inside > most * n)
    apart = limits == (None, None) and bool(met.any()) and not (met & ~rare & ~frequent).any()
    if apart:  # short texts with no word in common: rather all words than none
        rare, frequent = np.zeros_like(met), np.zeros_like(met)
    kept = np.flatnonzero(met & ~rare & ~frequent)
    if not len(kept):
        raise InvalidData(_why_nothing(n, removed, int(rare.sum()), int(frequent.sum()), least, most))
    order = kept[np.argsort(np.array([words[number] for number in kept], dtype=object), kind="stable")]
    report = (
        *told.source,
        f"{n:,} document{'s' * (n > 1)}, {int(removed.sum()):,} tokens; kept: {int(total[kept].sum()):,} tokens of "
        f"{len(kept):,} different words",
        *_left_out(removed, language),
        *told.words,
        *(
            [f"phrases: {len(pairs):,} pairs of words, such as {_some(words, total, list(pairs.values()))}"]
            * bool(pairs)
        ),
        *(["no word is in several documents but not in most: all are kept, but show little of any topic"] * apart),
        *_limited(words, total, rare, f"rare words (in fewer than {least} documents)"),
        *_limited(words, total, frequent, f"frequent words (in more than {most:.0%} of the documents)"),
    )
    phrases = tuple((words[a], words[b]) for a, b in pairs)
    parts = {number for pair in pairs for number in pair}
    chosen = [number in parts or bool(keep) for number, keep in enumerate(met & ~rare & ~frequent)]
    forms = None if dictionary.stem is None else dictionary.forms(chosen)
    tokeniser = Tokeniser(language, phrases, forms)
    corpus = _joined(pieces, order, vocabulary=tuple(words[number] for number in order), tokeniser=tokeniser)
    verb = "document is" if corpus.n_empty == 1 else "documents are"
    empty = (f"{corpus.n_empty:,} {verb} empty: no word of theirs is kept",) if corpus.n_empty else ()
    return dataclasses.replace(corpus, report=(*report, *empty, *[_ALONE] * (n == 1), *told.copies))


def _of_another_language(removed: np.ndarray) -> Iterator[str]:
    """A sentence if texts may not be English: some 40% of the tokens of English texts are stop words."""
    share = removed[-STOP] / max(int(removed.sum()), 1)
    if removed.sum() >= _SURE and share < _LEAST_STOPPED:
        yield (
            f"only {share:.0%} of all tokens are English stop words: if the texts are in another language, name it "
            "(language=… or --language)"
        )


def _copies(pieces: Sequence[Corpus], n_words: int) -> Iterator[str]:
    """A sentence if many documents have the word counts of an earlier document."""
    marks = np.random.default_rng(0).integers(1, 2**63, max(n_words, 1), dtype=np.uint64)
    sums = []
    for piece in pieces:
        added = np.cumsum(marks[piece.words] * piece.counts.astype(np.uint64), dtype=np.uint64)
        sums.append(np.diff(np.concatenate([np.zeros(1, np.uint64), added])[piece.starts])[piece.entries > 0])
    filled = np.concatenate(sums) if sums else np.zeros(0, np.uint64)
    copies = len(filled) - len(np.unique(filled))
    if copies > _COPIES * len(filled):
        has = "has" if copies == 1 else "have"
        yield f"{copies:,} document{'s' * (copies > 1)} {has} the same words, as often, as one before"


def _left_out(removed: np.ndarray, language: str | None) -> Iterator[str]:
    kinds = ((STOP, f"stop words ({language})" if language else "stop words"), (NUMBER, "numbers"))
    for kind, name in (*kinds, (LETTER, "single letters")):
        if removed[-kind]:
            yield f"left out: {name}, {_tokens(removed[-kind])}"


def _limited(words: list[str], total: np.ndarray, chosen: np.ndarray, name: str) -> Iterator[str]:
    if chosen.any():
        shown = _some(words, total, np.flatnonzero(chosen))
        words_are = f"{int(chosen.sum()):,} {name.replace('words', 'word', 1) if chosen.sum() == 1 else name}"
        yield f"left out: {words_are}, {_tokens(total[chosen].sum())}: {shown}"


def _tokens(number: Any) -> str:
    return f"{int(number):,} token{'s' * (int(number) != 1)}"


def _some(words: list[str], total: np.ndarray, chosen: Any, most: int = 6) -> str:
    """The most common of the chosen words, as a list for a sentence."""
    ranked = sorted(chosen, key=lambda number: -total[number])
    return ", ".join(words[number] for number in ranked[:most]) + (", …" if len(ranked) > most else "")


def _why_nothing(n: int, removed: np.ndarray, rare: int, frequent: int, least: int, most: float) -> str:
    texts = f"no word is left of {n:,} document{'s' if n > 1 else ''}"
    if rare or frequent:
        return (
            f"{texts}: {rare:,} words are in fewer than {least} documents, {frequent:,} in more than {most:.0%} of them"
        )
    tokens = int(removed.sum())
    return (
        f"{texts}: all {tokens:,} tokens are stop words, numbers or single letters"
        if tokens
        else f"{texts}: they are empty or hold no letters"
    )


def _joined(pieces: list[Corpus], order: np.ndarray, **fields: Any) -> Corpus:
    """One corpus from the pieces, which are used up, over the words in `order`."""
    number = np.full(max([int(order.max()) + 1, *(piece.n_words for piece in pieces)]), -1, dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    for place, piece in enumerate(pieces):
        pieces[place] = _renumbered(piece, number, len(order))
    sizes = [len(piece.words) for piece in pieces]
    words, counts = np.empty(sum(sizes), np.int32), np.empty(sum(sizes), np.float32)
    starts, done, freed = [np.zeros(1, np.int64)], 0, 0
    for size in sizes:
        piece = pieces.pop(0)
        words[done : done + size], counts[done : done + size] = piece.words, piece.counts
        starts.append(piece.starts[1:] + done)
        done, freed = done + size, freed + size
        if freed >= _FREED:
            del piece
            give_back()
            freed = 0
    give_back()
    return Corpus(np.concatenate(starts), words, counts, len(order), **fields)


def _renumbered(piece: Corpus, number: np.ndarray, n_words: int) -> Corpus:
    words = number[piece.words]
    here = words >= 0
    documents = np.repeat(np.arange(len(piece)), piece.entries)[here]
    return make_corpus(documents, words[here], piece.counts[here], (len(piece), n_words))
