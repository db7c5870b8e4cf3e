"""One pass over the factors: each is taken out, projected anew against the rest, and put back."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ...models import Data
from ...models.enumerable import Enumerable
from ._weights import WeightTerms, weight_terms
from .projection import Blocks, Factor, Natural, is_proper, log_normaliser, naturals, project, with_naturals


class Sites(NamedTuple):
    """The approximation of every factor, f̃_n = s̃_n exp⟨η̃_n, t(θ)⟩, with a leading axis of data."""

    natural: Natural
    log_scale: Float[Array, " n"]


class Factors(NamedTuple):
    """What the data bring, and which of them are there."""

    each: Factor  # leading axis of data
    live: Bool[Array, " n"]
    terms: WeightTerms


class Passed(NamedTuple):
    """What one pass leaves."""

    blocks: Blocks
    sites: Sites
    skipped: Int[Array, ""]  # factors whose cavity, or whose projection, was improper
    trace: Float[Array, " n"]  # ln s, but for A of the prior, after each update


def factors_of(model: Enumerable, data: Data) -> Factors:
    # Messages are differences of large sums: whatever the data's precision, this is float64.
    values = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), data.values)
    each = Factor(model.pair.statistics(values), model.pair.log_base(values))
    return Factors(each, data.weights > 0, weight_terms(model))


def empty_sites(blocks: Blocks, n: int) -> Sites:
    """All factors approximated by one."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape)), naturals(blocks))
    return Sites(zeros, jnp.zeros(n))


def one_pass(
    alpha: float, damping: float, factors: Factors, blocks: Blocks, sites: Sites, order: Int[Array, " n"]
) -> Passed:
    """Refresh every factor once, in the given order."""

    def update(carry: tuple[Natural, Float[Array, ""]], part: Any) -> Any:
        natural, total = carry
        site, log_scale, factor, live = part
        current = with_naturals(blocks, natural)
        cavity = with_naturals(blocks, _subtract(natural, site))
        proper = is_proper(cavity) & live
        projection = project(alpha, factors.terms, cavity, current, factor)
        # A(η) is finite inside the domain only: this is the last line against a failed dual map, too.
        kept = proper & projection.exists & jnp.isfinite(projection.log_site)
        fresh = _subtract(naturals(projection.blocks), naturals(cavity)), projection.log_site
        old = site, log_scale
        # f̃ ← f̃_old^ε f̃_new^(1−ε), scales included.
        damped = jax.tree.map(lambda a, b: jnp.where(kept, b + damping * (a - b), a), old, fresh)
        change = _subtract(damped[0], site)
        natural = jax.tree.map(jnp.add, natural, change)
        total = total + damped[1] - log_scale
        log_s = total + log_normaliser(with_naturals(blocks, natural))
        return (natural, total), (*damped, live & ~kept, log_s)

    parts = (sites.natural, sites.log_scale, factors.each, factors.live)
    parts = jax.tree.map(lambda leaf: leaf[order], parts)
    first = naturals(blocks), jnp.sum(sites.log_scale)
    (natural, _), (site, log_scale, skipped, trace) = jax.lax.scan(update, first, parts)
    back = jnp.argsort(order)
    site, log_scale = jax.tree.map(lambda leaf: leaf[back], (site, log_scale))
    return Passed(with_naturals(blocks, natural), Sites(site, log_scale), jnp.sum(skipped), trace)


def factor_order(key: Key[Array, ""], n: int, schedule: str) -> Int[Array, " n"]:
    return jnp.arange(n) if schedule == "sequential" else jax.random.permutation(key, n)


def _subtract(left: Any, right: Any) -> Any:
    return jax.tree.map(jnp.subtract, left, right)
