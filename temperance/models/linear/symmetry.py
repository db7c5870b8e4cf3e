"""Factors (or hidden states) have neither an order nor a sign."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...families import Gamma
from ...families._family import Family
from .._symmetry import Symmetry, one_set


def factor_symmetry(size: int, loadings: str, known: dict[str, Any]) -> Symmetry:
    """The symmetry of `size` factors with their loadings in this block; `known` holds priors and known variances.

    Without a precision for each factor that is learned the posterior is the same along all rotations: no order is a
    mode by itself.
    """
    axes: dict[str, tuple[int, ...]] = {name: (0,) for name in ("relevance", "state_noise", "start")}
    learned, numbers = isinstance(known.get("relevance"), Gamma), {name: known.get(name) for name in axes}
    axes |= {loadings: (1,), f"{loadings}.precision": (1, 2), "dynamics": (0, 1)}
    signs = ((loadings, (1,)), ("dynamics", (0, 1)))
    return one_set(size, axes, numbers, alike=learned, signs=signs)


def factors_in_use(block: Family, size: int, scale: Any) -> np.ndarray:
    """1 for each factor whose loadings are known to be other than zero, 0 for the others."""
    mean: Any = block.mean()
    unit = np.square(np.asarray(scale))[:, None]
    found = np.sum(np.square(np.asarray(mean.linear)[:, :size]) / unit, axis=0)
    whole = np.sum(-2.0 * np.diagonal(np.asarray(mean.precision), axis1=1, axis2=2)[:, :size] / unit, axis=0)
    return np.where(found > 0.5 * whole, 1.0, 0.0)


def scaled_loadings(loadings: Float[Array, "d c"], size: int, scale: Any) -> Float[Array, "d k"]:
    """In units of the columns: factors of two draws match when their inner product is large."""
    return loadings[:, :size] / jnp.asarray(scale)[:, None]
