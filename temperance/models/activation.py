"""Binary activations of factors: their prior given π, and the sweep that updates one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..families import BernoulliDistribution, BernoulliVector, MatrixNormalGammaVector
from ._model import Conditional, Means, Powers

Logit = Callable[[Array, Float[Array, "k n"]], Float[Array, " n"]]


class Activation(Conditional):
    """p(z | π) for n data: log-odds from the statistics of π, or from a π that is known."""

    known: Float[Array, " k"] | None
    n: int = eqx.field(static=True)
    parents: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, known: Float[Array, " k"] | None, n: int):
        self.known, self.n = known, n
        self.parents = ("probability",) if known is None else ()

    def _logs(self, m: Means) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """E log π and E log (1 − π), a row for each datum."""
        if self.known is None:
            on, off = m["probability"].log, m["probability"].log_complement
        else:
            on, off = jnp.log(self.known), jnp.log1p(-self.known)
        shape = (self.n, on.shape[-1])
        return jnp.broadcast_to(on[None], shape), jnp.broadcast_to(off[None], shape)

    def natural(self, m: Means) -> BernoulliVector:
        on, off = self._logs(m)
        return BernoulliVector(on - off)

    def log_normaliser(self, m: Means) -> Float[Array, "n k"]:
        return -self._logs(m)[1]

    def family(self, natural: Any) -> BernoulliDistribution:
        return BernoulliDistribution.from_natural(natural)

    def log_prob(self, m: Means) -> Float[Array, " n"]:
        """E log p(z | π) of each datum."""
        return jnp.sum(self.natural(m).dot(m["z"]) - self.log_normaliser(m), axis=1)


def factor_logit(prior: Activation, w: MatrixNormalGammaVector, m: Means, x: Array, powers: Powers) -> Logit:
    """The log-odds of one factor for all data, given the (expected) states of the others as (k, n)."""
    log_odds = prior.natural(m).indicator.T
    alone = w.cross @ x.T + jnp.diagonal(w.gram)[:, None]
    # w.gram is −½ E[λ μ_k·μ_l], and each pair of factors stands in it twice.
    coupling = 2.0 * (w.gram - jnp.diag(jnp.diagonal(w.gram)))

    def logit(k: Array, z: Float[Array, "k n"]) -> Float[Array, " n"]:
        return powers.latent * log_odds[k] + powers.observation * (alone[k] + coupling[k] @ z)

    return logit


def sweep_means(logit: Logit, eta: Float[Array, "n k"], sweeps: int) -> Float[Array, "n k"]:
    """Coordinate ascent: every factor's log-odds in turn, `sweeps` times."""
    factors = eta.shape[1]

    def update(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        eta, z = carry
        k = i % factors
        fresh = logit(k, z)
        return eta.at[k].set(fresh), z.at[k].set(jax.nn.sigmoid(fresh))

    start = (eta.T, jax.nn.sigmoid(eta.T))
    return jax.lax.fori_loop(0, sweeps * factors, update, start)[0].T


def sweep_draws(key: Key[Array, ""], logit: Logit, z: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Gibbs sampling: every factor in turn drawn given the others."""

    def update(k: Array, z: Float[Array, "k n"]) -> Float[Array, "k n"]:
        on = jax.random.bernoulli(jax.random.fold_in(key, k), jax.nn.sigmoid(logit(k, z)))
        return z.at[k].set(on.astype(z.dtype))

    return jax.lax.fori_loop(0, z.shape[1], update, z.T).T
