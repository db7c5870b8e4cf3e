"""The state of parallel tempering, and what its sweeps report."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int


class Replicas(NamedTuple):
    """All replicas, in the order of the ladder."""

    states: Any  # a `State` with the ladder as leading axis; packed while a kernel sweeps it
    betas: Float[Array, " k"]
    rejection: Float[Array, " k-1"]  # averaged over this round so far
    identity: Int[Array, " k"]  # the replica at each temperature
    step: Int[Array, ""]
    began: Int[Array, ""]  # the first step of this round


class Seen(NamedTuple):
    """Measurements of the sweeps, taken before swaps; leading axis: the sweeps."""

    target: Any  # a `State`: the replica at β = 1
    energies: Float[Array, "s k 4"]  # of each replica, in the order of `Energies`
    table: Float[Array, "s k k"] | None  # the energy of every replica at every temperature
    betas: Float[Array, "s k"]
    identity: Int[Array, "s k"]

    @property
    def forward(self) -> Float[Array, "s k-1"]:
        """The change of a replica's energy if it moves up the ladder."""
        return (self.energies[..., 2] - self.energies[..., 1])[:, :-1]

    @property
    def backward(self) -> Float[Array, "s k-1"]:
        """The change of a replica's energy on its way from the temperature below."""
        return (self.energies[..., 1] - self.energies[..., 0])[:, 1:]
