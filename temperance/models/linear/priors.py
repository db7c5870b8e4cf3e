"""Priors of linear Gaussian models: of the weights of a regression, of loadings, and checks of what users give.

weights     u = matrix · z + offset,   u_i | α ~ N(0, 1/α_g(i))
loadings    w_dk | α ~ N(0, s_d²/α_k)
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...data.features import Standardised
from ...errors import InvalidParameter
from ...families import Gamma, GammaVector, Normal, NormalVector
from ...families._family import as_float
from ...families._parameters import require_finite_positive
from ...numerics.place import on_device
from ...numerics.special import LOG_2PI
from .._model import Conditional, Means


class WeightsPrior(Conditional):
    """p(z | α): the entries of u = `matrix` · z + `offset` are N(0, 1/α_g), each with the α of its group.

    Known precisions have no parent. For them too the log normaliser is this closed form, not a factorisation:
    in the model's coordinates a prior over weights of very different sizes (raw powers of x) is numerically
    singular.
    """

    matrix: Float[Array, "p p"]
    offset: Float[Array, " p"]
    members: Float[Array, "p g"]  # one-hot rows: the group of each weight
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


class LoadingsPrior(Conditional):
    """p(w_d | α): w_dk ~ N(0, s_d²/α_k), one precision for each factor; the last entries, which are not loadings (the
    column's mean), have known precisions κ/s_d²."""

    scale: Float[Array, " d"]
    others: Float[Array, " r"]  # κ
    parents: tuple[str, ...] = eqx.field(static=True, default=("relevance",), kw_only=True)

    def natural(self, m: Means) -> NormalVector:
        return _natural(self.scale, jnp.append(m["relevance"].value, self.others))

    def log_normaliser(self, m: Means) -> Float[Array, " d"]:
        logs = jnp.append(m["relevance"].log, jnp.log(self.others))
        return 0.5 * (len(logs) * (LOG_2PI + 2.0 * jnp.log(self.scale)) - jnp.sum(logs))

    def family(self, natural: Any) -> Normal:
        return Normal.from_natural(natural)


def known_loadings_prior(
    scale: Float[Array, " d"], relevance: Float[Array, " k"], others: Float[Array, " r"]
) -> Normal:
    """The prior of the loadings where α is known."""
    return Normal.from_natural(_natural(scale, jnp.append(relevance, others)))


def _natural(scale: Float[Array, " d"], precision: Float[Array, " k"]) -> NormalVector:
    each = precision[None] / jnp.square(scale)[:, None]
    return NormalVector(jnp.zeros_like(each), each[:, :, None] * np.eye(precision.shape[0])[None])


# ---- what users give --------------------------------------------------------------------------------------


def finite(name: str, value: Any) -> Array:
    """A finite scalar or vector, or an error that names the argument."""
    try:
        array = as_float(value)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} must be a number or a vector of them, got {value!r}") from None
    if array.ndim > 1 or not np.isfinite(np.asarray(array)).all():
        raise InvalidParameter(f"{name} must be a finite number or a vector of them, got {value!r}")
    return array


def positive(name: str, value: Any) -> Array:
    array = finite(name, value)
    require_finite_positive(**{name: array})
    return array


def gamma_or_positive(name: str, value: Any) -> Gamma | Array:
    """A prior over a precision, or a known number."""
    return value if isinstance(value, Gamma) else positive(name, value)


def each(name: str, value: Array, size: int) -> Array:
    """A scalar or vector broadcast to one value per column, state or factor."""
    if value.shape not in ((), (size,)):
        raise InvalidParameter(f"{name} must be one number or {size} of them, got shape {value.shape}")
    return on_device(np.broadcast_to(np.asarray(value), (size,)))


def stack(name: str, family: Gamma, size: int) -> Gamma:
    """A Gamma prior broadcast to one per column, state or factor."""
    if family.batch_shape not in ((), (size,)):
        raise InvalidParameter(f"{name} must be one Gamma or {size} of them, got {family.batch_shape}")
    stacked = jax.tree.map(lambda leaf: on_device(np.broadcast_to(np.asarray(leaf), (size,))), family.natural)
    return family.with_natural(stacked)
