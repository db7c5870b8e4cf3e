"""The α-objective: ln s as a function of the messages alone, without the scales that the passes found.

Minus (2.107), with the sum over z of the thesis's complete-data factors carried out. At a fixed point it equals ln s.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...models import Data
from ...models._answers import Enumerable
from ...models._factors import Blocks, Factor, Natural, exact_prior, log_normaliser, naturals, with_naturals
from .sweep import Sites, factors_of


@eqx.filter_jit
def objective(alpha: float, model: Enumerable, data: Data, blocks: Blocks, sites: Sites) -> Float[Array, ""]:
    """ln s of q = `blocks`, where datum n is approximated by the n-th message of `sites`, whatever its scale."""
    factors = factors_of(model, data)
    whole = log_normaliser(blocks)

    def one(message: Natural, factor: Factor) -> Float[Array, ""]:
        """The best ln s̃ for this message: (2.105), and (2.125) for α = 0."""
        if alpha == 0.0:
            mean = {name: family.mean() for name, family in blocks.items()}
            taken = sum((jnp.sum(message[name].dot(mean[name])) for name in mean), start=jnp.zeros(()))
            return jax.nn.logsumexp(factors.terms.expected(mean, factor)) - taken
        less = jax.tree.map(lambda q, part: q - alpha * part, naturals(blocks), message)
        tilted = factors.terms.tilt(with_naturals(blocks, less), factor, alpha)
        return (tilted.value - whole) / alpha + jax.nn.logsumexp(tilted.log_terms / alpha)

    scales = jax.vmap(one)(sites.natural, factors.each)
    return jnp.sum(jnp.where(factors.live, scales, 0.0)) + whole - log_normaliser(exact_prior(model))
