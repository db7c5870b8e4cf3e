"""The marginal posterior of each parameter: its mean, quantiles, and the spread of the data."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import jax
import numpy as np

from .beta import Beta
from .dirichlet import Dirichlet
from .gamma import Gamma
from .independent import Independent
from .normal_gamma import NormalGamma
from .normal_wishart import NormalWishart


class Marginal(NamedTuple):
    """Posterior means of the parameters of some columns, their quantiles, and the spread of real columns."""

    estimate: np.ndarray  # (k, d) or (k, d, levels)
    quantile: Callable[[float], np.ndarray]  # of a probability
    spread: np.ndarray | None = None


def marginal(family: Any) -> Marginal | None:
    """The marginal posteriors of the parameters of a factor; None for a family without intervals (a point)."""
    return _marginal(jax.tree.map(np.asarray, family))


@singledispatch
def _marginal(family: Any) -> Marginal | None:
    return None


@_marginal.register
def _(family: Independent) -> Marginal | None:
    return _marginal(family.inner)


@_marginal.register
def _(family: NormalGamma) -> Marginal:
    location, count, dof, scatter = (
        np.asarray(v) for v in (family.location, family.pseudo_count, family.dof, family.scatter)
    )
    return Marginal(location, _student(dof, location, np.sqrt(scatter / (dof * count))), np.sqrt(scatter / dof))


@_marginal.register
def _(family: NormalWishart) -> Marginal:
    location, scatter = np.asarray(family.location), np.diagonal(np.asarray(family.scatter), axis1=-2, axis2=-1)
    count, dof = (np.asarray(v)[..., None] for v in (family.pseudo_count, family.dof))
    degrees = dof - location.shape[-1] + 1.0
    return Marginal(location, _student(degrees, location, np.sqrt(scatter / (degrees * count))), np.sqrt(scatter / dof))


@_marginal.register
def _(family: Gamma) -> Marginal:
    from scipy.special import gammaincinv

    shape, rate = np.asarray(family.shape), np.asarray(family.rate)
    return Marginal(shape / rate, lambda p: gammaincinv(shape, p) / rate)


@_marginal.register
def _(family: Beta) -> Marginal:
    return _beta(np.asarray(family.a), np.asarray(family.b))


@_marginal.register
def _(family: Dirichlet) -> Marginal:
    a = np.asarray(family.concentration)
    return _beta(a, a.sum(axis=-1, keepdims=True) - a)


def _student(degrees: np.ndarray, location: np.ndarray, scale: np.ndarray) -> Callable[[float], np.ndarray]:
    from scipy.special import stdtrit

    return lambda p: location + scale * stdtrit(degrees, p)


def _beta(a: np.ndarray, b: np.ndarray) -> Marginal:
    from scipy.special import betaincinv

    return Marginal(a / (a + b), lambda p: betaincinv(a, b, p))
