"""K binary variables: their joint states, with probabilities and a quadratic form, and sweeps over one variable at a
time."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from .linalg import cholesky, quadratic_form

# (variable k, expected or drawn states of all variables) → the log-odds of variable k in each datum
Logit = Callable[[Array, Float[Array, "k n"]], Float[Array, " n"]]


def all_states(k: int) -> Float[Array, "s k"]:
    """Every state, as rows of zeros and ones."""
    return jnp.asarray((np.arange(2**k)[:, None] >> np.arange(k)) & 1, dtype=jnp.float64)


def log_states(on: Float[Array, " k"], off: Float[Array, " k"], states: Float[Array, "s k"]) -> Float[Array, " s"]:
    """log p(z) of each state, from the log probabilities that each variable is on and off, of which one may be −∞."""
    return jnp.sum(jnp.where(states > 0.0, on[None], off[None]), axis=1)


def quadratic(precision: Float[Array, "k k"], states: Float[Array, "s k"]) -> Float[Array, " s"]:
    """zᵀ precision⁻¹ z of each state."""
    factor = cholesky(precision)
    return quadratic_form(jnp.broadcast_to(factor[None], (states.shape[0], *factor.shape)), states)


def sweep_means(logit: Logit, eta: Float[Array, "n k"], sweeps: int) -> Float[Array, "n k"]:
    """Coordinate ascent: update the log-odds of every variable in turn, `sweeps` times."""
    factors = eta.shape[1]

    def update(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        eta, z = carry
        k = i % factors
        fresh = logit(k, z)
        return eta.at[k].set(fresh), z.at[k].set(jax.nn.sigmoid(fresh))

    start = (eta.T, jax.nn.sigmoid(eta.T))
    return jax.lax.fori_loop(0, sweeps * factors, update, start)[0].T


def sweep_draws(
    key: Key[Array, ""], logit: Logit, z: Float[Array, "n k"], backwards: bool = False
) -> Float[Array, "n k"]:
    """Gibbs sampling: draw every variable in turn given all others, the last one first if `backwards`."""
    size = z.shape[1]

    def update(step: Array, z: Float[Array, "k n"]) -> Float[Array, "k n"]:
        k = size - 1 - step if backwards else step
        on = jax.random.bernoulli(jax.random.fold_in(key, k), jax.nn.sigmoid(logit(k, z)))
        return z.at[k].set(on.astype(z.dtype))

    return jax.lax.fori_loop(0, size, update, z.T).T
