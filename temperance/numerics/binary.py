"""All states of K binary variables: their probabilities, and a quadratic form in them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .linalg import cholesky, quadratic_form


def all_states(k: int) -> Float[Array, "s k"]:
    """Every state, as rows of zeros and ones."""
    return jnp.asarray((np.arange(2**k)[:, None] >> np.arange(k)) & 1, dtype=jnp.float64)


def log_states(on: Float[Array, " k"], off: Float[Array, " k"], states: Float[Array, "s k"]) -> Float[Array, " s"]:
    """log p(z) of each state; a part that is certainly on, or off, has −∞ beside the other."""
    return jnp.sum(jnp.where(states > 0.0, on[None], off[None]), axis=1)


def quadratic(precision: Float[Array, "k k"], states: Float[Array, "s k"]) -> Float[Array, " s"]:
    """zᵀ precision⁻¹ z of each state."""
    factor = cholesky(precision)
    return quadratic_form(jnp.broadcast_to(factor[None], (states.shape[0], *factor.shape)), states)
