"""The parameters of each family as a function of independent standard variates: what a prior transform is made of."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from temperance.families import (
    Beta,
    Dirichlet,
    Gamma,
    Independent,
    IsotropicNormalGamma,
    MatrixNormal,
    Normal,
    NormalGamma,
    NormalWishart,
    Product,
)
from temperance.families.normal_wishart import MeanAndPrecision

Kinds = tuple[jax.Array, jax.Array]  # (…, n): (NaN, NaN) is N(0, 1), (a, NaN) Gamma(a, 1), (a, b) Beta(a, b)
NORMAL = np.nan


def variates(family: Any) -> Kinds:
    """Which variates a draw takes, along the last axis."""
    batch = family.batch_shape
    match family:
        case Independent():
            a, b = variates(family.inner)
            return a.reshape((*batch, -1)), b.reshape((*batch, -1))
        case Product():
            parts = [variates(family.factors[name]) for name in sorted(family.factors)]
            return tuple(jnp.concatenate(each, axis=-1) for each in zip(*parts, strict=True))  # type: ignore[return-value]
        case Dirichlet():  # by breaking a stick
            c = jnp.asarray(family.concentration)
            return c[..., :-1], jnp.cumsum(c[..., ::-1], axis=-1)[..., -2::-1]
        case Beta():
            return jnp.asarray(family.a)[..., None], jnp.asarray(family.b)[..., None]
        case Gamma():
            shape = jnp.asarray(family.shape)[..., None]
            return shape, jnp.full_like(shape, np.nan)
        case NormalGamma() | IsotropicNormalGamma():
            width = 1 if isinstance(family, NormalGamma) else family.location.shape[-1]
            return _gammas(0.5 * jnp.asarray(family.dof)[..., None], width)
        case NormalWishart():
            d = family.location.shape[-1]
            return _gammas(0.5 * (jnp.asarray(family.dof)[..., None] - jnp.arange(d)), d * (d - 1) // 2 + d)
        case Normal() | MatrixNormal():
            size = family.location.size // int(np.prod(batch))
            return _gammas(jnp.zeros((*batch, 0)), size)
    raise TypeError(f"{type(family).__name__} is not made of standard variates here")


def _gammas(shapes: jax.Array, normals: int) -> Kinds:
    a = jnp.concatenate([shapes, jnp.full((*shapes.shape[:-1], normals), NORMAL)], axis=-1)
    return a, jnp.full_like(a, np.nan)


def from_variates(family: Any, z: jax.Array) -> Any:
    """The draw that they make."""
    match family:
        case Independent():
            return from_variates(family.inner, z.reshape((*family.inner.batch_shape, -1)))
        case Product():
            sizes = [variates(family.factors[name])[0].shape[-1] for name in sorted(family.factors)]
            parts = jnp.split(z, np.cumsum(sizes)[:-1], axis=-1)
            names = sorted(family.factors)
            return {name: from_variates(family.factors[name], part) for name, part in zip(names, parts, strict=True)}
        case Dirichlet():
            left = jnp.cumprod(1.0 - z, axis=-1)
            one = jnp.ones((*z.shape[:-1], 1))
            return jnp.concatenate([z, one], axis=-1) * jnp.concatenate([one, left], axis=-1)
        case Beta():
            return z[..., 0]
        case Gamma():
            return z[..., 0] / family.rate
        case NormalGamma():
            precision = 2.0 * z[..., 0] / family.scatter
            return MeanAndPrecision(family.location + z[..., 1] / jnp.sqrt(family.pseudo_count * precision), precision)
        case IsotropicNormalGamma():
            precision = 2.0 * z[..., 0] / family.scatter
            width = jnp.sqrt(family.pseudo_count * precision)[..., None]
            return MeanAndPrecision(family.location + z[..., 1:] / width, precision)
        case NormalWishart():
            return _mean_and_matrix(family, z)
        case Normal():
            return family.location + _whitened(family.precision, z)
        case MatrixNormal():
            k, d = family.location.shape[-2:]
            columns = jnp.swapaxes(z.reshape((*z.shape[:-1], d, k)), -1, -2)
            return family.location + jax.scipy.linalg.solve_triangular(
                jnp.swapaxes(jnp.linalg.cholesky(family.precision), -1, -2), columns, lower=False
            )
    raise TypeError(f"{type(family).__name__} is not made of standard variates here")


def _mean_and_matrix(family: NormalWishart, z: jax.Array) -> MeanAndPrecision:
    """Bartlett's decomposition: Λ = R Rᵀ with R = L⁻ᵀ B and scatter = L Lᵀ; μ = m + R⁻ᵀ ε/√v."""
    d = family.location.shape[-1]
    rows, columns = np.tril_indices(d, -1)
    bartlett = jnp.zeros((*z.shape[:-1], d, d)).at[..., np.arange(d), np.arange(d)].set(jnp.sqrt(2.0 * z[..., :d]))
    bartlett = bartlett.at[..., rows, columns].set(z[..., d : d + len(rows)])
    scale = jnp.swapaxes(jnp.linalg.cholesky(family.scatter), -1, -2)
    root = jax.scipy.linalg.solve_triangular(scale, bartlett, lower=False)
    precision = root @ jnp.swapaxes(root, -1, -2)
    noise = z[..., d + len(rows) :] / jnp.sqrt(family.pseudo_count)[..., None]
    mean = family.location + jnp.linalg.solve(jnp.swapaxes(root, -1, -2), noise[..., None])[..., 0]
    return MeanAndPrecision(mean, precision)


def _whitened(precision: jax.Array, z: jax.Array) -> jax.Array:
    upper = jnp.swapaxes(jnp.linalg.cholesky(precision), -1, -2)
    return jax.scipy.linalg.solve_triangular(upper, z[..., None], lower=False)[..., 0]
