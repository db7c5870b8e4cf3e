"""Chains of Gaussian latents summed out: the Kalman smoother in its natural form, and its sampler.

    log ∫ exp{Σ_t h_tᵀz_t − ½ z_tᵀJ_t z_t + Σ_t z_tᵀ G z_{t−1}} dz

is the log normaliser of a Gaussian whose precision is block-tridiagonal. Eliminating one latent after the other gives
the value; going back gives the moments, which are its derivative, (E[z_t], −½ E[z_t z_tᵀ], Σ_t E[z_t z_{t−1}ᵀ]). Given
a key, the statistics of one draw stand in for the moments. This form holds for expected parameters too, where E[AᵀA]
exceeds E[A]ᵀE[A] and no linear dynamics gives the same potentials.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from .linalg import cholesky, log_det, outer, symmetrise, transpose, whiten
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
    inverses: Float[Array, "t k k"]  # L⁻¹
    white: Float[Array, "t k"]  # L⁻¹ r
    gains: Float[Array, "t k k"]  # (L Lᵀ)⁻¹ (link G)ᵀ of z_t, with the link to z_{t+1}; zero for the last


def chain_integral(
    linear: Float[Array, "t k"],
    precision: Float[Array, "t k k"],
    coupling: Float[Array, "k k"],
    links: Float[Array, " t"],
    key: Key[Array, ""] | None = None,
) -> Float[Array, ""]:
    """The log integral above; `links` is 1 where z_t depends on z_{t−1}, else 0 (the first entry is not used)."""
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
    """(h, J) of each z_t with all earlier latents integrated out and the later ones ignored."""
    done = _eliminate(linear, precision, coupling, links)
    return done.linear, symmetrise(done.factors @ transpose(done.factors))


@jax.custom_jvp
def _integral(linear: Array, precision: Array, coupling: Array, links: Array) -> Float[Array, ""]:
    return _eliminate(linear, precision, coupling, links).value


@_integral.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    linear, precision, coupling, links = primals
    linear_dot, precision_dot, coupling_dot, _ = tangents  # links are a mask
    done = _eliminate(linear, precision, coupling, links)
    m = _moments(done)
    pairs = jnp.sum(m.lagged, axis=0) + (links[1:, None] * m.mean[1:]).T @ m.mean[:-1]
    second = m.covariance + outer(m.mean, m.mean)
    dot = jnp.sum(m.mean * linear_dot) - 0.5 * jnp.sum(second * precision_dot) + jnp.sum(pairs * coupling_dot)
    return done.value, dot


def linked_integral(
    linear: Float[Array, "t k"],
    precision: Float[Array, "t k k"],
    couplings: Float[Array, "t-1 k k"],
    key: Key[Array, ""] | None = None,
) -> Float[Array, ""]:
    """The log integral above with a matrix G_t (`couplings`) for each pair of neighbours."""
    if key is None:
        return _linked(linear, precision, couplings)
    done = _eliminate_tables(linear, precision, _with_first(couplings))
    z = stop_gradient(_draw(key, done))
    exponent = jnp.sum(linear * z) - 0.5 * jnp.sum(precision * outer(z, z)) + jnp.sum(couplings * outer(z[1:], z[:-1]))
    return stop_gradient(done.value) + (exponent - stop_gradient(exponent))


def _with_first(couplings: Float[Array, "t-1 k k"]) -> Float[Array, "t k k"]:
    return jnp.concatenate([jnp.zeros((1, *couplings.shape[1:])), couplings])


@jax.custom_jvp
def _linked(linear: Array, precision: Array, couplings: Array) -> Float[Array, ""]:
    return _eliminate_tables(linear, precision, _with_first(couplings)).value


@_linked.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    linear, precision, couplings = primals
    linear_dot, precision_dot, couplings_dot = tangents
    done = _eliminate_tables(linear, precision, _with_first(couplings))
    m = _moments(done)
    pairs, second = m.lagged[1:] + outer(m.mean[1:], m.mean[:-1]), m.covariance + outer(m.mean, m.mean)
    dot = jnp.sum(m.mean * linear_dot) - 0.5 * jnp.sum(second * precision_dot) + jnp.sum(pairs * couplings_dot)
    return done.value, dot


def _eliminate(linear: Array, precision: Array, coupling: Array, links: Array) -> Eliminated:
    return _eliminate_tables(linear, precision, links.at[0].set(0.0)[:, None, None] * coupling[None])


@jax.jit  # traced once, for the value and for the moments of every walk
def _eliminate_tables(linear: Array, precision: Array, couplings: Array) -> Eliminated:
    """Eliminate the latents in order of time. `couplings` has a matrix for each z_t with z_{t−1}, zero for the
    first."""
    k = linear.shape[-1]
    identity = jnp.eye(k)

    # Quantities that the recursion does not need are computed after it, for all steps at once.
    def step(before: tuple[Array, Array], here: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Any]:
        factor, r = before
        h, j, coupling = here
        half = whiten(factor, jnp.concatenate([coupling.T, r[:, None]], axis=1))
        across = half[:, :k].T @ half
        now = (cholesky(j - across[:, :k]), h + across[:, k])
        return now, (*now, half[:, :k])

    _, (factors, r, halves) = jax.lax.scan(step, (identity, jnp.zeros(k)), (linear, precision, couplings))
    right = jnp.concatenate([jnp.broadcast_to(identity, factors.shape), r[..., None]], axis=2)
    inverses, white = jnp.split(whiten(factors, right), [k], axis=2)
    value = 0.5 * (jnp.sum(jnp.square(white)) - jnp.sum(log_det(factors)) + linear.size * LOG_2PI)
    after = jnp.concatenate([halves[1:], jnp.zeros_like(halves[:1])])
    return Eliminated(value, factors, r, inverses, white[..., 0], transpose(inverses) @ after)


@jax.jit
def _moments(done: Eliminated) -> ChainMoments:
    back = transpose(done.inverses)
    own, centre = back @ done.inverses, (back @ done.white[..., None])[..., 0]

    def step(after: tuple[Array, Array], here: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], ChainMoments]:
        mean, covariance = after
        own, centre, gain = here
        lagged = covariance @ gain.T  # Cov(z_{t+1}, z_t)
        mean = centre + gain @ mean
        covariance = symmetrise(own + gain @ lagged)
        return (mean, covariance), ChainMoments(mean, covariance, lagged)

    # The last latent has no successor, so its gain is zero.
    nothing = (jnp.zeros_like(centre[0]), jnp.zeros_like(own[0]))
    _, found = jax.lax.scan(step, nothing, (own, centre, done.gains), reverse=True)
    return found._replace(lagged=jnp.concatenate([found.lagged[-1:], found.lagged[:-1]]))


def _draw(key: Key[Array, ""], done: Eliminated) -> Float[Array, "t k"]:
    noise = done.white + jax.random.normal(key, done.white.shape)
    own = (transpose(done.inverses) @ noise[..., None])[..., 0]

    def step(after: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        own, gain = here
        z = own + gain @ after
        return z, z

    return jax.lax.scan(step, jnp.zeros_like(own[0]), (own, done.gains), reverse=True)[1]
