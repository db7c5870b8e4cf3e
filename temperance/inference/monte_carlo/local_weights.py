"""log p(x | θ) where latents z cannot be summed out: one draw of them from q(z | θ), their variational posterior.

    p̂(x | θ) = p(x, z | θ)/q(z | θ),      z ~ q(z | θ)

It is unbiased, so that importance sampling and Metropolis–Hastings steps with it in place of p(x | θ) are exact
(Andrieu and Roberts, 2009). A tenth of the latents comes from the prior instead, so that q is a mixture of both; the
more latents, the more p̂ varies.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ...models import Data, Model, Powers
from ...models._blocks import rows_sum
from ...models._data import over_blocks

_VAGUE = 0.1  # the share of data whose latents are drawn from their prior instead, so that weights are bounded
_STEPS = 20  # steps of coordinate ascent to q(z | θ)


def log_joint(key: Key[Array, ""], model: Model, draws: dict[str, Any], data: Data) -> Float[Array, ""]:
    """log p(θ) + log p̂(x | θ); exact where all latents are summed out."""
    if not model.local_groups:
        return model.log_joint(draws, data)
    m = model.statistics(draws)

    def block(part: Any, index: Int[Array, ""]) -> tuple[Float[Array, ""], tuple[()]]:
        x, weights = part
        q = model.ascend_local(m, x, Powers(), model.initial_local(m, x), _STEPS)
        key_coin, key_prior, *keys = jax.random.split(jax.random.fold_in(key, index), 2 + len(q))
        vague = jax.random.bernoulli(key_coin, _VAGUE, weights.shape)
        given = model.sample_local_prior(key_prior, x, draws)
        here, log_q = dict(m), jnp.zeros(weights.shape)
        for each, (name, family) in zip(keys, q.items(), strict=True):
            z = jax.tree.map(partial(_choose, vague), given[name], family.sample(each))
            here[name] = family.statistics(z)
            log_q = log_q + rows_sum(family.log_prob(z))
        value = model.log_evidence(here, x)
        log_prior = model._datum(here, x, Powers(), None) - value
        value = value + log_prior - jnp.logaddexp(jnp.log1p(-_VAGUE) + log_q, jnp.log(_VAGUE) + log_prior)
        return jnp.sum(jnp.where(weights > 0, weights * value, 0.0)), ()

    return model.log_prior(m) + over_blocks(block, (data.values, data.weights), *data.cuts)[0]


def _choose(vague: Array, given: Array, found: Array) -> Array:
    return jnp.where(vague.reshape((-1,) + (1,) * (found.ndim - 1)), given, found)
