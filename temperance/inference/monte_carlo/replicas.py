"""The state of parallel tempering."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float, Int

from .gibbs import State


class Replicas(NamedTuple):
    """All replicas, in the order of the ladder."""

    states: State  # leading axis: the ladder
    betas: Float[Array, " k"]
    rejection: Float[Array, " k-1"]  # averaged over this round so far
    identity: Int[Array, " k"]  # which replica stands at each temperature
    step: Int[Array, ""]
    began: Int[Array, ""]  # the first step of this round
