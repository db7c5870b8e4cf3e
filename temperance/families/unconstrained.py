"""Unconstrained coordinates u of a family's θ, in which a Gaussian makes sense.

The charts are chosen so that the log Jacobian is linear in the family's statistics,

    log |∂θ/∂u| = ⟨J, t(θ)⟩ + c,

so that a density over u belongs to the same family, with natural parameter η + J: its mode is a closed form,
and EM in these coordinates is EM with another prior. A proper density has a mode inside, whatever its shape.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..errors import UnsupportedMethod
from ..numerics.linalg import cholesky
from ._family import Family
from .beta import Beta
from .dirichlet import Dirichlet
from .gamma import Gamma
from .independent import Independent, IndependentVector
from .matrix_normal import MatrixNormal, MatrixNormalGamma, WeightsAndScale
from .matrix_normal_wishart import MatrixNormalWishart, WeightsAndPrecision
from .normal import Normal
from .normal_gamma import IsotropicNormalGamma, IsotropicNormalGammaVector, NormalGamma
from .normal_wishart import MeanAndPrecision, NormalWishart, from_root
from .point import Point
from .product import Product, ProductVector
from .wishart import Wishart

Line = Float[Array, "*b u"]


class Jacobian(NamedTuple):
    """log |∂θ/∂u| = ⟨vector, t(θ)⟩ + constant."""

    vector: Any
    constant: Float[Array, "*b"]


class Chart(ABC):
    """A one-to-one map between the θ of a family (of these sizes) and rows of real numbers."""

    def __init__(self, family: Any):
        self.family = family

    @abstractmethod
    def to_line(self, draw: Any) -> Line: ...

    @abstractmethod
    def from_line(self, u: Line) -> Any: ...

    @abstractmethod
    def jacobian(self) -> Jacobian: ...

    def _jacobian(self, constant: float = 0.0, **fields: float) -> Jacobian:
        """A `Jacobian` whose vector is zero except in the given fields."""
        natural = self.family.natural
        shapes = {field.name: getattr(natural, field.name).shape for field in dataclasses.fields(natural)}
        vector = {name: jnp.full(shape, fields.get(name, 0.0)) for name, shape in shapes.items()}
        return Jacobian(type(natural)(**vector), jnp.full(natural.batch_shape, constant))


class _Simplex(Chart):
    """π = softmax(u, 0): the log-ratios to the last. |∂π/∂u| = Π π_k."""

    def to_line(self, draw: Float[Array, "*b k"]) -> Line:
        log = jnp.log(draw)
        return log[..., :-1] - log[..., -1:]

    def from_line(self, u: Line) -> Float[Array, "*b k"]:
        return jax.nn.softmax(jnp.concatenate([u, jnp.zeros((*u.shape[:-1], 1))], axis=-1), axis=-1)

    def jacobian(self) -> Jacobian:
        return self._jacobian(log=1.0)


class _Interval(Chart):
    """p = 1/(1 + exp(−u)). |∂p/∂u| = p (1 − p)."""

    def to_line(self, draw: Float[Array, "*b"]) -> Line:
        return (jnp.log(draw) - jnp.log1p(-draw))[..., None]

    def from_line(self, u: Line) -> Float[Array, "*b"]:
        return jax.nn.sigmoid(u[..., 0])

    def jacobian(self) -> Jacobian:
        return self._jacobian(log=1.0, log_complement=1.0)


class _Positive(Chart):
    """λ = exp(u). |∂λ/∂u| = λ."""

    def to_line(self, draw: Float[Array, "*b"]) -> Line:
        return jnp.log(draw)[..., None]

    def from_line(self, u: Line) -> Float[Array, "*b"]:
        return jnp.exp(u[..., 0])

    def jacobian(self) -> Jacobian:
        return self._jacobian(log=1.0)


class _Identity(Chart):
    def to_line(self, draw: Float[Array, "*b d"]) -> Line:
        return draw

    def from_line(self, u: Line) -> Float[Array, "*b d"]:
        return u

    def jacobian(self) -> Jacobian:
        return self._jacobian()


class _PositiveDefinite(Chart):
    """Λ = D V Vᵀ D with D = diag(exp a) and V unit lower triangular; u = (a, the entries of V below).

    A log-Cholesky map with rows in units of their diagonal: then |∂Λ/∂u| = 2ᵈ |Λ|^((d+1)/2), a function of
    the determinant alone, where the usual one has a different power for every diagonal.
    """

    def to_line(self, draw: Float[Array, "*b d d"]) -> Line:
        return _factor_line(draw)

    def from_line(self, u: Line) -> Float[Array, "*b d d"]:
        return _matrix(u, self.family.natural.scatter.shape[-1])

    def jacobian(self) -> Jacobian:
        d = self.family.natural.scatter.shape[-1]
        return self._jacobian(d * math.log(2.0), dof=d + 1.0)


def _factor_line(precision: Float[Array, "*b d d"]) -> Line:
    factor = cholesky(precision)
    diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
    rows, columns = np.tril_indices(factor.shape[-1], -1)
    return jnp.concatenate([jnp.log(diagonal), (factor / diagonal[..., None])[..., rows, columns]], axis=-1)


def _matrix(u: Line, d: int) -> Float[Array, "*b d d"]:
    factor = _factor(u, d)
    return factor @ jnp.swapaxes(factor, -1, -2)


def _factor(u: Line, d: int) -> Float[Array, "*b d d"]:
    rows, columns = np.tril_indices(d, -1)
    unit = jnp.broadcast_to(jnp.eye(d), (*u.shape[:-1], d, d)).at[..., rows, columns].set(u[..., d:])
    return jnp.exp(u[..., :d])[..., None] * unit


class _MeanAndScale(Chart):
    """(μ, λ) → (μ, log λ), one λ for a scalar or for a whole vector μ."""

    def to_line(self, draw: MeanAndPrecision) -> Line:
        mean = draw.mean if self._vector else draw.mean[..., None]
        return jnp.concatenate([mean, jnp.log(draw.precision)[..., None]], axis=-1)

    def from_line(self, u: Line) -> MeanAndPrecision:
        return MeanAndPrecision(u[..., :-1] if self._vector else u[..., 0], jnp.exp(u[..., -1]))

    def jacobian(self) -> Jacobian:
        # The statistic is ½ log λ.
        return self._jacobian(dof=2.0)

    @property
    def _vector(self) -> bool:
        return isinstance(self.family.natural, IsotropicNormalGammaVector)


class _MeanAndMatrix(Chart):
    """(μ, Λ) → (μ, the coordinates of Λ)."""

    def to_line(self, draw: MeanAndPrecision) -> Line:
        return jnp.concatenate([draw.mean, _factor_line(draw.precision)], axis=-1)

    def from_line(self, u: Line) -> MeanAndPrecision:
        d = self.family.natural.first.shape[-1]
        mean, factor = u[..., :d], _factor(u[..., d:], d)
        white = (jnp.swapaxes(factor, -1, -2) @ mean[..., None])[..., 0]
        return from_root(mean, white, factor, 2.0 * jnp.sum(u[..., d : 2 * d], axis=-1))

    def jacobian(self) -> Jacobian:
        d = self.family.natural.first.shape[-1]
        return self._jacobian(d * math.log(2.0), dof=d + 1.0)


class _WeightsAndMatrix(Chart):
    """(W, Λ) → (the entries of W, the coordinates of Λ)."""

    def to_line(self, draw: WeightsAndPrecision) -> Line:
        flat = draw.weights.reshape((*draw.weights.shape[:-2], -1))
        return jnp.concatenate([flat, _factor_line(draw.precision)], axis=-1)

    def from_line(self, u: Line) -> WeightsAndPrecision:
        d, p = self.family.natural.cross.shape[-2:]
        return WeightsAndPrecision(u[..., : d * p].reshape((*u.shape[:-1], d, p)), _matrix(u[..., d * p :], d))

    def jacobian(self) -> Jacobian:
        d = self.family.natural.outputs.shape[-1]
        return self._jacobian(d * math.log(2.0), dof=d + 1.0)


class _Weights(Chart):
    """The entries of a matrix W, and log λ where there is one precision λ for all columns."""

    def to_line(self, draw: Any) -> Line:
        weights = draw.weights if self._scaled else draw
        flat = weights.reshape((*weights.shape[:-2], -1))
        return jnp.concatenate([flat, jnp.log(draw.precision)[..., None]], axis=-1) if self._scaled else flat

    def from_line(self, u: Line) -> Any:
        k, d = self.family.natural.cross.shape[-2:]
        weights = u[..., : k * d].reshape((*u.shape[:-1], k, d))
        return WeightsAndScale(weights, jnp.exp(u[..., -1])) if self._scaled else weights

    def jacobian(self) -> Jacobian:
        # The statistic is ½ log λ.
        return self._jacobian(dof=2.0) if self._scaled else self._jacobian()

    @property
    def _scaled(self) -> bool:
        return isinstance(self.family, MatrixNormalGamma)


class _Columns(Chart):
    """Independent columns, with their coordinates one after another."""

    def to_line(self, draw: Any) -> Line:
        u = chart(self.family.inner).to_line(draw)
        return u.reshape((*u.shape[:-2], -1))

    def from_line(self, u: Line) -> Any:
        columns = self.family.inner.batch_shape[-1]
        return chart(self.family.inner).from_line(u.reshape((*u.shape[:-1], columns, -1)))

    def jacobian(self) -> Jacobian:
        inner = chart(self.family.inner).jacobian()
        return Jacobian(IndependentVector(inner.vector), jnp.sum(inner.constant, axis=-1))


class _Factors(Chart):
    """Different families, with their coordinates one after another in the order of their names."""

    def to_line(self, draw: dict[str, Any]) -> Line:
        charts = self._charts()
        return jnp.concatenate([charts[name].to_line(draw[name]) for name in charts], axis=-1)

    def from_line(self, u: Line) -> dict[str, Any]:
        draw, first = {}, 0
        for name, inner in self._charts().items():
            last = first + dimension(self.family.factors[name])
            draw[name] = inner.from_line(u[..., first:last])
            first = last
        return draw

    def jacobian(self) -> Jacobian:
        inner = {name: each.jacobian() for name, each in self._charts().items()}
        constant = sum((each.constant for each in inner.values()), start=jnp.zeros(self.family.batch_shape))
        return Jacobian(ProductVector({name: each.vector for name, each in inner.items()}), constant)

    def _charts(self) -> dict[str, Chart]:
        return {name: chart(self.family.factors[name]) for name in sorted(self.family.factors)}


_CHARTS: dict[type, type[Chart]] = {
    Dirichlet: _Simplex,
    Beta: _Interval,
    Gamma: _Positive,
    Normal: _Identity,
    Wishart: _PositiveDefinite,
    NormalGamma: _MeanAndScale,
    IsotropicNormalGamma: _MeanAndScale,
    NormalWishart: _MeanAndMatrix,
    MatrixNormal: _Weights,
    MatrixNormalGamma: _Weights,
    MatrixNormalWishart: _WeightsAndMatrix,
    Independent: _Columns,
    Product: _Factors,
}


def chart(family: Family) -> Chart:
    """The coordinates of this family."""
    if isinstance(family, Point):
        return chart(family.inner)
    if type(family) not in _CHARTS:
        raise UnsupportedMethod(f"{type(family).__name__} has no unconstrained coordinates; use tp.VB or tp.Gibbs")
    return _CHARTS[type(family)](family)


def dimension(family: Family) -> int:
    """The number of coordinates of one member."""
    return jax.eval_shape(lambda: chart(family).to_line(family.mode())).shape[-1]
