"""What a factor analysis says about scores and missing entries, from a posterior or from draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...families import Gamma
from ...numerics.gaussian_latents import GaussianMoments, gaussian_moments
from ...numerics.linalg import outer
from .._model import Means, Posterior, means

if TYPE_CHECKING:
    from .factor_analysis import FactorAnalysis

_MOST = 500  # draws that an average looks at

Moments = tuple[Float[Array, "n d"], Float[Array, "n d"]]  # mean and variance


@eqx.filter_jit
def scores(model: FactorAnalysis, q: Posterior, x: Any) -> GaussianMoments:
    local = model.local(means(q.blocks), x)
    return gaussian_moments(local.linear, local.precision)


def impute(model: FactorAnalysis, q: Any, x: Any) -> Moments:
    """Of every entry given what was seen of its row."""
    if isinstance(q, Posterior):
        return _of_posterior(model, q, x)
    draws, log_weights = q.thinned(_MOST).flat()
    return _of_draws(model, draws, log_weights, x)


@eqx.filter_jit
def _of_posterior(model: FactorAnalysis, q: Posterior, x: Any) -> Moments:
    m = means(q.blocks)
    noise = q.blocks.get("noise")
    if isinstance(noise, Gamma):
        variance = jnp.where(noise.shape > 1.0, noise.rate / jnp.maximum(noise.shape - 1.0, 1e-300), jnp.inf)
    else:
        variance = 1.0 / model._noise(m, x.shape[1]).value
    return _expected(model, m, jnp.broadcast_to(variance, (x.shape[1],)), x)


@eqx.filter_jit
def _of_draws(model: FactorAnalysis, draws: dict[str, Any], log_weights: Float[Array, " s"], x: Any) -> Moments:
    def step(total: Any, part: Any) -> tuple[Any, None]:
        draw, log_weight = part
        m = model.statistics(draw)
        mean, variance = _expected(model, m, 1.0 / model._noise(m, x.shape[1]).value, x)
        share = jnp.exp(log_weight)
        return (total[0] + share * mean, total[1] + share * (variance + jnp.square(mean))), None

    zero = jnp.zeros(x.shape)
    (mean, square), _ = jax.lax.scan(step, (zero, zero), (jax.tree.map(jnp.asarray, draws), log_weights))
    return mean, square - jnp.square(mean)


def _expected(model: FactorAnalysis, m: Means, noise: Float[Array, " d"], x: Any) -> Moments:
    """Mean and variance of every entry given what was seen of its row."""
    k, n = model.n_factors, x.shape[0]
    local = model.local(m, x)
    z = gaussian_moments(local.linear, local.precision)
    first, second = m["loadings"].linear, -2.0 * m["loadings"].precision
    mean = z.mean @ first[:, :k].T + first[:, k][None]
    spread = (
        z.covariance + outer(z.mean, z.mean) if z.covariance.ndim == 3 else z.covariance[None] + outer(z.mean, z.mean)
    )
    d = x.shape[1]
    square = spread.reshape((n, k * k)) @ second[:, :k, :k].reshape((d, k * k)).T
    square = square + 2.0 * z.mean @ second[:, :k, k].T + second[:, k, k][None]
    return mean, jnp.maximum(square - jnp.square(mean), 0.0) + noise[None]
