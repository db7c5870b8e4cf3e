"""Gaussian likelihoods in which columns that were not seen (NaN) are integrated out exactly.

The missing columns are latents of their own, jointly optimised with the assignment: for each component they
are Gaussian given the seen ones. On the path from prior to posterior a fixed density r stands in for them,
p(x_seen, x_missing | θ)^β r(x_missing)^(1 − β), so that the path is proper at β = 0 and exact at β = 1.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..numerics.latents import integrate_out
from ..numerics.linalg import cholesky, log_det, outer, quadratic_form, symmetrise
from ..numerics.special import log_gamma
from ._family import LOG_2PI, Family, Vector
from ._pair import Pair
from .normal_gamma import IsotropicNormalGamma, IsotropicNormalGammaVector, SphericalGaussian
from .normal_wishart import Gaussian, NormalWishart, NormalWishartVector

Rows = Float[Array, "n d"]


def _split(x: Rows) -> tuple[Rows, Rows]:
    """The data as (1 where seen and 0 where not, values with 0 where not seen)."""
    seen = ~jnp.isnan(x)
    return seen.astype(jnp.float64), jnp.where(seen, x, 0.0)


def _grid(power: Array) -> Array:
    """A power (a scalar, or a column with one value per datum) shaped for arrays of (datum, component, dimension)."""
    return power[..., None] if power.ndim == 2 else power


class _Missing(Pair):
    """The common base of both likelihoods with missing columns."""

    has_latents: ClassVar[bool] = True
    reference: Float[Array, " d"] | None = None  # variances of the stand-in density of missing columns

    def complete(self, x: np.ndarray) -> Self:
        if self.reference is not None:
            return self
        variance = np.nanvar(x, axis=0)
        return type(self)(jnp.asarray(np.where(variance > 0, variance, 1.0)))

    def coordinates(self, x: Rows) -> Rows:
        return _split(x)[1]

    def packed(self, m: Vector) -> Vector:
        return m  # conditioning on seen columns needs whole matrices, not packed ones


class GaussianWithMissing(_Missing, Gaussian):
    """Full covariance, NaN allowed; `reference` is the variance of each column's stand-in, by default the data's."""

    def tempered_log_likelihood(
        self,
        m: NormalWishartVector,
        x: Rows,
        observation: ArrayLike,
        latent: ArrayLike,
        key: Key[Array, ""] | None,
    ) -> Float[Array, "n k"]:
        assert self.reference is not None
        observation, latent = jnp.asarray(observation), jnp.asarray(latent)
        seen, filled = _split(x)
        hidden = (1.0 - seen)[:, None]  # n 1 d
        # E[Λ], k d d. Both triangles, because the message, a derivative in m.second, must be symmetric too.
        precision = -(m.second + jnp.swapaxes(m.second, -1, -2))
        pull = m.first[None] - jnp.einsum("kde,ne->nkd", precision, filled)
        rest = _grid(latent) - _grid(observation)
        both = outer(hidden, hidden)
        weight = _grid(observation)[..., None] if observation.ndim else observation
        diagonal = rest * hidden / self.reference[None, None] + (1.0 - hidden)
        quadratic = weight * both * precision[None] + diagonal[..., None] * jnp.eye(x.shape[-1])[None, None]
        integral = integrate_out(_grid(observation) * hidden * pull, quadratic, key)
        # The columns that are seen stand in the integral as standard Gaussians.
        unused = 0.5 * LOG_2PI * jnp.sum(seen, axis=-1)[:, None]
        stand_in = -0.5 * jnp.sum(hidden * (jnp.log(self.reference) + LOG_2PI)[None, None], axis=-1)
        return observation * self.log_likelihood(m, filled) + integral - unused + (latent - observation) * stand_in

    def log_predictive(self, family: Family, x: Rows, power: ArrayLike = 1.0) -> Float[Array, "n k"]:
        """The density of the seen columns; at power 1 a Student-t with the block of the scatter that belongs to
        them."""
        assert isinstance(family, NormalWishart)
        d = x.shape[-1]
        seen, filled = _split(x)
        both = outer(seen, seen)[:, None] > 0
        # Both triangles, so that the derivative is a symmetric matrix, too.
        scatter = jnp.where(both, symmetrise(family.scatter)[None], jnp.eye(d)[None, None])
        factor = cholesky(scatter)
        centred = seen[:, None] * (filled[:, None] - family.location[None])
        distance, count = quadratic_form(factor, centred), family.pseudo_count[None]
        if isinstance(power, float) and power == 1.0:
            return _student(family.dof[None] + 1.0 - d, count, distance, log_det(factor), seen)
        # The precision of the seen columns by itself is Wishart with fewer degrees of freedom.
        columns = jnp.sum(seen, axis=-1)[:, None]
        dof = family.dof[None] - d + columns
        inside = jnp.arange(d)[None, None] < columns[..., None]
        halves = jnp.where(inside, 0.5 * (dof[..., None] - jnp.arange(d)[None, None]), 1.0)
        grown = jnp.sum(jnp.where(inside, log_gamma(halves + 0.5 * power) - log_gamma(halves), 0.0), axis=-1)
        return grown + _powered(power, 0.5 * (dof + power), count, distance, log_det(factor), columns)


class SphericalWithMissing(_Missing, SphericalGaussian):
    """Spherical covariance, NaN allowed; `reference` is the variance of each column's stand-in, by default the
    data's."""

    def tempered_log_likelihood(
        self,
        m: IsotropicNormalGammaVector,
        x: Rows,
        observation: ArrayLike,
        latent: ArrayLike,
        key: Key[Array, ""] | None,
    ) -> Float[Array, "n k"]:
        assert self.reference is not None
        observation, latent = jnp.asarray(observation), jnp.asarray(latent)
        seen, filled = _split(x)
        hidden = (1.0 - seen)[:, None]
        precision = (-2.0 * m.second)[None, :, None]
        rest = _grid(latent) - _grid(observation)
        # One independent Gaussian a column: 1 × 1 integrals.
        diagonal = _grid(observation) * hidden * precision + rest * hidden / self.reference[None, None] + (1.0 - hidden)
        linear = _grid(observation) * hidden * m.first[None]
        integral = jnp.sum(integrate_out(linear[..., None], diagonal[..., None, None], key), axis=-1)
        unused = 0.5 * LOG_2PI * jnp.sum(seen, axis=-1)[:, None]
        stand_in = -0.5 * jnp.sum(hidden * (jnp.log(self.reference) + LOG_2PI)[None, None], axis=-1)
        return observation * self.log_likelihood(m, filled) + integral - unused + (latent - observation) * stand_in

    def log_predictive(self, family: Family, x: Rows, power: ArrayLike = 1.0) -> Float[Array, "n k"]:
        assert isinstance(family, IsotropicNormalGamma)
        seen, filled = _split(x)
        centred = seen[:, None] * (filled[:, None] - family.location[None])
        distance = jnp.sum(jnp.square(centred), axis=-1) / family.scatter[None]
        width = jnp.sum(seen, axis=-1)[:, None] * jnp.log(family.scatter)[None]
        dof, count = family.dof[None], family.pseudo_count[None]
        if isinstance(power, float) and power == 1.0:
            return _student(dof, count, distance, width, seen)
        columns = jnp.sum(seen, axis=-1)[:, None]
        after = 0.5 * (dof + power * columns)
        grown = log_gamma(after) - log_gamma(jnp.broadcast_to(0.5 * dof, after.shape))
        return grown + _powered(power, after, count, distance, width, columns)


def _powered(
    power: ArrayLike, half_dof: Array, count: Array, distance: Array, log_width: Array, columns: Float[Array, "n 1"]
) -> Float[Array, "n k"]:
    """log E[N(x_seen | μ, Λ)^power] without its gamma functions; `half_dof` is dof/2 of the precision given the
    datum."""
    power = jnp.asarray(power)
    return (
        -half_dof * jnp.log1p(distance * count * power / (count + power))
        - 0.5 * columns * (power * jnp.log(jnp.pi) + jnp.log1p(power / count))
        - 0.5 * power * log_width
    )


def _student(dof: Any, count: Any, distance: Array, log_width: Array, seen: Rows) -> Float[Array, "n k"]:
    """A Student-t over the seen columns; `distance` and `log_width` are those of the scatter."""
    d = jnp.sum(seen, axis=-1)[:, None]
    return (
        log_gamma(0.5 * (dof + d))
        - log_gamma(jnp.broadcast_to(0.5 * dof, distance.shape))
        - 0.5 * d * (jnp.log(jnp.pi) + jnp.log1p(1.0 / count))
        - 0.5 * log_width
        - 0.5 * (dof + d) * jnp.log1p(distance * count / (count + 1.0))
    )
