"""What a model suggests to stochastic methods where the user leaves it open."""

from __future__ import annotations

from typing import NamedTuple


class Stochastic(NamedTuple):
    """Rows of a minibatch, passes over the data, (delay, decay) of the step sizes, passes over local blocks."""

    batch_size: int = 256
    passes: float = 20.0
    step_size: tuple[float, float] = (10.0, 0.7)
    local_steps: int = 10
