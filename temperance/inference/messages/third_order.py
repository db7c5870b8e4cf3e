"""The perturbative correction to third order, where every datum has latents of its own (thesis 3.8.3, after Opper).

With R_n = F_n/c_n, whose mean under q is 1, and ε_n = 1 − R_n as in `corrections.py`,

    E_q[Π_n (1 − ε_n)] ≈ 1 + Σ_{m<n} E[ε_m ε_n] − Σ_{l<m<n} E[ε_l ε_m ε_n]
    E[ε_m ε_n] = E[R_m R_n] − 1,      E[ε_l ε_m ε_n] = E[R_l R_m] + E[R_l R_n] + E[R_m R_n] − 2 − E[R_l R_m R_n]

Time grows with N³ and with the cube of the number of configurations: this is for small problems.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...models import Data
from ...models._factors import (
    Blocks,
    Factored,
    LinearFactor,
    Natural,
    log_normaliser,
    naturals,
    with_naturals,
    written_out,
)


@eqx.filter_jit
def third_order(
    model: Factored, data: Data, blocks: Blocks, messages: Natural, log_scales: Float[Array, " n"]
) -> tuple[Float[Array, ""], Float[Array, ""], Int[Array, ""]]:
    """(Σ ln c_n, what is added to 1, triples whose expectation does not exist); `log_scales` are those of the sites."""
    factors = model.factors(data)
    prior = {name: model.prior[name] for name in blocks}
    flat = written_out(lambda m, factor: factors.terms.expected(m, factor).reshape(-1), prior, factors.each)  # type: ignore[arg-type]
    n, live = factors.live.shape[0], factors.live
    q, whole = naturals(blocks), log_normaliser(blocks)

    def at(tree: Any, index: Array) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], tree)

    def log_mean(*index: Array) -> Float[Array, ""]:
        """log E_q of the product of the ratios F of some data: a sum over their configurations."""

        def summed(natural: Natural, rest: tuple[LinearFactor, ...]) -> Float[Array, ""]:
            if not rest:
                return log_normaliser(with_naturals(blocks, natural))
            first, *others = rest

            def one(statistics: Natural, log_base: Float[Array, ""]) -> Float[Array, ""]:
                return log_base + summed(jax.tree.map(jnp.add, natural, statistics), tuple(others))

            return jax.nn.logsumexp(jax.vmap(one)(first.statistics, first.log_base))

        without = q
        for i in index:
            without = jax.tree.map(jnp.subtract, without, at(messages, i))
        scale = sum((log_scales[i] for i in index), start=whole)
        return summed(without, tuple(at(flat, i) for i in index)) - scale

    each = jnp.arange(n)
    log_c = jnp.where(live, jax.lax.map(log_mean, each), 0.0)
    first, second = (part.ravel() for part in jnp.meshgrid(each, each, indexing="ij"))
    both = jax.lax.map(lambda pair: log_mean(*pair) - log_c[pair[0]] - log_c[pair[1]], (first, second))
    pairs = jnp.exp(both).reshape((n, n))

    def triples(left: Array) -> tuple[Float[Array, ""], Int[Array, ""]]:
        def one(pair: tuple[Array, Array]) -> tuple[Array, Array]:
            m, k = pair
            wanted = (left < m) & (m < k) & live[left] & live[m] & live[k]
            value = jnp.exp(log_mean(left, m, k) - log_c[left] - log_c[m] - log_c[k])
            value = value - pairs[left, m] - pairs[left, k] - pairs[m, k] + 2.0
            return jnp.where(wanted, value, 0.0), wanted & ~jnp.isfinite(value)

        values, missing = jax.lax.map(one, (first, second))
        return jnp.sum(jnp.where(missing, 0.0, values)), jnp.sum(missing)

    third, missing = jax.lax.map(triples, each)
    apart = (each[:, None] < each[None]) & live[:, None] & live[None]
    total = jnp.sum(jnp.where(apart, pairs - 1.0, 0.0)) + jnp.sum(third)
    return jnp.sum(log_c), total, jnp.sum(missing)
