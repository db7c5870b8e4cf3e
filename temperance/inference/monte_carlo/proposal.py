"""A proposal density: a mixture of fitted posteriors under all label orders, and the prior.

Where K parts of a model can change places the posterior has K! copies of each mode, of which a fitted posterior covers
one. Averaged over all K! orders, it covers all copies. With independent parts that average is a permanent,

    (1/K!) Σ_σ Π_k q_k(θ_σ(k)) = perm(Q)/K!,      Q_jk = q_k(θ_j),

which a sum over subsets gives exactly in K 2ᴷ steps, all of them positive; for dependent parts the orders are
enumerated.
"""

from __future__ import annotations

import itertools
from math import factorial, lgamma, log, prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import Dirichlet
from ...families._family import Family
from ...models import Model
from ...models._about import Symmetry
from .visited import Seen

LARGEST = 10  # largest number of independent parts whose orders are summed by the permanent
SHARE = 0.75  # of the draws that are from conditionals of chains
FEWEST, CHEAP = 8, 64  # conditionals at least, and the work of summing orders from which there are fewer
ORDERS = 720  # most orders that are enumerated


class Proposal(eqx.Module):
    """(1 − defensive) Σ_m share_m q_m + defensive · prior."""

    blocks: dict[str, Family]  # leading axis: the posteriors q_m
    log_shares: Float[Array, " m"]
    defensive: Float[Array, ""]
    symmetry: Symmetry | None = eqx.field(static=True, default=None)  # of the parts whose orders are averaged

    def sample(self, key: Key[Array, ""], model: Model) -> dict[str, Any]:
        key_pick, key_prior, key_q, key_order = jax.random.split(key, 4)
        prior = model.sample_prior(key_prior)
        which = jax.random.categorical(jax.random.fold_in(key_pick, 1), self.log_shares)
        blocks = jax.tree.map(lambda leaf: leaf[which], self.blocks)
        keys = jax.random.split(key_q, len(blocks))
        fitted = {name: q.sample(key) for key, (name, q) in zip(keys, blocks.items(), strict=True)}
        if self.symmetry is not None:
            fitted = self.symmetry.rearranged(fitted, self.symmetry.random_orders(key_order))
        pick = jax.random.uniform(key_pick) < self.defensive
        return jax.tree.map(lambda a, b: jnp.where(pick, a, b), prior, {name: fitted[name] for name in prior})

    def log_probs(self, model: Model, draws: dict[str, Any]) -> Float[Array, " m+1"]:
        """The log density of each posterior, averaged over orders, and of the prior."""

        def one(blocks: dict[str, Family]) -> Float[Array, ""]:
            if self.symmetry is None:
                return _plain(blocks, draws)
            way = _permanent if independent(blocks, self.symmetry) else _enumerated
            return way(blocks, self.symmetry, draws)

        return jnp.append(jax.vmap(one)(self.blocks), model.log_prior(model.statistics(draws)))

    def together(self, log_probs: Float[Array, "... m+1"]) -> Float[Array, "..."]:
        """The log density of the proposal, from the log densities of its parts."""
        shares = jnp.append(jnp.log1p(-self.defensive) + self.log_shares, jnp.log(self.defensive))
        return jax.nn.logsumexp(shares + log_probs, axis=-1)

    def log_prob(self, model: Model, draws: dict[str, Any]) -> Float[Array, ""]:
        return self.together(self.log_probs(model, draws))


def _plain(blocks: dict[str, Family], draws: dict[str, Any]) -> Float[Array, ""]:
    return sum((jnp.sum(q.log_prob(draws[name])) for name, q in blocks.items()), start=jnp.zeros(()))


def _permanent(blocks: dict[str, Family], symmetry: Symmetry, draws: dict[str, Any]) -> Float[Array, ""]:
    """The log of the average over orders for one set of independent parts."""
    (parts,) = symmetry.parts
    pairs, rest = jnp.zeros((parts.size, parts.size)), jnp.zeros(())
    for name, q in blocks.items():
        if name not in dict(parts.axes):
            rest = rest + jnp.sum(q.log_prob(draws[name]))
        elif q.batch_shape == ():  # the term of a Dirichlet density in log q_k(θ_j)
            assert isinstance(q, Dirichlet)
            pairs = pairs + q.statistics(draws[name]).log[:, None] * q.natural.log[None]
            rest = rest - q.log_normaliser()
        else:
            pairs = pairs + q.statistics(draws[name]).features() @ q.natural.weights().T - q.log_normaliser()[None]
    return log_permanent(pairs) + rest - lgamma(parts.size + 1)


def _enumerated(blocks: dict[str, Family], symmetry: Symmetry, draws: dict[str, Any]) -> Float[Array, ""]:
    each = itertools.product(*(itertools.permutations(range(parts.size)) for parts in symmetry.parts))
    orders = [jnp.asarray(rows) for rows in zip(*each, strict=True)]
    logs = jax.vmap(lambda here: _plain(blocks, symmetry.rearranged(draws, here)))(orders)
    return jax.nn.logsumexp(logs) - log(logs.shape[0])


def independent(blocks: dict[str, Family], symmetry: Symmetry) -> bool:
    """Whether there is one set of parts, independent of each other but for Dirichlet weights."""
    first, *others = symmetry.parts
    axes = dict(first.axes)
    return (
        not others
        and not first.complements
        and all(
            axes[name] == (0,)
            and (q.batch_shape == (first.size,) or (q.batch_shape == () and isinstance(q, Dirichlet)))
            for name, q in blocks.items()
            if name in axes
        )
    )


def affordable(model: Model, wanted: int) -> int:
    """How many parts of a proposal are worth the time that the orders of a model take: for each part all are summed."""
    symmetry = model.symmetry and model.symmetry.alike
    if symmetry is None:
        return wanted
    sizes = [parts.size for parts in symmetry.parts]
    work = min(prod(map(factorial, sizes)), max(sizes) * 2 ** max(sizes))
    return max(FEWEST, min(wanted, wanted * CHEAP // work))


def propose(
    model: Model,
    posteriors: list[dict[str, Family]],
    bounds: np.ndarray,
    seen: Seen | None,
    defensive: float,
) -> tuple[Proposal, list[str]]:
    """The proposal from fitted posteriors and from conditionals that chains have `seen`, and notes for the user.

    Half of the posteriors' draws are shared out by their bounds and half equally, because a bound says little about how
    much of the true posterior lies around an optimum. Conditionals take `SHARE` of all draws, half of them by how often
    they were seen.
    """
    blocks = posteriors[0]
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *posteriors)
    shares = 0.5 * np.exp(bounds - np.logaddexp.reduce(bounds)) + 0.5 / len(bounds)
    if seen is not None:
        stacked = jax.tree.map(lambda *leaves: np.concatenate(leaves), stacked, seen.blocks)
        own = 0.5 * seen.times / seen.times.sum() + 0.5 / len(seen.times)
        shares = np.concatenate([(1.0 - SHARE) * shares, SHARE * own])
    symmetry = model.symmetry and model.symmetry.alike
    notes = []
    if symmetry is not None:
        sizes = [parts.size for parts in symmetry.parts]
        few = max(sizes) <= LARGEST if independent(blocks, symmetry) else prod(map(factorial, sizes)) <= ORDERS
        if not few:
            notes.append(
                f"the {' · '.join(f'{k}!' for k in sizes)} orders of the parts are not summed over: the proposal "
                "covers one of them, and the evidence may lack as much as their logarithm"
            )
            symmetry = None
    return Proposal(jax.tree.map(jnp.asarray, stacked), jnp.log(shares), jnp.asarray(float(defensive)), symmetry), notes


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
