"""Expectation propagation."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ..._arguments import FLAG, Checks
from ...errors import InvalidParameter, UnsupportedMethod
from ...models import Model
from ...models._answers import Sited
from ...models._factors import Factored
from .alpha_divergence import MessagePassing, by_points
from .together import hierarchical


@dataclasses.dataclass(frozen=True)
class EP(MessagePassing):
    """Expectation propagation: message passing with α = 1. The other arguments are those of `tp.MessagePassing`.

    `double_loop=True` minimises the same free energy by a slower algorithm that cannot oscillate, for runs in which the
    plain algorithm does not settle; `warm_passes` plain passes come first.
    """

    alpha: float = dataclasses.field(default=1.0, init=False, repr=False)
    double_loop: bool = False

    budget: ClassVar[tuple[str, ...]] = MessagePassing.budget
    checks: ClassVar[Checks] = {**MessagePassing.checks, "double_loop": FLAG}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("damping", self.damping), ("trace", self.trace)):
            if self.double_loop and value:
                raise InvalidParameter(f"{name} is for plain passes: leave it out with double_loop=True")

    @property
    def name(self) -> str:
        return "EP (double loop)" if self.double_loop else "EP"

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.max_passes == 1 and not self.double_loop

    def complete(self, model: Model, data: Any) -> Any:
        if not self.double_loop:
            return super().complete(model, data)
        if why := _no_double_loop(model):
            raise UnsupportedMethod(
                f"the double loop is for mixtures and graphs whose data have latents of their own, not for this "
                f"{type(model).__name__} ({why}); use tp.EP() with more damping"
            )
        from .double_loop import DoubleLoop

        loop = DoubleLoop(
            restarts=self.restarts,
            max_passes=self.passes,
            tol=self.tol,
            schedule=self.schedule,
            warm_passes=self.warm_passes,
        )
        return loop.complete(model, data)


def _no_double_loop(model: Model) -> str:
    """Why the double loop cannot treat a model that plain passes can; empty if it can."""
    if isinstance(model, Sited):
        return "its sites are numbers"
    if by_points(model) or not isinstance(model, Factored):
        return "its moments are averages over points"
    if hierarchical(model):
        return "the prior of one block depends on another"
    return "factors of a chain share their states" if model.chained else ""
