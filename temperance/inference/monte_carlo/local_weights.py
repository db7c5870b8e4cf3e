"""log p(x | θ) where latents z cannot be summed out: one draw of them from q(z | θ), their variational posterior.

    p̂(x | θ) = p(x, z | θ)/q(z | θ),      z ~ q(z | θ)

It is unbiased, so that importance sampling and Metropolis–Hastings steps with it in place of p(x | θ) are exact
(Andrieu and Roberts, 2009); the more latents, the more it varies.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ...models import Data, Model, Powers
from ...models._blocks import rows_sum
from ...models._data import over_blocks

_STEPS = 20  # of coordinate ascent to q(z | θ)


def log_joint(key: Key[Array, ""], model: Model, draws: dict[str, Any], data: Data) -> Float[Array, ""]:
    """log p(θ) + log p̂(x | θ); exact where all latents are summed out."""
    if not model.local_groups:
        return model.log_joint(draws, data)
    m = model.statistics(draws)

    def block(part: Any, index: Int[Array, ""]) -> tuple[Float[Array, ""], tuple[()]]:
        x, weights = part
        q = model.ascend_local(m, x, Powers(), model.initial_local(m, x), _STEPS)
        here, log_q = dict(m), jnp.zeros(weights.shape)
        keys = jax.random.split(jax.random.fold_in(key, index), len(q))
        for each, (name, family) in zip(keys, q.items(), strict=True):
            draw = family.sample(each)
            here[name] = family.statistics(draw)
            log_q = log_q + rows_sum(family.log_prob(draw))
        value = model._datum(here, x, Powers(), None) - log_q
        return jnp.sum(jnp.where(weights > 0, weights * value, 0.0)), ()

    return model.log_prior(m) + over_blocks(block, (data.values, data.weights), *data.cuts)[0]
