"""The levels of a column of words: their natural order, if there is one, and different spellings of one level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from ..errors import InvalidData
from ._patterns import pattern
from .text import NO_ANSWER

EMPTY = "(empty)"  # the level of an empty cell in a column of ticks
_ORDERS = (
    ("never", "rarely", "seldom", "sometimes", "often", "usually", "always"),
    ("very low", "low", "moderate", "medium", "high", "very high"),
    ("none", "mild", "moderate", "severe", "very severe"),
    ("very poor", "poor", "fair", "average", "good", "very good", "excellent"),
    ("very bad", "bad", "neutral", "good", "very good"),
    ("small", "medium", "large"),
    ("xxs", "xs", "s", "m", "l", "xl", "xxl", "xxxl"),
    ("primary", "elementary", "lower secondary", "secondary", "upper secondary", "high school", "college",
     "bachelor", "bachelors", "bachelor's", "master", "masters", "master's", "phd", "doctorate"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
     "december"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)  # fmt: skip
# How strong an answer is: "strongly disagree" −3, "disagree" −2, "neutral" 0, "somewhat agree" 1.
_STRENGTH = {
    "strongly": 3, "very": 3, "extremely": 3, "completely": 3, "totally": 3, "fully": 3, "highly": 3, "": 2,
    "fairly": 1, "quite": 1, "rather": 1, "moderately": 1, "mostly": 1, "somewhat": 1, "slightly": 1, "tend to": 1,
}  # fmt: skip
_ANSWER = pattern(rf"(?:({'|'.join(filter(None, _STRENGTH))}) )?(dis(?=[as])|un|not )?(\w+)")
_NEUTRAL = pattern(r"neutral|undecided|unsure|neither(\b.*)?")
_NUMBERED = pattern(r"[<>≤≥~ ]*(\d+(\.\d+)?)")
_NO = ("no", "n", "false", "f", "0", "nein", "non")
_YES = ("yes", "y", "true", "t", "1", "ja", "j", "oui")
_PAIRS = ((_NO, _YES), (("female", "f", "woman"), ("male", "m", "man")))
_ABSENT = (*_NO, "absent", "off")


def ordered_levels(distinct: Collection[str]) -> tuple[tuple[str, ...], bool]:
    """Levels in order, and whether that order is natural (not merely alphabetical)."""
    plain = {level.lower().strip(): level for level in distinct}
    if len(plain) == len(distinct):
        for order in _ORDERS:
            if plain.keys() <= set(order):
                return tuple(plain[level] for level in order if level in plain), True
        strengths = _strengths(list(plain))
        if strengths is not None:
            return tuple(plain[level] for level in sorted(plain, key=lambda level: strengths[level])), True
    numbers = [_NUMBERED.match(level) for level in distinct]
    if all(numbers) and len({float(found[1]) for found in numbers if found}) == len(distinct):
        return tuple(sorted(distinct, key=lambda level: float(_NUMBERED.match(level)[1]))), True  # type: ignore[index]
    if len(distinct) == 2:
        return tuple(sorted(distinct, key=lambda level: (level.lower() not in _ABSENT, level))), False
    return tuple(sorted(distinct)), False


def _strengths(answers: Sequence[str]) -> dict[str, int] | None:
    """The strength of each answer if all are on one scale (agree 2, neutral 0, disagree −2), else None."""
    found: dict[str, int] = {}
    stems = set()
    for answer in answers:
        if _NEUTRAL.fullmatch(answer):
            found[answer] = 0
            continue
        match = _ANSWER.fullmatch(answer)
        if match is None:
            return None
        stems.add(match[3])
        found[answer] = _STRENGTH[match[1] or ""] * (-1 if match[2] else 1)
    several = len(found) > 1 and len(set(found.values())) == len(found)
    return found if several and len(stems) == 1 else None


def same_words(texts: Sequence[str | None]) -> dict[str, str]:
    """Each spelling → the spelling that stands for it in this column: "YES", "y" and "yes" → "Yes", if that is the most
    frequent of the whole words. Short words that differ in case may be codes (the genotypes AA, Aa and aa), so those
    stay apart."""
    times = Counter(text for text in texts if text is not None)
    alike: dict[str, list[str]] = {}
    pair = _pair_of(times)
    for text in times:
        alike.setdefault(_key(text, pair), []).append(text)
    if len(times) == times.total() and len(alike) > 2:  # ids
        return {}
    return {
        text: main
        for spellings in alike.values()
        if len(spellings) > 1
        for main in [max(sorted(spellings), key=lambda text: (len(text) > 1, times[text]))]
        for text in spellings
        if text != main
    }


def _pair_of(texts: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """No and yes, or female and male, in all their spellings, if that is what all these texts are."""
    small = {text.lower() for text in texts} - NO_ANSWER
    for pair in _PAIRS:
        whole = any(len(text) > 2 or text == "no" for text in small)  # or the letters of a pair, in both cases
        if small <= {*pair[0], *pair[1]} and (whole or len(small) == 2):
            return pair
    return ()


def _key(text: str, pair: tuple[tuple[str, ...], ...]) -> str:
    """A key that is equal for texts of equal meaning."""
    same = next((words[0] for words in pair if text.lower() in words), None)
    return same or (text.casefold() if len(text) > 2 else text)


def code(name: str, texts: Sequence[str | None], levels: tuple[str, ...]) -> np.ndarray:
    """Words as places in a list of levels, NaN where missing. Other spellings of a level count as that level; "unknown"
    and the like count as missing unless they are levels."""
    places = {level: float(place) for place, level in enumerate(levels)}
    strange = {text for text in texts if text is not None} - places.keys()
    if strange:
        pair = _pair_of(levels)
        by_key = {_key(level, pair): place for level, place in places.items()}
        unlike = len(by_key) == len(levels)  # no two levels are spellings of each other
        for text in strange:
            if unlike and _key(text, pair) in by_key:
                places[text] = by_key[_key(text, pair)]
            elif text.lower() in NO_ANSWER:
                places[text] = np.nan
    row = next((row for row, text in enumerate(texts) if text is not None and text not in places), None)
    if row is not None:
        shown = ", ".join(levels[:8]) + (", …" if len(levels) > 8 else "")
        raise InvalidData(f"column {name!r} has {texts[row][:40]!r} in row {row + 1}, and its levels are {shown}")  # type: ignore[index]
    gap = places.get(EMPTY, np.nan)
    return np.array([gap if text is None else places[text] for text in texts])
