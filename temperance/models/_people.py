"""What people see of a model: words for its parts, and their own coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .._module import Module
from ..families._family import Family


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

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """What the axes of each block and of the data, "x", count; an array with more axes repeats the last."""
        return {}

    @property
    def labels(self) -> dict[str, Sequence[Any]]:
        """What the members of these axes are called, where it is not 0, 1, 2, …"""
        return {}


class Coordinates(Module):
    """The way to the user's coordinates and back, where a model works in others: centred, or in units of the data."""

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        """The posterior in the user's coordinates."""
        return blocks

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return draws

    def values_to_user(self, values: Any) -> Any:
        """Data that were simulated with draws in the user's coordinates."""
        return values

    def block_from_user(self, name: str, family: Family) -> Family:
        """A family for one block, as a user would give its prior, in the model's coordinates and with its batch."""
        return family

    def draws_from_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        """One draw of all blocks in the model's coordinates."""
        return draws
