"""Corrections for factors that meet a Normal q(w) through one number each: of second order, and of all orders together
by quadrature where there are one or two weights.

With z_n = (a_n − μ_n)/σ_n under q and h_nl = E[He_l(z_n)]/√l! under the tilted distribution of datum n, Mehler's
formula for two Gaussian numbers of correlation ρ_mn gives (Opper, Paquet & Winther, 2013)

    E_q[ε_m ε_n] = Σ_{l≥3} ρ_mn^l h_ml h_nl,

because the moments of orders one and two agree at a fixed point of EP.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...families import Family
from ...models import Data
from ...models._answers import Sited
from ...numerics.linalg import cholesky, explicit_inverse, log_det
from ...numerics.quadrature import tilted_nodes
from ...numerics.special import LOG_2PI

_ORDERS = 24  # of Hermite polynomials
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(24)
_WIDER = 1.3  # standard deviations of the rule to one of q
_MOST_ROWS = 2**12  # with more, what EP itself leaves is small


def all_orders_known(alpha: float, model: Sited, blocks: dict[str, Family], rows: int) -> bool:
    """Whether `all_orders` gives the log evidence."""
    few = blocks[model.sited].natural.linear.shape[-1] <= 2 and rows <= _MOST_ROWS
    return few and alpha == 1.0 and set(blocks) == {model.sited}


def all_orders(model: Sited, data: Data, weights: Family) -> Float[Array, ""]:
    """ln ∫ p(w) Π_n p(y_n | φ_n · w) dw, for one or two weights, by Gauss–Hermite rules on the axes of q."""
    size = weights.natural.linear.shape[-1]
    z = np.stack([axis.ravel() for axis in np.meshgrid(*[_NODES] * size)], axis=1)
    log_share = sum(np.log(axis.ravel() / _SHARES.sum()) for axis in np.meshgrid(*[_SHARES] * size))
    factor = cholesky(weights.natural.precision)
    w = weights.mode()[None] + _WIDER * jax.scipy.linalg.solve_triangular(factor.T, z.T).T
    log_q = 0.5 * (log_det(factor) - jnp.sum(jnp.square(z), axis=1)) - size * (0.5 * LOG_2PI + np.log(_WIDER))
    x, p = model.sites(data.values), model.prior[model.sited]
    natural, normaliser = (
        (p.natural, p.log_normaliser()) if isinstance(p, Family) else (p.natural({}), p.log_normaliser({}))
    )
    log_prior = jax.vmap(lambda w: natural.dot(weights.statistics(w)) - normaliser)(w)
    each = model.log_factor(w @ x.features.T + x.offset[None], x.target)
    log_likelihood = jnp.sum(jnp.where(data.weights > 0.0, each, 0.0), axis=1)
    return jax.nn.logsumexp(log_share + log_prior + log_likelihood - log_q)


@eqx.filter_jit
def second_order(model: Sited, data: Data, weights: Family, sites: Any) -> Float[Array, ""]:
    """Σ_{m<n} E_q[ε_m ε_n]."""
    x = model.sites(data.values)
    along = x.features @ explicit_inverse(cholesky(weights.natural.precision))
    variance = jnp.sum(along * x.features, axis=1)
    live = (data.weights > 0.0) & (variance > 0.0)
    variance = jnp.where(live, variance, 1.0)
    centre, deviation = x.features @ weights.mode(), jnp.sqrt(variance)
    width = 1.0 / jnp.where(live, 1.0 / variance - sites.precision, 1.0)
    mean = width * (centre / variance - sites.linear)
    nodes = tilted_nodes(lambda a: model.log_factor(a, x.target), mean + x.offset, width)
    moments = _hermite_moments(nodes.share, (nodes.a - (centre + x.offset)[None]) / deviation[None])
    moments = jnp.where(live[None], moments, 0.0)

    def row(index: Array) -> Float[Array, ""]:
        correlation = (along @ x.features[index]) / (deviation * deviation[index])
        correlation = jnp.where(jnp.arange(live.shape[0]) < index, jnp.clip(correlation, -1.0, 1.0), 0.0)
        powers = correlation[None] ** jnp.arange(_ORDERS + 1)[3:, None]
        return jnp.sum(powers * moments[3:] * moments[3:, index][:, None])

    return jnp.sum(jax.lax.map(row, jnp.arange(live.shape[0]), batch_size=64))


def _hermite_moments(share: Float[Array, "q n"], z: Float[Array, "q n"]) -> Float[Array, "l n"]:
    """E[He_l(z)]/√l! for l = 0, 1, …"""

    def step(pair: tuple[Array, Array], order: Array) -> tuple[tuple[Array, Array], Array]:
        here, before = pair
        after = (z * here - jnp.sqrt(order) * before) / jnp.sqrt(order + 1.0)
        return (after, here), jnp.sum(share * here, axis=0)

    start = (jnp.ones_like(z), jnp.zeros_like(z))
    return jax.lax.scan(step, start, jnp.arange(_ORDERS + 1.0))[1]
