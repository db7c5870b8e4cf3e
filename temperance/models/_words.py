"""What people call a model and its parts."""

from __future__ import annotations

from typing import NamedTuple

from .._module import Module


class Words(NamedTuple):
    """The word for a part and for several; what parts do that count; and the article before the model's name."""

    part: str = ""
    parts: str = ""
    used: str = "hold data"
    article: str = "a"


COMPONENT = Words("component", "components")
CLASS = Words("class", "classes")
TOPIC = Words("topic", "topics")
STATE = Words("state", "states", used="are used")
FACTOR = Words("factor", "factors", used="are used")
DEGREE = Words("degree")  # has no plural: a model has one

_SINGULAR = {words.parts: words.part for words in (COMPONENT, CLASS, TOPIC, STATE, FACTOR)}


def counted(number: int | str, parts: str) -> str:
    """3 components, 1 component; a word without a plural comes first: degree 2."""
    if parts not in _SINGULAR:
        return f"{parts} {number}"
    return f"{number} {_SINGULAR[parts] if number == 1 else parts}"


class Spoken(Module):
    """The part of a model that people read about."""

    @property
    def words(self) -> Words:
        return Words()

    @property
    def size(self) -> int | None:
        """How many parts there are (or of which degree the model is), where models differ in that."""
        return None
