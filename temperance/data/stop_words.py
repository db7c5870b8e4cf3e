"""Words that say nothing about a subject: "the", "of", "is"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import InvalidParameter

# scikit-learn's English list has "do" and "have", but not these forms.
_ENGLISH_TOO = ("did", "does", "doing", "having")
_CODES = {
    "arabic": "ar", "bulgarian": "bg", "catalan": "ca", "chinese": "zh", "croatian": "hr", "czech": "cs",
    "danish": "da", "dutch": "nl", "finnish": "fi", "french": "fr", "german": "de", "greek": "el", "hebrew": "he",
    "hindi": "hi", "hungarian": "hu", "indonesian": "id", "italian": "it", "japanese": "ja", "korean": "ko",
    "norwegian": "no", "persian": "fa", "polish": "pl", "portuguese": "pt", "romanian": "ro", "russian": "ru",
    "spanish": "es", "swedish": "sv", "turkish": "tr", "ukrainian": "uk", "vietnamese": "vi",
}  # fmt: skip

IsStopWord = Callable[[str], bool]


def is_english(language: str | None) -> bool:
    return language in ("english", "en")


def stop_words_of(language: str | None, given: Any = None) -> IsStopWord:
    """A function that says whether a word is left out, from the user's list or function, or from the list of a
    language.

    English has scikit-learn's list; other languages (by name, or by their ISO 639-1 codes) need `stopwordsiso`.
    """
    if callable(given):
        return given
    if given is not None:
        if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(w, str) for w in given):
            raise InvalidParameter(f"stop_words must be a list of words or a function of a word, got {given!r}")
        return frozenset(word.lower() for word in given).__contains__
    if language is None:
        return frozenset[str]().__contains__
    if not isinstance(language, str):
        raise InvalidParameter(
            f'language must be a name such as "english", or None for no stop words, got {language!r}'
        )
    return _english() if is_english(language) else _other(language)


def _english() -> IsStopWord:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    listed = ENGLISH_STOP_WORDS | frozenset(_ENGLISH_TOO)

    def is_stop_word(word: str) -> bool:
        """Whether a word is a stop word or a contraction of one: "we've" begins with one, "isn't" ends with "n't"."""
        return word in listed or ("'" in word and (word.endswith("n't") or word.partition("'")[0] in listed | {"i"}))

    return is_stop_word


def _other(language: str) -> IsStopWord:
    instead = "give stop_words=[…], or language=None to keep every word"
    try:
        import stopwordsiso  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise InvalidParameter(
            f"the stop words of language {language!r} need one more package: pip install stopwordsiso; or {instead}"
        ) from error
    code = _CODES.get(language.lower(), language.lower())
    if not stopwordsiso.has_lang(code):
        raise InvalidParameter(f"there is no list of stop words for the language {language!r}: {instead}")
    return frozenset(stopwordsiso.stopwords(code)).__contains__
