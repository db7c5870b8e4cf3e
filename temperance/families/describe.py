"""A family in a few readable numbers, for tables: what a component looks like. In NumPy where the family is."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from ._family import Family
from .beta import Beta
from .dirichlet import Dirichlet
from .gamma import Gamma
from .independent import Independent
from .normal import Normal
from .normal_gamma import IsotropicNormalGamma, NormalGamma
from .normal_wishart import NormalWishart
from .point import Point
from .product import Product


@singledispatch
def describe(family: Family) -> dict[str, Any]:
    """Columns with the batch axes of the family; a family without readable parameters has none."""
    return {}


@describe.register
def _(family: NormalWishart) -> dict[str, Any]:
    # The inverse of the mean precision: it exists for every proper member, the mean covariance does not.
    width = np.diagonal(family.scatter, axis1=-2, axis2=-1) / family.dof[..., None]
    return {"mean": family.location, "sd": np.sqrt(width)}


@describe.register(NormalGamma)
@describe.register(IsotropicNormalGamma)
def _(family: NormalGamma | IsotropicNormalGamma) -> dict[str, Any]:
    return {"mean": family.location, "sd": np.sqrt(family.scatter / family.dof)}


@describe.register
def _(family: Normal) -> dict[str, Any]:
    width = np.sqrt(np.diagonal(family.covariance, axis1=-2, axis2=-1))
    return {"mean": family.location, "uncertainty": width}


@describe.register
def _(family: Gamma) -> dict[str, Any]:
    return {"mean": family.shape / family.rate}


@describe.register
def _(family: Beta) -> dict[str, Any]:
    return {"probability": family.a / (family.a + family.b)}


@describe.register
def _(family: Dirichlet) -> dict[str, Any]:
    return {"probabilities": family.concentration / family.concentration.sum(axis=-1, keepdims=True)}


@describe.register
def _(family: Independent) -> dict[str, Any]:
    return describe(family.inner)


@describe.register
def _(family: Point) -> dict[str, Any]:
    mode = family.mode()
    if not hasattr(mode, "_asdict"):
        return {"mode": mode}
    return {name: value for name, value in mode._asdict().items() if value is not None}


@describe.register
def _(family: Product) -> dict[str, Any]:
    return {
        f"{name} {column}": value
        for name, factor in family.factors.items()
        for column, value in describe(factor).items()
    }
