"""Texts as numbers of words. A word is a run of letters, marks, digits and inner apostrophes, in lower case.

`Dictionary` numbers words as they occur; `Tokeniser` reads new texts by the same rules over a known vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidData
from ._patterns import pattern
from .cleaning import Cleaner
from .phrases import merge_phrases
from .stop_words import IsStopWord, is_english

STOP, NUMBER, LETTER = -1, -2, -3  # numbers of tokens that are left out; with a known vocabulary only -1
_CHARACTERS = 4_000_000  # characters of text in one piece
_KEPT_DIGITS = 4  # longer numbers get no entry, because there may be many
_BEYOND = pattern("[\U00010000-\U0010ffff]")
_ASCII = pattern(r"[a-z0-9]+(?:'[a-z0-9]+)*")


class Sequences(NamedTuple):
    """The numbers of the tokens of some documents, one document after the other."""

    lengths: np.ndarray  # (documents,) int64, tokens of each
    tokens: np.ndarray  # (tokens,) int32


def split_words(text: str, cleaner: Cleaner | None = None) -> list[str]:
    """The words of a text in lower case: runs of letters, marks and digits; apostrophes only inside a word."""
    cleaner = Cleaner() if cleaner is None else cleaner
    text = cleaner.clean(text)
    if text.isascii():
        return _ASCII.findall(text.lower())
    text = unicodedata.normalize("NFC", text.lower()).replace("\u2019", "'").replace("\u00ad", "")
    return cleaner.split(_unicode_words(bool(_BEYOND.search(text))).findall(text), text)


@functools.cache
def _unicode_words(beyond: bool) -> re.Pattern[str]:
    """Python's \\w lacks combining marks, without which words of Hindi or Tamil fall apart (Unicode's annex 29).

    Marks `beyond` the first 65,536 characters are searched for only in texts that have such characters, because the
    search is then six times slower.
    """
    codes = [code for code in range(0x300, 0x1F000 if beyond else 0x10000) if unicodedata.category(chr(code))[0] == "M"]
    marks = "".join(map(chr, [*codes, 0x200C, 0x200D]))
    run = rf"(?:[^\W_]++[{marks}]*+)++"
    return re.compile(rf"{run}(?:'{run})*+")


def number_tokens(texts: Iterable[Any], numbers: dict[str, int], cleaner: Cleaner | None = None) -> Iterator[Sequences]:
    """The tokens of texts by their numbers, in pieces of about four million characters; None and NaN are empty."""
    tokens: list[str] = []
    lengths: list[int] = []
    size = 0
    cleaner = Cleaner() if cleaner is None else cleaner
    for place, text in enumerate(texts):
        if isinstance(text, str):
            words = split_words(text, cleaner)
        elif isinstance(text, list | tuple) and all(isinstance(word, str) for word in text):
            words = [word.strip().lower() for word in text if word.strip()]
        elif is_missing(text):
            words = []
        else:
            raise InvalidData(f"document {place} must be a text, got {_shown(text)}")
        tokens += words
        lengths.append(len(words))
        size += len(words) + (len(text) if isinstance(text, str) else 0)
        if size > _CHARACTERS:
            yield _sequences(tokens, lengths, numbers)
            tokens, lengths, size = [], [], 0
    if lengths:
        yield _sequences(tokens, lengths, numbers)


def _sequences(tokens: list[str], lengths: list[int], numbers: dict[str, int]) -> Sequences:
    found = np.fromiter(map(numbers.__getitem__, tokens), dtype=np.int32, count=len(tokens))
    return Sequences(np.array(lengths, dtype=np.int64), found)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or a frame's missing value."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType",)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 40 else text[:37] + '…'}"


class Dictionary(dict[str, int]):
    """Token → number, assigned at its first occurrence; tokens that are left out have negative numbers."""

    def __init__(
        self,
        is_stop_word: IsStopWord,
        language: str | None = None,
        numbers: bool = False,
        stem: Callable[[str], str] | None = None,
    ):
        super().__init__()
        self.words: list[str] = []
        self._number_of: dict[str, int] = {}
        self._is_stop_word, self._numbers, self.stem = is_stop_word, numbers, stem
        self._english = is_english(language)

    def __missing__(self, token: str) -> int:
        word = singular(token) if self._english else token
        lettered = any(map(str.isalpha, word))
        if not lettered and not self._numbers:
            if len(token) <= _KEPT_DIGITS:
                self[token] = NUMBER
            return NUMBER
        if self._is_stop_word(word):
            self[token] = STOP
        elif lettered and len(word) == 1 and word.isascii():
            self[token] = LETTER
        else:
            self[token] = self._number(word if self.stem is None else self.stem(word))
        return self[token]

    def _number(self, word: Any) -> int:
        if not isinstance(word, str):
            raise InvalidData(f"stem must give a word for each word, gave {word!r}")
        if not word:
            return STOP
        number = self._number_of.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number

    def add(self, word: str) -> int:
        """Number a word that is not a token, such as a phrase."""
        return self._number(word)

    def forms(self, kept: Sequence[bool]) -> tuple[tuple[str, str], ...]:
        """Pairs of each token whose word is kept, and that word, which the stemmer made of it."""
        return tuple((token, self.words[number]) for token, number in self.items() if number >= 0 and kept[number])


def singular(word: str) -> str:
    """An English word without the possessive: "nation's" is "nation"."""
    return word[:-2] if word.endswith("'s") else word


@dataclasses.dataclass(frozen=True)
class Tokeniser:
    """The rules by which texts were read, for reading new texts; kept with the vocabulary, and saved with it."""

    language: str | None = "english"
    phrases: tuple[tuple[str, str], ...] = ()
    forms: tuple[tuple[str, str], ...] | None = None  # token → word, where words were stemmed

    def read(self, texts: Iterable[Any], vocabulary: Sequence[str]) -> Iterator[Sequences]:
        """The tokens of new texts by their numbers in the vocabulary; those that are not in it are negative."""
        number = {word: place for place, word in enumerate(vocabulary)}
        for word in (word for pair in self.phrases for word in (*pair, "_".join(pair))):
            number.setdefault(word, len(number))  # a part of a phrase need not be in the vocabulary
        pairs = {(number[a], number[b]): number[f"{a}_{b}"] for a, b in self.phrases}
        forms = {form: number[word] for form, word in self.forms or ()}
        known = _Known(number | forms, is_english(self.language))
        for piece in number_tokens(texts, known):
            lengths, tokens = merge_phrases(piece.lengths, piece.tokens, pairs, len(number))
            yield Sequences(lengths, np.where(tokens < len(vocabulary), tokens, STOP))


class _Known(dict[str, int]):
    """Token → number for known tokens; any other token has the number −1."""

    def __init__(self, numbers: dict[str, int], english: bool):
        super().__init__(numbers)
        self._english = english

    def __missing__(self, token: str) -> int:
        return self.get(singular(token), STOP) if self._english else STOP
