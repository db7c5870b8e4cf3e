"""A model may work in other coordinates than the user's: centred, or in units of the data."""

from __future__ import annotations

from typing import Any

from .._module import Module
from ..families._family import Family


class Coordinates(Module):
    """The way there and back; by default they are the same."""

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
