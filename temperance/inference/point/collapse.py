"""Degenerate point estimates: a Gaussian collapsed on a few data, a probability driven to zero."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ...families import (
    BetaVector,
    DirichletVector,
    GammaVector,
    IndependentVector,
    IsotropicNormalGammaVector,
    MatrixNormalWishartVector,
    NormalGammaVector,
    NormalWishartVector,
    ProductVector,
)
from ...families._family import Family
from ...numerics.linalg import cholesky, outer, solve

# The scatter is a difference of second moments: below this share of them all its digits are rounding error.
_TRUSTED = 1e-12


def collapsed(block: Family) -> Bool[Array, "*b"]:
    """Which members of the block have no finite mode, or a mode that depends on rounding error."""
    return ~block.is_proper() | _singular(block.natural)


def at_edge(block: Family) -> Bool[Array, ""]:
    """Whether a probability or rate is at the smallest number, and its density still increases towards zero."""
    lowest = np.log(np.finfo(np.float64).tiny) + 1.0
    pairs = zip(_logarithms(block.natural), _logarithms(block.mean()), strict=True)
    at = [jnp.any((eta < 0) & (log < lowest)) for eta, log in pairs]
    return jnp.any(jnp.stack(at)) if at else jnp.asarray(False)


def _logarithms(vector: Any) -> list[Array]:
    """The statistics that are logarithms of parameters that can approach zero."""
    if isinstance(vector, IndependentVector):
        return _logarithms(vector.inner)
    if isinstance(vector, ProductVector):
        return [log for factor in vector.factors.values() for log in _logarithms(factor)]
    if isinstance(vector, BetaVector):
        return [vector.log, vector.log_complement]
    return [vector.log] if isinstance(vector, DirichletVector | GammaVector) else []


@singledispatch
def _singular(natural: Any) -> Bool[Array, "*b"]:
    return jnp.zeros(natural.batch_shape, dtype=bool)


@_singular.register
def _(natural: NormalWishartVector) -> Bool[Array, "*b"]:
    scatter = natural.second - outer(natural.first, natural.first) / natural.count[..., None, None]
    return _flat(scatter, natural.second)


@_singular.register
def _(natural: MatrixNormalWishartVector) -> Bool[Array, "*b"]:
    explained = natural.cross @ solve(cholesky(natural.inputs), jnp.swapaxes(natural.cross, -1, -2))
    return _flat(natural.outputs - explained, natural.outputs)


@_singular.register
def _(natural: NormalGammaVector) -> Bool[Array, "*b"]:
    scatter = natural.second - jnp.square(natural.first) / natural.count
    return ~(scatter > _TRUSTED * natural.second)  # written so that a NaN counts


@_singular.register
def _(natural: IsotropicNormalGammaVector) -> Bool[Array, "*b"]:
    scatter = natural.second - jnp.sum(jnp.square(natural.first), axis=-1) / natural.count
    return ~(scatter > _TRUSTED * natural.second)


@_singular.register
def _(natural: IndependentVector) -> Bool[Array, "*b"]:
    return jnp.any(_singular(natural.inner), axis=-1)


@_singular.register
def _(natural: ProductVector) -> Bool[Array, "*b"]:
    return jnp.any(jnp.stack([_singular(factor) for factor in natural.factors.values()]), axis=0)


def _flat(scatter: Float[Array, "*b d d"], second: Float[Array, "*b d d"]) -> Bool[Array, "*b"]:
    """Whether the scatter has a direction without extent, in units of the second moments."""
    unit = jnp.sqrt(jnp.diagonal(second, axis1=-2, axis2=-1))
    pivots = jnp.square(jnp.diagonal(cholesky(scatter / outer(unit, unit)), axis1=-2, axis2=-1))
    return ~jnp.all(pivots > _TRUSTED, axis=-1)
