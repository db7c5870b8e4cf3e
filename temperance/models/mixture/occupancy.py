"""How many data each component holds, without a compilation where the data are few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._answers import compiled_occupancy
from .._data import Data
from .._model import Posterior

if TYPE_CHECKING:
    from .finite import Mixture


def occupancy(model: Mixture, q: Posterior, data: Data) -> np.ndarray:
    """`Mixture.occupancy`, without a compilation where the data are few."""
    if type(model).__name__ in ("Mixture", "GaussianMixture", "ClassMixture"):
        from ...kernels import small_mixture

        def shapes(blocks: Any) -> tuple[Any, list[tuple[int, ...]]]:
            return jax.tree.structure(blocks), [leaf.shape for leaf in jax.tree.leaves(blocks)]

        # Other methods have posteriors of other families; those of a damaged file may not fit the prior.
        if shapes(q.blocks) == shapes(model.prior) and small_mixture.suits(model, data):
            return small_mixture.occupancy(model, q, data)
    return np.asarray(compiled_occupancy(model, q, data))
