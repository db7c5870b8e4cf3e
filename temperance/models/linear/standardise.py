"""Coordinates in which a regression is computed: features and targets centred, features scaled.

With far-away inputs or targets the quadratic statistics of raw rows lose their digits. The change is linear
in the weights, so it is undone exactly, and the prior is carried along with it: the model stays the user's.
"""

from __future__ import annotations

from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._module import Module
from ...families.normal import NormalVector


class Standardised(Module):
    """The user's weights are w = `matrix` · z + `offset`, where z are the weights the model works with.

    The design has a leading column of ones if there is an intercept; only then are rows centred.
    """

    centre: Float[Array, " p"]
    width: Float[Array, " p"]
    matrix: Float[Array, "p p"]
    inverse: Float[Array, "p p"]
    offset: Float[Array, " p"]
    target: Float[Array, ""]
    target_width: Float[Array, ""]  # only a scale for default priors: targets are not divided by it
    intercept: bool = eqx.field(static=True, kw_only=True)

    def design(self, features: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n p"]:
        """The rows the model works with, from those of the features."""
        if self.intercept:
            features = np.concatenate([np.ones((features.shape[0], 1)), features], axis=1)
        return (features - np.asarray(self.centre)) / np.asarray(self.width)

    def to_user(self, natural: NormalVector) -> NormalVector:
        """The natural parameter of w's Normal, from that of z."""
        precision = self.inverse.T @ natural.precision @ self.inverse
        return NormalVector(self.inverse.T @ natural.linear + precision @ self.offset, precision)

    def draw_to_user(self, z: Float[Array, "*b p"]) -> Float[Array, "*b p"]:
        return z @ self.matrix.T + jnp.broadcast_to(self.offset, z.shape)

    @property
    def log_det(self) -> Float[Array, ""]:
        """log |`matrix`|."""
        return -jnp.sum(jnp.log(self.width))

    @classmethod
    def of(
        cls,
        features: Float[np.ndarray, "n f"],
        targets: Float[np.ndarray, " n"],
        weights: Float[np.ndarray, " n"],
        intercept: bool,
    ) -> Self:
        share = weights / weights.sum()
        centre = share @ features if intercept else np.zeros(features.shape[1])
        target = share @ targets if intercept else np.asarray(0.0)
        width = _spread(features - centre, features, share)
        target_width = _spread((targets - target)[:, None], targets[:, None], share)[0]
        if intercept:
            centre, width = np.append(0.0, centre), np.append(1.0, width)
        matrix, inverse, offset = np.diag(1.0 / width), np.diag(width), np.zeros(len(width))
        if intercept:
            # The user's intercept is the value at zero, ours the value at the centre.
            matrix[0, 1:], inverse[0, 1:], offset[0] = -(centre / width)[1:], centre[1:], target
        arrays = map(jnp.asarray, (centre, width, matrix, inverse, offset, target, target_width))
        return cls(*arrays, intercept=intercept)


def _spread(
    centred: Float[np.ndarray, "n p"], raw: Float[np.ndarray, "n p"], share: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " p"]:
    """The root mean square of each centred column; for a constant one its size, or 1 if it is zero."""
    size = np.sqrt(share @ raw**2)
    spread = np.sqrt(share @ centred**2)
    constant = spread <= 1e-14 * size
    return np.where(constant, np.where(size > 0, size, 1.0), spread)
