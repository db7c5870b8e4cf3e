"""The parts of a text that are not words: HTML, web and e-mail addresses; and scripts without spaces between words."""

from __future__ import annotations

import dataclasses
import html
import re

from ._patterns import pattern

_TAGS = (
    "a|abbr|article|aside|b|big|blockquote|body|br|button|caption|center|cite|code|dd|del|div|dl|dt|em|figcaption|figure|"
    "font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|label|li|link|main|meta|nav|ol|option|p|pre|q|s|"
    "section|select|small|span|strike|strong|sub|sup|svg|table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul|video"
)
_HIDDEN = pattern(r"<(script|style)\b[^<>]*>.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = pattern(rf"</?(?:{_TAGS})(?:\s[^<>=]*+=[^<>]*+|\s*/?)>|<(?:!doctype|\?xml)[^<>]*>", re.IGNORECASE)
_ENTITY = pattern(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8}\d{0,2});", re.IGNORECASE)
_ADDRESS = pattern(r"\b(?:(?:https?|ftp)://|www\.)\S+|\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+", re.IGNORECASE)
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese and Japanese
_RUNS = pattern(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ANY = pattern(f"[{_UNSPACED}]")
_THAI = pattern("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese and Khmer


@dataclasses.dataclass
class Cleaner:
    """Removes the parts of texts that are not words, and counts the documents that had such parts."""

    tagged: int = 0
    addresses: int = 0
    paired: int = 0
    thai: int = 0

    def clean(self, text: str) -> str:
        """The text without tags, scripts, styles and addresses, and with entities replaced by characters."""
        if "<" in text:
            text, found = _TAG.subn(" ", _HIDDEN.sub(" ", text))
            self.tagged += found > 0
        if "&" in text:
            text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
        if "://" in text or "@" in text or "www." in text.lower():
            text, found = _ADDRESS.subn(" ", text)
            self.addresses += found
        return text

    def split(self, words: list[str], text: str) -> list[str]:
        """The words, in which each run of Chinese or Japanese characters is replaced by all its pairs of neighbours."""
        self.thai += bool(_THAI.search(text))
        if not _ANY.search(text):
            return words
        self.paired += 1
        return [piece for word in words for run in _RUNS.findall(word) for piece in _pairs(run)]

    def report(self) -> tuple[str, ...]:
        """The removals, one sentence each."""
        found = []
        if self.tagged:
            found.append(f"HTML tags were taken out of {_documents(self.tagged)}")
        if self.addresses:
            found.append(f"left out: {self.addresses:,} web or e-mail addresses")
        if self.paired:
            has = "has" if self.paired == 1 else "have"
            found.append(
                f"{_documents(self.paired)} {has} Chinese or Japanese characters, of which each pair of neighbours is "
                "taken for a word"
            )
        if self.thai:
            has = "has" if self.thai == 1 else "have"
            found.append(
                f"{_documents(self.thai)} {has} letters of Thai, Lao, Khmer or Burmese, which put no spaces between "
                "words: give lists of words instead"
            )
        return tuple(found)


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] if len(run) > 1 and _ANY.match(run) else [run]


def _documents(n: int) -> str:
    return f"{n:,} document{'s' if n > 1 else ''}"
