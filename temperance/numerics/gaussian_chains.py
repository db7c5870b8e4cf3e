"""Chains of Gaussian latents summed out: the Kalman smoother in its natural form, and its sampler.

    log ∫ exp{Σ_t h_tᵀz_t − ½ z_tᵀJ_t z_t + Σ_t z_tᵀ G z_{t−1}} dz

is the log normaliser of a Gaussian whose precision is block-tridiagonal. Eliminating one latent after the other gives
the value; going back gives the moments, which are its derivative, (E[z_t], −½ E[z_t z_tᵀ], Σ_t E[z_t z_{t−1}ᵀ]), or
with a key one draw, whose statistics then are. This form holds for expected parameters too, where E[AᵀA] exceeds
E[A]ᵀE[A] and no linear dynamics gives the same potentials.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from .linalg import (
    cholesky,
    explicit_inverse,
    log_det,
    outer,
    solve,
    solve_vector,
    symmetrise,
    transpose,
    transposed_solve_vector,
)
from .special import LOG_2PI


class ChainMoments(NamedTuple):
    """The mean and covariance of each z_t, and Cov(z_t, z_{t−1}) (zero where there is no link)."""

    mean: Float[Array, "t k"]
    covariance: Float[Array, "t k k"]
    lagged: Float[Array, "t k k"]


class Eliminated(NamedTuple):
    """z_t given z_{t+1} is Gaussian with precision L_t L_tᵀ and linear term r_t + (link G)ᵀ z_{t+1}."""

    value: Float[Array, ""]
    factors: Float[Array, "t k k"]
    linear: Float[Array, "t k"]
    gains: Float[Array, "t k k"]  # (L Lᵀ)⁻¹ (link G)ᵀ of the latent before


def chain_integral(
    linear: Float[Array, "t k"],
    precision: Float[Array, "t k k"],
    coupling: Float[Array, "k k"],
    links: Float[Array, " t"],
    key: Key[Array, ""] | None = None,
) -> Float[Array, ""]:
    """The integral above; `links` is 1 where z_t hangs on z_{t−1} and 0 where it does not (the first is not used)."""
    if key is None:
        return _integral(linear, precision, coupling, links)
    done = _eliminate(linear, precision, coupling, links)
    z = stop_gradient(_draw(key, done))
    before = jnp.concatenate([jnp.zeros_like(z[:1]), z[:-1]])
    exponent = jnp.sum(linear * z) - 0.5 * jnp.sum(precision * outer(z, z))
    exponent = exponent + jnp.sum((links[:, None] * z).T @ before * coupling)
    return stop_gradient(done.value) + (exponent - stop_gradient(exponent))


def chain_moments(
    linear: Float[Array, "t k"],
    precision: Float[Array, "t k k"],
    coupling: Float[Array, "k k"],
    links: Float[Array, " t"],
) -> ChainMoments:
    return _moments(_eliminate(linear, precision, coupling, links))


def forward_potentials(
    linear: Float[Array, "t k"],
    precision: Float[Array, "t k k"],
    coupling: Float[Array, "k k"],
    links: Float[Array, " t"],
) -> tuple[Float[Array, "t k"], Float[Array, "t k k"]]:
    """(h, J) of each z_t with all latents before it integrated out, and none after it taken into account."""
    done = _eliminate(linear, precision, coupling, links)
    return done.linear, symmetrise(done.factors @ transpose(done.factors))


def draw_chain(
    key: Key[Array, ""],
    linear: Float[Array, "t k"],
    precision: Float[Array, "t k k"],
    coupling: Float[Array, "k k"],
    links: Float[Array, " t"],
) -> Float[Array, "t k"]:
    """One draw of the whole chain: forwards to eliminate, backwards to sample."""
    return _draw(key, _eliminate(linear, precision, coupling, links))


@jax.custom_jvp
def _integral(linear: Array, precision: Array, coupling: Array, links: Array) -> Float[Array, ""]:
    return _eliminate(linear, precision, coupling, links).value


@_integral.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    linear, precision, coupling, links = primals
    linear_dot, precision_dot, coupling_dot, _ = tangents  # links are a mask
    done = _eliminate(linear, precision, coupling, links)
    m = _moments(done)
    pairs = jnp.sum(m.lagged[1:], axis=0) + (links[1:, None] * m.mean[1:]).T @ m.mean[:-1]
    second = m.covariance + outer(m.mean, m.mean)
    dot = jnp.sum(m.mean * linear_dot) - 0.5 * jnp.sum(second * precision_dot) + jnp.sum(pairs * coupling_dot)
    return done.value, dot


def _eliminate(linear: Array, precision: Array, coupling: Array, links: Array) -> Eliminated:
    k = linear.shape[-1]

    def step(before: tuple[Array, Array], here: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Eliminated]:
        factor, r = before
        h, j, link = here
        across = link * coupling
        gain = solve(factor, across.T)
        factor = cholesky(symmetrise(j - across @ gain))
        r = h + r @ gain
        value = 0.5 * (jnp.sum(r * solve_vector(factor, r)) - log_det(factor) + k * LOG_2PI)
        return (factor, r), Eliminated(value, factor, r, gain)

    none = links.at[0].set(0.0)
    _, done = jax.lax.scan(step, (jnp.eye(k), jnp.zeros(k)), (linear, precision, none))
    return done._replace(value=jnp.sum(done.value))


def _moments(done: Eliminated) -> ChainMoments:
    own = jax.vmap(explicit_inverse)(done.factors)
    centre = jax.vmap(solve_vector)(done.factors, done.linear)

    def step(after: tuple[Array, Array], here: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], ChainMoments]:
        mean, covariance = after
        own, centre, gain = here
        lagged = covariance @ gain.T  # Cov(z_{t+1}, z_t)
        mean = centre + gain @ mean
        covariance = symmetrise(own + gain @ lagged)
        return (mean, covariance), ChainMoments(mean, covariance, lagged)

    last = (centre[-1], own[-1])
    _, rest = jax.lax.scan(step, last, (own[:-1], centre[:-1], done.gains[1:]), reverse=True)
    return ChainMoments(
        jnp.concatenate([rest.mean, last[0][None]]),
        jnp.concatenate([rest.covariance, last[1][None]]),
        jnp.concatenate([jnp.zeros_like(own[:1]), rest.lagged]),
    )


def _draw(key: Key[Array, ""], done: Eliminated) -> Float[Array, "t k"]:
    centre = jax.vmap(solve_vector)(done.factors, done.linear)
    noise = jax.vmap(transposed_solve_vector)(done.factors, jax.random.normal(key, done.linear.shape))
    own = centre + noise

    def step(after: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        own, gain = here
        z = own + gain @ after
        return z, z

    _, rest = jax.lax.scan(step, own[-1], (own[:-1], done.gains[1:]), reverse=True)
    return jnp.concatenate([rest, own[-1:]])
