"""One-dimensional integrals of a Gaussian times a log-concave function, by Gauss–Legendre quadrature.

    Z = ∫ N(a | μ, v) exp ℓ(a) da,   with ℓ concave

The integrand has one mode and falls at least as fast as the Gaussian. On each side of the mode the rule
ends where the integrand has fallen by a factor of e³⁶, so that an edge narrower than the Gaussian is resolved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_DEPTH = 36.0  # the fall of the log integrand at both ends
_BISECTIONS = 60
_FARTHEST = 1e290  # largest distance of a mode from the mean


class Tilted(NamedTuple):
    """log Z, and the mean and the variance of a under the integrand."""

    log_z: Float[Array, " n"]
    mean: Float[Array, " n"]
    variance: Float[Array, " n"]


Concave = Callable[[Float[Array, "*m n"]], Float[Array, "*m n"]]  # ℓ of each of n variables, at any number of places


class Nodes(NamedTuple):
    """log Z, the nodes a around the mode, and the share of the integrand at each node."""

    log_z: Float[Array, " n"]
    share: Float[Array, "q n"]
    a: Float[Array, "q n"]
    mode: Float[Array, " n"]


def tilted_moments(log_factor: Concave, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> Tilted:
    """Z and the moments of n independent integrals."""
    log_z, share, a, mode = tilted_nodes(log_factor, mean, variance)
    centre = mode + jnp.sum(share * (a - mode[None]), axis=0)
    return Tilted(log_z, centre, jnp.sum(share * jnp.square(a - centre[None]), axis=0))


def tilted_nodes(log_factor: Concave, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> Nodes:
    """The quadrature of n independent integrals, for any expectation."""
    variance = jnp.maximum(variance, 1e-20)

    def log_integrand(a: Float[Array, "*m n"]) -> Float[Array, "*m n"]:
        centred = a - mean.reshape((1,) * (a.ndim - 1) + (-1,))
        return log_factor(a) - 0.5 * jnp.square(centred) / variance.reshape((1,) * (a.ndim - 1) + (-1,))

    slope = jax.grad(lambda a: jnp.sum(log_integrand(a)))
    # ℓ′ falls, so the mode lies between the mean and a point one step v ℓ′(μ) away from it. Where ℓ is steep, as for a
    # count with the rate e^a, the mode is far closer to the mean than that.
    start = slope(mean)
    side, farthest = jnp.where(start < 0.0, -1.0, 1.0), jnp.minimum(variance * jnp.abs(start), _FARTHEST)
    step = _bisect(lambda step: side * slope(mean + side * step) > 0.0, 1e-9 * jnp.sqrt(variance), farthest)
    mode = mean + side * step
    top = log_integrand(mode)
    reach = jnp.sqrt(2.0 * _DEPTH * variance)
    nodes, weights = _legendre()
    logs, places = [], []
    for sign in (-1.0, 1.0):

        def inside(distance: Array, sign: float = sign) -> Array:
            return log_integrand(mode + sign * distance) > top - _DEPTH

        width = _bisect(inside, 1e-60 * reach, reach)
        a = mode[None] + sign * width[None] * (0.5 * (nodes + 1.0))[:, None]
        places.append(a)
        logs.append(log_integrand(a) - top[None] + jnp.log(width)[None] + np.log(0.5 * weights)[:, None])
    log_terms, a = jnp.concatenate(logs), jnp.concatenate(places)
    log_sum = jax.nn.logsumexp(log_terms, axis=0)
    log_z = top + log_sum - 0.5 * jnp.log(2.0 * jnp.pi * variance)
    return Nodes(log_z, jnp.exp(log_terms - log_sum[None]), a, mode)


def _bisect(left: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The distance at which `left` turns from true to false, to fifteen digits if it is between `low` and `high`.

    The interval is halved on a log scale while its ends are of different orders of magnitude.
    """

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = jnp.where(high > 4.0 * low, jnp.sqrt(low) * jnp.sqrt(high), 0.5 * (low + high))
        is_left = left(middle)
        return jnp.where(is_left, middle, low), jnp.where(is_left, high, middle)

    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (jnp.minimum(low, high), high))
    return 0.5 * (low + high)


@functools.cache  # not on import: eigenvalues wake BLAS's threads, which then wait for more at full speed
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(80)


@functools.cache
def _hermite() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    return nodes, weights / weights.sum()


def gaussian_expectation(
    function: Concave, mean: Float[Array, " n"], variance: Float[Array, " n"]
) -> Float[Array, " n"]:
    """E[function(a)] under N(μ, v), by Gauss–Hermite quadrature."""
    nodes, weights = _hermite()
    a = mean[None] + jnp.sqrt(variance)[None] * nodes[:, None]
    return jnp.asarray(weights) @ function(a)
