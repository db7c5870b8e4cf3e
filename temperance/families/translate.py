"""Move a family of locations: models work on centred data, users see their own coordinates.

Quadratic statistics of data far from the origin lose digits (at mean/sd = 10⁸, all of them), so a model
subtracts a shift from the data and from its prior, and adds it back to what it reports.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics.place import on_device
from ._family import Family, along_last
from ._parameters import is_traced
from .matrix_normal_wishart import WeightsAndPrecision
from .normal_wishart import BeforeRounding, MeanAndPrecision
from .product import REAL as REAL

Shift = Float[Array, " d"]
F = TypeVar("F", bound=Family)


def translate(family: F, shift: Shift | np.ndarray) -> F:
    """The family of θ + shift when `family` is that of θ. Nothing is compiled unless one of them is traced."""
    leaves = jax.tree.leaves(family.natural)
    if any(is_traced(leaf) for leaf in (*leaves, shift)):
        return family.with_natural(family.natural.moved(shift))
    with np.errstate(all="ignore"):
        moved = jax.tree.map(np.asarray, family.natural).moved(np.asarray(shift))
    return family.with_natural(moved if isinstance(leaves[0], np.ndarray) else jax.tree.map(on_device, moved))


def translate_draw(draw: Any, shift: Shift) -> Any:
    """A draw with its location moved."""
    if isinstance(draw, MeanAndPrecision):
        step = along_last(shift, draw.mean)
        before = None if draw.before is None else _moved(draw.before, draw.precision, step)
        return draw._replace(mean=draw.mean + step, before=before)
    if isinstance(draw, WeightsAndPrecision):
        return draw._replace(weights=draw.weights + shift[:, None])
    if isinstance(draw, dict):
        width = draw[REAL].mean.shape[-1]
        return draw | {REAL: translate_draw(draw[REAL], shift[:width])}
    return draw + along_last(shift, draw)


def _moved(before: BeforeRounding, precision: Array, step: Array) -> BeforeRounding:
    added = (precision @ step[..., None])[..., 0]
    square = before.square + jnp.sum(step * (2.0 * before.linear + added), axis=-1)
    return BeforeRounding(before.linear + added, square, before.log_det)
