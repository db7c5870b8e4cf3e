"""A density to draw from and to weigh with: a fitted posterior, its labels exchanged, and a part of the prior.

For a mixture whose components can be exchanged the posterior has K! copies of each mode and a fitted posterior knows
one. Averaged over all K! orders it covers them all: with independent components that average is a permanent,

    (1/K!) Σ_σ Π_k q_k(θ_σ(k)) = perm(Q)/K!,      Q_jk = q_k(θ_j),

which a sum over subsets gives exactly in K 2ᴷ steps, all of them positive.
"""

from __future__ import annotations

from math import lgamma
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import Dirichlet
from ...families._family import Family
from ...models import Mixture, Model
from .labels import exchangeable, relabel

LARGEST = 10  # components whose orders are all summed over


class Proposal(eqx.Module):
    """(1 − defensive) q + defensive · prior."""

    blocks: dict[str, Family]
    defensive: Float[Array, ""]
    symmetric: bool = eqx.field(static=True, default=False)

    def sample(self, key: Key[Array, ""], model: Model) -> dict[str, Any]:
        key_pick, key_prior, key_q, key_order = jax.random.split(key, 4)
        prior = model.sample_prior(key_prior)
        keys = jax.random.split(key_q, len(self.blocks))
        fitted = {name: q.sample(key) for key, (name, q) in zip(keys, self.blocks.items(), strict=True)}
        if self.symmetric:
            fitted = relabel(model, fitted, jax.random.permutation(key_order, jax.tree.leaves(fitted)[0].shape[0]))
        pick = jax.random.uniform(key_pick) < self.defensive
        return jax.tree.map(lambda a, b: jnp.where(pick, a, b), prior, {name: fitted[name] for name in prior})

    def log_prob(self, model: Model, draws: dict[str, Any]) -> Float[Array, ""]:
        prior = model.log_prior(model.statistics(draws))
        fitted = self._symmetric(draws) if self.symmetric else self._plain(draws)
        return jnp.logaddexp(jnp.log1p(-self.defensive) + fitted, jnp.log(self.defensive) + prior)

    def _plain(self, draws: dict[str, Any]) -> Float[Array, ""]:
        return sum((jnp.sum(q.log_prob(draws[name])) for name, q in self.blocks.items()), start=jnp.zeros(()))

    def _symmetric(self, draws: dict[str, Any]) -> Float[Array, ""]:
        weights = self.blocks["weights"]
        assert isinstance(weights, Dirichlet)
        log = weights.statistics(draws["weights"]).log
        pairs = log[:, None] * weights.natural.log[None]
        # log q_k(θ_j) for all pairs, from every block that has an element for each component.
        for name, block in self.blocks.items():
            if name != "weights":
                features = block.statistics(draws[name]).features()
                pairs = pairs + features @ block.natural.weights().T - block.log_normaliser()[None]
        return log_permanent(pairs) - weights.log_normaliser() - lgamma(pairs.shape[0] + 1)


def propose(model: Model, blocks: dict[str, Family], defensive: float) -> tuple[Proposal, list[str]]:
    """The proposal around a fitted posterior, and what should be known about it."""
    known = exchangeable(model)
    k = getattr(model, "n_components", getattr(model, "n_states", 1))
    symmetric = known and isinstance(model, Mixture) and 1 < k <= LARGEST
    notes = []
    if known and k > 1 and not symmetric:
        notes.append(
            f"the {k}! orders of the components are not summed over: the proposal covers one of them, and the "
            "evidence may lack as much as their logarithm"
        )
    return Proposal(blocks, jnp.asarray(float(defensive)), symmetric), notes


def log_permanent(logs: Float[Array, "k k"]) -> Float[Array, ""]:
    """log Σ_σ Π_k exp(logs[σ(k), k]), subset by subset: the first columns, with every set of as many rows."""
    k = logs.shape[0]
    sets = np.arange(2**k)
    size = np.array([int(s).bit_count() for s in sets])
    table = jnp.full(2**k, -jnp.inf).at[0].set(0.0)
    for column in range(k):
        here = sets[size == column + 1]
        rows = np.array([[j for j in range(k) if s >> j & 1] for s in here])
        before = here[:, None] - (1 << rows)
        terms = table[before] + logs[rows, column]
        table = table.at[here].set(jax.nn.logsumexp(terms, axis=1))
    return table[-1]
