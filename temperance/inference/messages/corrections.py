"""The second-order correction to the log evidence (thesis 3.8.3, after Opper 2006).

With F_n = f_n/f̃_n, the ratio of a factor to its approximation, the evidence is exactly s·E_q[Π_n F_n]. Let
c_n = E_q[F_n], which is 1 at a fixed point of EP, and ε_n = 1 − F_n/c_n, whose mean is zero. Then

    ln p(x) = ln s + Σ_n ln c_n + ln E_q[Π_n (1 − ε_n)] ≈ ln s + Σ_n ln c_n + ln(1 + Σ_{m<n} E_q[ε_m ε_n]).

Products of two ratios are sums of K² members of the family, so every expectation is a log normaliser.
"""

from __future__ import annotations

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
    Natural,
    WeightTerms,
    exact_prior,
    log_normaliser,
    naturals,
    weights_of,
    with_naturals,
)
from .sweep import Sites, factors_of


def corrected(found: tuple[Array, Array, Array, Array]) -> float:
    """ln s with the correction, from what `orders` finds; a sentence where it does not exist."""
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
