"""The prior of a regression's weights, carried into the coordinates in which the model is computed."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...errors import InvalidParameter
from ...families import GammaVector, Normal, NormalVector
from ...families._family import as_float
from ...numerics.special import LOG_2PI
from .._model import Conditional, Means
from .standardise import Standardised


class WeightsPrior(Conditional):
    """p(z | α): the entries of u = `matrix` · z + `offset` are N(0, 1/α_g), each with the α of its group.

    Known precisions have no parent. For them too the log normaliser is this closed form, not a factorisation:
    in the model's coordinates a prior over weights of very different sizes (raw powers of x) is numerically
    singular.
    """

    matrix: Float[Array, "p p"]
    offset: Float[Array, " p"]
    members: Float[Array, "p g"]  # one-hot rows: whose α each weight has
    log_det: Float[Array, ""]  # of `matrix`
    known: Float[Array, " g"] | None = None
    parents: tuple[str, ...] = eqx.field(static=True, default=("alpha",), kw_only=True)

    def natural(self, m: Means) -> NormalVector:
        scaled = (self.members @ self._alpha(m).value)[:, None] * self.matrix
        return NormalVector(-(self.offset @ scaled), self.matrix.T @ scaled)

    def log_normaliser(self, m: Means) -> Float[Array, ""]:
        alpha = self._alpha(m)
        each = LOG_2PI - self.members @ alpha.log + (self.members @ alpha.value) * jnp.square(self.offset)
        return 0.5 * jnp.sum(each) - self.log_det

    def family(self, natural: NormalVector) -> Normal:
        return Normal.from_natural(natural)

    def _alpha(self, m: Means) -> GammaVector:
        return m["alpha"] if self.known is None else GammaVector(jnp.log(self.known), self.known)


def relative(at: Standardised, members: np.ndarray) -> WeightsPrior:
    """α in units of the data: of features with unit spread, and of the targets' spread around their mean."""
    size, width = members.shape[0], np.asarray(at.target_width)
    log_det = -size * np.log(width)
    return _prior(np.eye(size) / width, np.zeros(size), members, log_det)


def in_user_units(at: Standardised, members: np.ndarray) -> WeightsPrior:
    """The user's weights are N(0, 1/α)."""
    return _prior(at.matrix, at.offset, members, at.log_det)


def with_precision(at: Standardised, alpha: Float[Array, ""]) -> WeightsPrior:
    """The user's weights are N(0, 1/α) with α known."""
    one = np.ones((len(at.offset), 1))
    return _prior(at.matrix, at.offset, one, at.log_det, alpha)


def normal(at: Standardised, prior: Normal, intercept: bool) -> WeightsPrior:
    """The user's weights have this Normal: whitened, they are N(0, 1)."""
    size, found = len(at.offset), prior.natural.linear.shape[-1]
    if found != size:
        first = " (the intercept is the first)" if intercept else ""
        raise InvalidParameter(f"prior must be a tp.Normal over {size} weights{first}, got one over {found}")
    factor = np.linalg.cholesky(np.asarray(prior.precision))
    offset = factor.T @ (np.asarray(at.offset) - np.asarray(prior.location))
    log_det = float(at.log_det) + np.sum(np.log(np.diagonal(factor)))
    return _prior(factor.T @ np.asarray(at.matrix), offset, np.ones((size, 1)), log_det, 1.0)


def _prior(matrix: Any, offset: Any, members: Any, log_det: Any, known: Any = None) -> WeightsPrior:
    matrix, offset, members, log_det = (as_float(value) for value in (matrix, offset, members, log_det))
    if known is None:
        return WeightsPrior(matrix, offset, members, log_det)
    return WeightsPrior(matrix, offset, members, log_det, as_float(known)[None], parents=())
