"""What only some models can do: abstract bases, by which a fit and a method tell what to ask for."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .._module import Module
from ..families import Pair
from ._model import Means, Model


class Alignable(Module):
    """Draws of this model can be brought to one order of its parts (one set of them, see `Symmetry`)."""

    @abstractmethod
    def traits(self, draws: dict[str, Any], x: Any) -> Float[Array, "r k"]:
        """A column for each part, by whose inner products the parts of two draws are matched. Where parts are the
        values of a latent, these are its probabilities for each datum."""


class Enumerable(Model):
    """Each datum has one discrete latent that can be summed over term by term,

        log p(x, z = k | θ) = ⟨W_k, t(weights)⟩ + c_k + ⟨T(x), t(θ_k)⟩ + log h(x),

    linear in the statistics of each block: what message passing needs. The global blocks are "components", with a
    leading axis over z, and "weights" (absent when known).
    """

    pair: eqx.AbstractVar[Pair]  # T and log h

    @abstractmethod
    def log_weights(self, m: Means) -> Float[Array, " k"]:
        """log p(z = k | weights): affine in the statistics of the weights' block."""
