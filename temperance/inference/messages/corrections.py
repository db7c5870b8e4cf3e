"""The second-order correction to the log evidence (thesis 3.8.3, after Opper 2006).

With F_n = f_n/f̃_n, the ratio of a factor to its approximation, the evidence is exactly s·E_q[Π_n F_n]. Let
c_n = E_q[F_n], which is 1 at a fixed point of EP, and ε_n = 1 − F_n/c_n, whose mean is zero. Then

    ln p(x) = ln s + Σ_n ln c_n + ln E_q[Π_n (1 − ε_n)] ≈ ln s + Σ_n ln c_n + ln(1 + Σ_{m<n} E_q[ε_m ε_n]).

Products of two ratios are sums of K² members of the family, so every expectation is a log normaliser.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...errors import NumericalFailure
from ...models import Data
from ...models._answers import Enumerable
from ...models._factors import (
    Blocks,
    Factor,
    Factored,
    Factors,
    LinearFactor,
    Natural,
    WeightTerms,
    exact_prior,
    log_normaliser,
    naturals,
    weights_of,
    with_naturals,
    written_out,
)
from ...numerics.chains import ON
from ..collapsed import settled
from .sweep import Sites, factors_of
from .together import Look, look, met_by_data


def corrected(found: tuple[Array, Array, Array, Array]) -> float:
    """ln s with the correction, from the results of `orders`; an error where the correction does not exist."""
    log_s, first, second, missing = (np.asarray(part) for part in found)
    if missing:
        raise NumericalFailure(
            f"the correction does not exist: for {int(missing)} pairs of data q without both is improper; "
            "use fit.log_evidence"
        )
    if not np.isfinite(first) or not 1.0 + second > 0.0:
        raise NumericalFailure(
            f"the correction does not exist: its second-order term is {float(second):.3g}, not above −1; "
            "use fit.log_evidence"
        )
    return float(log_s + first + np.log1p(second))


@eqx.filter_jit
def orders(
    model: Enumerable, data: Data, blocks: Blocks, sites: Sites
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""], Int[Array, ""]]:
    """(ln s, Σ ln c_n, Σ_{m<n} E[ε_m ε_n], pairs whose expectation does not exist)."""
    factors = factors_of(model, data)
    assert isinstance(factors.terms, WeightTerms)
    whole, live, kind = log_normaliser(blocks), factors.live, factors.terms
    log_s = jnp.sum(sites.log_scale) + whole - log_normaliser(exact_prior(model))

    def ratio(message: Natural, log_scale: Float[Array, ""], factor: Factor) -> Float[Array, ""]:
        tilted = factors.terms.tilt(_without(blocks, message), factor, 1.0)
        return tilted.value - whole + jax.nn.logsumexp(tilted.log_terms) - log_scale

    log_c = jax.vmap(ratio)(sites.natural, sites.log_scale, factors.each)
    each = (sites.natural, sites.log_scale + log_c, factors.each, jnp.arange(live.shape[0]))

    def row(carry: tuple[Array, Array], here: tuple[Natural, Array, Factor, Array]) -> tuple[tuple[Array, Array], None]:
        message, log_scale, factor, index = here
        rest = _without(blocks, message)

        def pair(other: tuple[Natural, Array, Factor, Array]) -> tuple[Float[Array, ""], Bool[Array, ""]]:
            second_message, second_scale, second_factor, second_index = other
            both = _log_both(kind, _without(rest, second_message), factor, second_factor)
            value = both - whole - log_scale - second_scale
            wanted = (second_index < index) & live[second_index] & live[index]
            return jnp.where(wanted, jnp.expm1(value), 0.0), wanted & ~jnp.isfinite(value)

        terms, missing = jax.vmap(pair)(each)
        return (carry[0] + jnp.sum(jnp.where(missing, 0.0, terms)), carry[1] + jnp.sum(missing)), None

    (second, missing), _ = jax.lax.scan(row, (jnp.zeros(()), jnp.asarray(0)), each)
    return log_s, jnp.sum(jnp.where(live, log_c, 0.0)), second, missing


def _without(blocks: Blocks, message: Natural) -> Blocks:
    return with_naturals(blocks, jax.tree.map(jnp.subtract, naturals(blocks), message))


def _log_both(terms: WeightTerms, blocks: Blocks, left: Factor, right: Factor) -> Float[Array, ""]:
    """log ∫ exp⟨η, t(θ)⟩ f_left(θ) f_right(θ) dθ: a sum over both latents, k and l."""
    without, weights = blocks["components"], weights_of(blocks)
    one, other = left.statistics.expand(0), right.statistics.expand(0)
    base = without.log_normaliser()
    gain_left = (without + one).log_normaliser() - base
    gain_right = (without + other).log_normaliser() - base
    gain_both = (without + one + other).log_normaliser() - base
    apart = gain_left[:, None] + gain_right[None, :]
    same = jnp.eye(base.shape[0], dtype=bool)
    log_terms = jnp.where(same, gain_both[:, None], apart) + terms.raised_twice(weights)
    whole = jnp.sum(base) + (0.0 if weights is None else jnp.sum(weights.log_normaliser()))
    return whole + jax.nn.logsumexp(log_terms) + left.log_base + right.log_base


# ---- all factors refreshed at once -------------------------------------------------------------------------
#
# The second-order correction where all factors are refreshed at once: along chains, and for graphs.
#
# As above, with q(θ) q(z) for q(θ): the ratio F_t(θ, c) = f_t/f̃_t depends on the configuration c of the
# factor, too, and E_q[F_s F_t] is a sum over pairs of configurations, weighted by q(c_s, c_t). Along a chain that is
#
#     q(z_(s−1), z_s) q(z_(t−1) | z_s) q(z_t | z_(t−1)),
#
# the middle by powers of the transitions of q(z). Two steps are exact at second order: there are no products of three.


@eqx.filter_jit
def orders_together(
    alpha: float, model: Factored, data: Data, blocks: Blocks, messages: Natural
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""], Int[Array, ""]]:
    """(ln s, Σ ln c_t, Σ_{s<t} E[ε_s ε_t], pairs whose expectation does not exist)."""
    factors = settled(model).factors(data)
    seen, blocks = look(alpha, factors, model, blocks, messages), met_by_data(model, blocks)
    n, whole = factors.live.shape[0], log_normaliser(blocks)
    flat = written_out(lambda m, factor: factors.terms.expected(m, factor).reshape(-1), blocks, factors.each)
    log_site = seen.tables.reshape((n, -1)) + _log_scales(alpha, blocks, messages)[:, None]
    shares = seen.chain.pairs.reshape((n, -1))

    def alone(message: Natural, factor: LinearFactor) -> Float[Array, " c"]:
        return _log_integrals(_minus(naturals(blocks), message), blocks, factor) - whole

    ratios = jax.vmap(alone)(messages, flat) - log_site
    log_c = jax.nn.logsumexp(jnp.where(shares > 0, ratios, -jnp.inf), axis=1, b=shares)
    onward = _onward(seen, factors)

    def row(carry: tuple[Array, Array], s: Array) -> tuple[tuple[Array, Array], None]:
        rest, first = _minus(naturals(blocks), _at(messages, s)), _at(flat, s)

        def pair(between: Float[Array, "j k"], t: Array) -> tuple[Float[Array, "j k"], tuple[Array, Array]]:
            left, second = _minus(rest, _at(messages, t)), _at(flat, t)
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
    seen = look(alpha, settled(model).factors(data), model, blocks, messages)
    tables = seen.tables.reshape((seen.tables.shape[0], -1))
    return jax.nn.logsumexp(tables, axis=1) + _log_scales(alpha, met_by_data(model, blocks), messages)


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


def _minus(left: Natural, right: Natural) -> Natural:
    return jax.tree.map(jnp.subtract, left, right)


def _rows(values: Float[Array, "n *b"]) -> Float[Array, "n b"]:
    return values.reshape((values.shape[0], -1))


# ---- third order -------------------------------------------------------------------------------------------
#
# The perturbative correction to third order, where every datum has latents of its own (thesis 3.8.3, after Opper).
#
# With R_n = F_n/c_n, whose mean under q is 1, and ε_n = 1 − R_n as above,
#
#     E_q[Π_n (1 − ε_n)] ≈ 1 + Σ_{m<n} E[ε_m ε_n] − Σ_{l<m<n} E[ε_l ε_m ε_n]
#     E[ε_m ε_n] = E[R_m R_n] − 1,      E[ε_l ε_m ε_n] = E[R_l R_m] + E[R_l R_n] + E[R_m R_n] − 2 − E[R_l R_m R_n]
#
# Time grows with N³ and with the cube of the number of configurations: this is for small problems.


@eqx.filter_jit
def third_order(
    model: Factored, data: Data, blocks: Blocks, messages: Natural, log_scales: Float[Array, " n"]
) -> tuple[Float[Array, ""], Float[Array, ""], Int[Array, ""]]:
    """(Σ ln c_n, the terms added to 1, triples whose expectation does not exist); `log_scales` are those of the
    sites."""
    factors = settled(model).factors(data)
    blocks = met_by_data(model, blocks)
    flat = written_out(lambda m, factor: factors.terms.expected(m, factor).reshape(-1), blocks, factors.each)
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
