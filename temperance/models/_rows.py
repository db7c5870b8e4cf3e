"""How minibatches are drawn from the data of a model, and what suits stochastic methods.

Rows are independent given the parameters unless a model says otherwise: then it says how to draw from them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Int

from .._module import Module
from ..errors import UnsupportedMethod
from ._data import Data


class Stochastic(NamedTuple):
    """Rows of a minibatch, passes over the data, (delay, decay) of the step sizes, passes over local blocks."""

    batch_size: int = 256
    passes: float = 20.0
    step_size: tuple[float, float] = (10.0, 0.7)
    local_steps: int = 10


class RowAccess(Module):
    """The part of a model that knows how its data may be cut."""

    @property
    def stochastic(self) -> Stochastic:
        """Minibatches and step sizes that suit this model."""
        return Stochastic()

    @property
    def independent_rows(self) -> bool:
        """Whether rows are independent given the parameters: then they may be cut anywhere and drawn one by one."""
        return True

    @property
    def uses_all_cores(self) -> bool:
        """Whether its engines use all cores by themselves, and may not be entered twice at a time."""
        return False

    def units(self, data: Data) -> int:
        """How many parts of the data minibatches are drawn from: rows, sequences or partitions."""
        return data.size

    def minibatch(
        self, data: Data, chosen: Int[Array, " b"], stands_for: Float[Array, ""], ahead: Int[Array, " b"]
    ) -> Data:
        """The chosen units, weighted to stand for so many rows; the units `ahead` will be asked for next."""
        raise UnsupportedMethod(f"{type(self).__name__} has no minibatches of its own")

    def first_rows(self, data: Data, size: int) -> Data:
        """The first `size` rows, with their own weights."""
        return Data(jax.tree.map(lambda leaf: leaf[:size], data.values), data.weights[:size], size)

    def piece(self, data: Any, run: int | None = None, size: int | None = None) -> Data:
        """New data as `Data`, padded to `size` rows. With `run`, at most that many consecutive rows belong together,
        as a stream delivers them."""
        raise UnsupportedMethod(f"{type(self).__name__} cannot be fitted to a stream")

    def at_hand(self, data: Data) -> tuple[Any, Data]:
        """The model and data held by this process (a sample of the rows when the data live on a cluster)."""
        return self, data
