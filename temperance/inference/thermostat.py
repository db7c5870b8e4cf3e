"""Temperatures that are found on the way, from minibatch to minibatch."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int

from ..families._family import Family
from ..kernels.topics_steps import Steps
from ..models import Data, Model

Blocks = dict[str, Family]


class Step(NamedTuple):
    """One minibatch, and how it is taken."""

    batch: Data
    rows: Int[Array, " b"] | None  # None: all
    rate: Float[Array, ""]
    local_steps: int
    number: Int[Array, ""]


class Thermostat(eqx.Module):
    """What a stochastic method asks instead of a table of temperatures. What is known of them is the `heat`, a part
    of the run's state."""

    steps: Int[Array, ""]  # after so many T is 1

    @abstractmethod
    def start(self, data: Data) -> Any:
        """The heat of a run that begins."""

    @abstractmethod
    def step(self, model: Model, blocks: Blocks, heat: Any, step: Step) -> tuple[Blocks, Any, Float[Array, ""]]:
        """The blocks and the heat after a step, and the bound before it."""

    @abstractmethod
    def quick(
        self, model: Model, blocks: Blocks, heat: Any, x: Any, steps: Steps, local_steps: int
    ) -> tuple[Blocks, Any]:
        """The same for many steps, where the model can take many at once."""
