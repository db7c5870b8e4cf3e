"""Move a family of locations: models work on centred data, users see their own coordinates.

Quadratic statistics of data far from the origin lose digits (at mean/sd = 10⁸, all of them), so a model
subtracts a shift from the data and from its prior, and adds it back to what it reports.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..numerics.linalg import outer
from ._family import Family
from .independent import Independent, IndependentVector
from .normal import Normal, NormalVector
from .normal_gamma import (
    IsotropicNormalGamma,
    IsotropicNormalGammaVector,
    NormalGamma,
    NormalGammaVector,
)
from .normal_wishart import BeforeRounding, MeanAndPrecision, NormalWishart, NormalWishartVector
from .point import Point
from .product import Product, ProductVector

REAL = "real"  # the factor of a product whose locations are moved; the first columns are its own
Shift = Float[Array, " d"]


def location_width(family: Family) -> int | None:
    """The number of columns whose location the family is over; None where there is no location."""
    if isinstance(family, Point):
        return location_width(family.inner)
    if isinstance(family, Product):
        return location_width(family.factors[REAL]) if REAL in family.factors else None
    if isinstance(family, Independent):
        return family.inner.natural.batch_shape[-1] if isinstance(family.inner, NormalGamma) else None
    if isinstance(family, NormalWishart | IsotropicNormalGamma):
        return family.natural.first.shape[-1]
    return family.natural.linear.shape[-1] if isinstance(family, Normal) else None


def translate(family: Family, shift: Shift) -> Family:
    """The family of θ + shift when `family` is that of θ."""
    moved: Any = shift
    if isinstance(jax.tree.leaves(family.natural)[0], np.ndarray):  # then nothing is compiled
        moved = np.asarray(shift)
    return family.with_natural(_translate(family.natural, moved))


def translate_draw(draw: Any, shift: Shift) -> Any:
    """A draw with its location moved."""
    if isinstance(draw, MeanAndPrecision):
        step = _like(shift, draw.mean)
        before = None if draw.before is None else _moved(draw.before, draw.precision, step)
        return draw._replace(mean=draw.mean + step, before=before)
    if isinstance(draw, dict):
        width = draw[REAL].mean.shape[-1]
        return draw | {REAL: translate_draw(draw[REAL], shift[:width])}
    return draw + _like(shift, draw)


def _moved(before: BeforeRounding, precision: Array, step: Array) -> BeforeRounding:
    added = (precision @ step[..., None])[..., 0]
    square = before.square + jnp.sum(step * (2.0 * before.linear + added), axis=-1)
    return BeforeRounding(before.linear + added, square, before.log_det)


def _like(shift: Shift, target: Array) -> Array:
    return shift.reshape((1,) * (target.ndim - 1) + (-1,))


@singledispatch
def _translate(natural: Any, shift: Shift) -> Any:
    raise TypeError(f"{type(natural).__name__} has no location to move")


@_translate.register
def _(natural: NormalWishartVector, shift: Shift) -> NormalWishartVector:
    count = natural.count[..., None]
    step = count * _like(shift, natural.first)
    moved = natural.first + step
    # S + v m mᵀ by way of the scatter: subtract the term of the old mean, add that of the new one.
    scatter = natural.second - outer(natural.first, natural.first) / count[..., None]
    return NormalWishartVector(moved, natural.count, scatter + outer(moved, moved) / count[..., None], natural.dof)


@_translate.register
def _(natural: NormalGammaVector, shift: Shift) -> NormalGammaVector:
    moved = natural.first + natural.count * _like(shift, natural.first)
    scatter = natural.second - natural.first**2 / natural.count
    return NormalGammaVector(moved, natural.count, scatter + moved**2 / natural.count, natural.dof)


@_translate.register
def _(natural: IsotropicNormalGammaVector, shift: Shift) -> IsotropicNormalGammaVector:
    moved = natural.first + natural.count[..., None] * _like(shift, natural.first)
    scatter = natural.second - (natural.first**2).sum(axis=-1) / natural.count
    second = scatter + (moved**2).sum(axis=-1) / natural.count
    return IsotropicNormalGammaVector(moved, natural.count, second, natural.dof)


@_translate.register
def _(natural: NormalVector, shift: Shift) -> NormalVector:
    step = (natural.precision @ _like(shift, natural.linear)[..., None])[..., 0]
    return NormalVector(natural.linear + step, natural.precision)


@_translate.register
def _(natural: IndependentVector, shift: Shift) -> IndependentVector:
    return IndependentVector(_translate(natural.inner, shift))


@_translate.register
def _(natural: ProductVector, shift: Shift) -> ProductVector:
    moved = natural.factors[REAL]
    width = (moved.inner if isinstance(moved, IndependentVector) else moved).first.shape[-1]
    return ProductVector(natural.factors | {REAL: _translate(moved, shift[:width])})
