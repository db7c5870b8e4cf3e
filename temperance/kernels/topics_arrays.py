"""Coordinate ascent over the topic proportions of documents on plain arrays, on any device that XLA compiles for.

An iteration needs two products with the topics of a document's words: Σ_k share · topic for each word, and Σ_v ratio ·
topic for each topic. On a CPU these topics are gathered once and kept. An accelerator gathers them afresh for each
product: the table of topics fits in its second-level cache, but the gathered array (words × topics for each document)
does not; and XLA fuses a gather with a sum that alone uses it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from ..numerics.special import digamma


class Block:
    """The topics of the words of documents (n × width × k): gathered once (`kept`), or for each product. If documents
    have powers of their own, the table holds logarithms."""

    def __init__(
        self, table: Float[Array, "v k"], words: Int[Array, "n width"], powers: Float[Array, " n"] | None, kept: bool
    ):
        self.table, self.words, self.powers = table, words, powers
        self.rows = self._gather(table) if kept else None

    def norms(self, share: Float[Array, "n k"]) -> Float[Array, "n width"]:
        """Σ_k share · topic of each word."""
        if self.rows is not None:
            # In full precision: by default an accelerator multiplies with fewer digits.
            return jnp.einsum("nlk,nk->nl", self.rows, share, precision="highest")
        rows, share = self._afresh(share)
        return jnp.sum(rows * share[:, None], axis=2)

    def sums(self, ratios: Float[Array, "n width"]) -> Float[Array, "n k"]:
        """Σ_v ratio · topic over the words of each document."""
        if self.rows is not None:
            return jnp.einsum("nlk,nl->nk", self.rows, ratios, precision="highest")
        rows, ratios = self._afresh(ratios)
        return jnp.sum(rows * ratios[..., None], axis=1)

    def levels(self, share: Float[Array, "n k"]) -> Float[Array, "n width"]:
        """Σ_k share · topic^power · log topic of each word, from a table of logarithms."""
        (table, words, powers), share = jax.lax.optimization_barrier(((self.table, self.words, self.powers), share))
        assert powers is not None
        logs = _rows(table, words)
        return jnp.sum(jnp.exp(powers[:, None, None] * logs) * logs * share[:, None], axis=2)

    def collect(self, ratios: Float[Array, "n width"], share: Float[Array, "n k"]) -> Float[Array, "v k"]:
        """Σ_d ratio · share · topic, added up by word."""
        n_words, (n, width) = len(self.table), self.words.shape
        if self.rows is not None:
            terms = ratios[..., None] * share[:, None] * self.rows
            return jnp.zeros(self.table.shape, terms.dtype).at[self.words].add(terms)
        # Sorted by word (padding last), so that the entries of a sum are neighbours and not scattered over memory.
        entries = jnp.where(ratios > 0, self.words, n_words).ravel()
        words, order = jax.lax.sort((entries, jnp.arange(n * width, dtype=jnp.int32)), num_keys=1, is_stable=False)
        documents = order // width
        terms = ratios.ravel()[order][:, None] * _rows(share, documents)
        if self.powers is not None:
            power = self.powers[documents][:, None]
            terms = terms * jnp.exp(power * _rows(self.table, jnp.minimum(words, n_words - 1)))
        sums = jnp.zeros(self.table.shape, terms.dtype).at[words].add(terms, indices_are_sorted=True, mode="drop")
        return sums if self.powers is not None else self.table * sums

    def _afresh(self, factor: Array) -> tuple[Array, Array]:
        """The topics, gathered anew for the product with this factor, and the factor."""
        table, factor = jax.lax.optimization_barrier((self.table, factor))
        return self._gather(table), factor

    def _gather(self, table: Array) -> Array:
        rows = _rows(table, self.words)
        return rows if self.powers is None else jnp.exp(self.powers[:, None, None] * rows)


def _rows(table: Float[Array, "v k"], places: Int[Array, "..."]) -> Float[Array, "... k"]:
    return table.at[places].get(mode="promise_in_bounds")


def ascend(
    block: Block,
    counts: Float[Array, "n width"],
    prior: Float[Array, "*n k"],
    gamma: Float[Array, "n k"],
    latent: Float[Array, " n"],
    steps: ArrayLike,
    tolerance: ArrayLike,
    floor: float,
) -> tuple[Array, Array, Array, Array]:
    """Update γ ← prior + power · share ⊙ Σ_v (count_v / norm_v) topic_v of each document, at most `steps` times and
    until its mean change is below the tolerance. Returns γ, the shares exp{power · (ψ(γ) − max ψ(γ))}, the norms, and
    power · max ψ(γ)."""
    kind = block.table.dtype

    def shares(gamma: Array) -> tuple[Array, Array]:
        level = latent[:, None] * digamma(gamma)
        # Relative to the largest share: in a document with few tokens and many topics, all would underflow otherwise.
        top = jnp.max(level, axis=1)
        return jnp.exp(level - top[:, None]).astype(kind), top

    def norms(share: Array) -> Array:
        return jnp.maximum(block.norms(share), floor)

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        count, _, done = carry
        return (count < steps) & ~jnp.all(done)

    def update(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, gamma, done = carry
        share, _ = shares(gamma)
        expected = share * block.sums(counts / norms(share))
        fresh = jnp.atleast_2d(prior) + latent[:, None] * expected.astype(jnp.float64)
        settled = jnp.mean(jnp.abs(fresh - gamma), axis=1) <= tolerance
        return count + 1, jnp.where(done[:, None], gamma, fresh), done | settled

    start = (jnp.asarray(0), gamma, jnp.zeros(len(gamma), dtype=bool))
    gamma = jax.lax.while_loop(unfinished, update, start)[1]
    share, top = shares(gamma)
    return gamma, share, norms(share), top
