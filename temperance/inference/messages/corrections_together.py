"""The second-order correction where all factors are refreshed at once: along chains, and for graphs.

As in `corrections.py`, with q(θ) q(z) for q(θ): the ratio F_t(θ, c) = f_t/f̃_t depends on the configuration c of the
factor, too, and E_q[F_s F_t] is a sum over pairs of configurations, weighted by q(c_s, c_t). Along a chain that is

    q(z_(s−1), z_s) q(z_(t−1) | z_s) q(z_t | z_(t−1)),

the middle by powers of the transitions of q(z). Two steps are exact at second order: there are no products of three.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...models import Data
from ...models._factors import (
    Blocks,
    Factored,
    Factors,
    LinearFactor,
    Natural,
    exact_prior,
    log_normaliser,
    naturals,
    with_naturals,
    written_out,
)
from ...numerics.chains import ON
from .together import Look, look


@eqx.filter_jit
def orders(
    alpha: float, model: Factored, data: Data, blocks: Blocks, messages: Natural
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""], Int[Array, ""]]:
    """(ln s, Σ ln c_t, Σ_{s<t} E[ε_s ε_t], pairs whose expectation does not exist)."""
    factors, prior = model.factors(data), exact_prior(model)
    seen = look(alpha, factors, prior, blocks, messages)
    n, whole = factors.live.shape[0], log_normaliser(blocks)
    flat = written_out(lambda m, factor: factors.terms.expected(m, factor).reshape(-1), prior, factors.each)
    log_site = seen.tables.reshape((n, -1)) + _log_scales(alpha, blocks, messages)[:, None]
    shares = seen.chain.pairs.reshape((n, -1))

    def alone(message: Natural, factor: LinearFactor) -> Float[Array, " c"]:
        return _log_integrals(_without(naturals(blocks), message), blocks, factor) - whole

    ratios = jax.vmap(alone)(messages, flat) - log_site
    log_c = jax.nn.logsumexp(jnp.where(shares > 0, ratios, -jnp.inf), axis=1, b=shares)
    onward = _onward(seen, factors)

    def row(carry: tuple[Array, Array], s: Array) -> tuple[tuple[Array, Array], None]:
        rest, first = _without(naturals(blocks), _at(messages, s)), _at(flat, s)

        def pair(between: Float[Array, "j k"], t: Array) -> tuple[Float[Array, "j k"], tuple[Array, Array]]:
            left, second = _without(rest, _at(messages, t)), _at(flat, t)
            joint = jax.vmap(lambda T: _log_integrals(_plus(left, T), blocks, second))(first.statistics)
            logs = joint + first.log_base[:, None] - whole - log_site[s][:, None] - log_site[t][None]
            weight = _joint_shares(shares[s], shares[t], between, onward, t) if onward else _outer(shares, s, t)
            value = jax.nn.logsumexp(jnp.where(weight > 0, logs, -jnp.inf), b=weight) - log_c[s] - log_c[t]
            wanted = (t > s) & factors.live[s] & factors.live[t]
            found = jnp.where(wanted, jnp.expm1(value), 0.0), wanted & ~jnp.isfinite(value)
            if onward is None:
                return between, found
            return jnp.where(t > s, between @ onward[0][t], between), found

        size = onward[0].shape[-1] if onward else 1
        terms, missing = jax.lax.scan(pair, jnp.eye(size), jnp.arange(n))[1]
        return (carry[0] + jnp.sum(jnp.where(missing, 0.0, terms)), carry[1] + jnp.sum(missing)), None

    (second, missing), _ = jax.lax.scan(row, (jnp.zeros(()), jnp.asarray(0)), jnp.arange(n))
    return seen.log_evidence, jnp.sum(jnp.where(factors.live, log_c, 0.0)), second, missing


@eqx.filter_jit
def log_scales(alpha: float, model: Factored, data: Data, blocks: Blocks, messages: Natural) -> Float[Array, " n"]:
    """log s̃ of each datum, its table summed."""
    seen = look(alpha, model.factors(data), exact_prior(model), blocks, messages)
    tables = seen.tables.reshape((seen.tables.shape[0], -1))
    return jax.nn.logsumexp(tables, axis=1) + _log_scales(alpha, blocks, messages)


def _log_scales(alpha: float, blocks: Blocks, messages: Natural) -> Float[Array, " n"]:
    """log of the scale of f̃_t (without its table and message), as ln s counts it."""
    if alpha == 0.0:
        taken = [jnp.sum(_rows(messages[name].dot(q.mean().expand(0))), axis=1) for name, q in blocks.items()]
        return -sum(taken[1:], start=taken[0])
    cavities = jax.tree.map(lambda q, part: q[None] - alpha * part, naturals(blocks), messages)
    value = jax.vmap(lambda natural: log_normaliser(with_naturals(blocks, natural)))(cavities)
    return (value - log_normaliser(blocks)) / alpha


def _log_integrals(natural: Natural, blocks: Blocks, factor: LinearFactor) -> Float[Array, " c"]:
    """log ∫ exp⟨η, t(θ)⟩ f(θ, c) dθ for every configuration."""
    moved = jax.vmap(lambda T: log_normaliser(with_naturals(blocks, _plus(natural, T))))(factor.statistics)
    return moved + factor.log_base


def _onward(seen: Look, factors: Factors) -> tuple[Float[Array, "n k k"], Bool[Array, " n"]] | None:
    """q(z_t | z_(t−1)) of every step, independent of z_(t−1) where a sequence begins; and the steps at which none
    begins."""
    if factors.starts is None:
        return None
    pairs, on = seen.chain.pairs, factors.starts == ON
    before = jnp.sum(pairs, axis=2, keepdims=True)
    given = jnp.where(before > 0, pairs / jnp.where(before > 0, before, 1.0), 0.0)
    return jnp.where(on[:, None, None], given, jnp.sum(pairs, axis=1, keepdims=True)), on


def _joint_shares(left: Array, right: Array, between: Array, onward: tuple[Array, Array], t: Array) -> Array:
    """q(c_s, c_t) of two steps of a chain, s before t; `between` is q(z_(t−1) | z_s)."""
    size = between.shape[-1]
    chained = left.reshape((size, size))[:, :, None, None] * (between[:, :, None] * onward[0][t][None])[None]
    return jnp.where(onward[1][t], chained.reshape((size**2, size**2)), left[:, None] * right[None])


def _outer(shares: Float[Array, "n c"], s: Array, t: Array) -> Float[Array, "c c"]:
    return shares[s][:, None] * shares[t][None]


def _at(tree: Any, index: Array) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _plus(left: Natural, right: Natural) -> Natural:
    return jax.tree.map(jnp.add, left, right)


def _without(left: Natural, right: Natural) -> Natural:
    return jax.tree.map(jnp.subtract, left, right)


def _rows(values: Float[Array, "n *b"]) -> Float[Array, "n b"]:
    return values.reshape((values.shape[0], -1))
