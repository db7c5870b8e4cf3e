"""The second-order correction for factors that meet a Normal q(w) through one number each.

With z_n = (a_n − μ_n)/σ_n under q and h_nl = E[He_l(z_n)]/√l! under the tilted distribution of datum n, Mehler's
formula for two Gaussian numbers of correlation ρ_mn gives (Opper, Paquet & Winther, 2013)

    E_q[ε_m ε_n] = Σ_{l≥3} ρ_mn^l h_ml h_nl,

because the moments of orders one and two agree at a fixed point of EP.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...families import Family
from ...models import Data
from ...models._answers import Sited
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.quadrature import tilted_nodes
from .scalar_sites import ScalarSites

_ORDERS = 24  # of Hermite polynomials


@eqx.filter_jit
def second_order(model: Sited, data: Data, weights: Family, sites: ScalarSites) -> Float[Array, ""]:
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
