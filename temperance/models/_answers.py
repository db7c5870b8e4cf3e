"""Models whose datum has one discrete latent that can be summed over term by term.

    log p(x, z = k | θ) = ⟨W_k, t(weights)⟩ + c_k + ⟨T(x), t(θ_k)⟩ + log h(x),

linear in the statistics of each block: what message passing needs.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float

from ..families import Pair
from ._model import Means, Model


class Enumerable(Model):
    """The global blocks are "components", with a leading axis over z, and "weights" (absent when known)."""

    pair: eqx.AbstractVar[Pair]  # T and log h

    @abstractmethod
    def log_weights(self, m: Means) -> Float[Array, " k"]:
        """log p(z = k | weights): affine in the statistics of the weights' block."""
