"""One pass over the factors: each is taken out, projected anew against the rest, and put back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ...kernels import small_messages
from ...kernels.gaussian_messages import has_kernel, host_pass, when
from ...models import Data
from ...models._answers import Enumerable
from ...models._factors import Blocks, Factor, Factors, Natural, log_normaliser, naturals, with_naturals
from ...programs.one_call import one_call
from ._tables import MOST_ENTRIES
from ._tables import join as entry_join
from ._tables import split as entry_split
from .projection import LIMITS, project


class Sites(NamedTuple):
    """The approximation of every factor, f̃_n = s̃_n exp⟨η̃_n, t(θ)⟩, with a leading axis of data."""

    natural: Natural
    log_scale: Float[Array, " n"]


class Passed(NamedTuple):
    """The result of one pass."""

    blocks: Blocks
    sites: Sites
    skipped: Int[Array, ""]  # factors whose cavity, or whose projection, was improper
    trace: Float[Array, " n"] | None  # ln s after each update, without A of the prior


def factors_of(model: Enumerable, data: Data) -> Factors:
    found = model.factors(data)
    few = small_messages.when(model, data)
    return Factors(found.each, found.live, found.terms, found.starts, gaussian=when(model, data), few_columns=few)


def empty_sites(blocks: Blocks, n: int) -> Sites:
    """Sites at the start, with every factor approximated by the constant 1."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape)), naturals(blocks))
    return Sites(zeros, jnp.zeros(n))


def one_pass(
    alpha: float,
    damping: float,
    factors: Factors,
    blocks: Blocks,
    sites: Sites,
    order: Int[Array, " n"],
    trace: bool = False,
    kernel: bool = True,
) -> Passed:
    """Refresh every factor once, in the given order; with a `kernel` or in closed form where there is one."""
    if kernel and not trace and has_kernel(alpha, factors.gaussian, factors.terms, blocks):
        given = (naturals(blocks), sites.natural, sites.log_scale, order)
        natural, messages, scales, skipped = host_pass(alpha, damping, LIMITS, factors, *given)
        return Passed(with_naturals(blocks, natural), Sites(messages, scales), skipped, None)
    if kernel and not trace and small_messages.suits(alpha, factors.few_columns, factors.terms, blocks):
        given = (naturals(blocks), sites.natural, sites.log_scale, order)
        natural, messages, scales, skipped = small_messages.short_pass(damping, factors, *given)
        return Passed(with_naturals(blocks, natural), Sites(messages, scales), skipped, None)

    like, like_datum = naturals(blocks), factors.each.statistics

    def update(carry: tuple[Any, Float[Array, ""]], part: Any) -> Any:
        entries, log_product = carry
        old, old_scale, datum, log_base, live = part
        taken_out = jax.tree.map(jnp.subtract, entries, old)
        current, cavity = with_naturals(blocks, _join(entries, like)), with_naturals(blocks, _join(taken_out, like))
        factor = Factor(entry_join(datum, like_datum), log_base)
        projection = project(alpha, factors.terms, cavity, current, factor)
        # Log normalisers are finite only inside the domain, so this also catches an improper cavity.
        kept = live & projection.exists & jnp.isfinite(projection.log_site)
        new = jax.tree.map(jnp.subtract, _split(naturals(projection.blocks)), taken_out)
        # f̃ ← f̃_old^ε f̃_new^(1−ε), scales included.
        site, log_scale = jax.tree.map(
            lambda a, b: jnp.where(kept, b + damping * (a - b), a), (old, old_scale), (new, projection.log_site)
        )
        entries = jax.tree.map(jnp.add, taken_out, site)
        log_product = log_product + log_scale - old_scale
        log_s = log_product + log_normaliser(with_naturals(blocks, _join(entries, like))) if trace else None
        return (entries, log_product), (site, log_scale, live & ~kept, log_s)

    each = factors.each
    parts = (_split(sites.natural), sites.log_scale, entry_split(each.statistics), each.log_base, factors.live)
    first = _split(like), jnp.sum(sites.log_scale)
    # Small matrices need no LAPACK, so a factor is then refreshed in one piece of compiled code.
    few = all(math.prod(leaf.shape[2:]) <= MOST_ENTRIES for leaf in jax.tree.leaves(sites.natural))
    each_factor = one_call(update, wanted=few)
    carry, (site, log_scale, skipped, log_s) = jax.lax.scan(each_factor, first, jax.tree.map(lambda a: a[order], parts))
    back = jnp.argsort(order)
    site, log_scale = jax.tree.map(lambda leaf: leaf[back], (site, log_scale))
    blocks = with_naturals(blocks, _join(carry[0], like))
    return Passed(blocks, Sites(_join(site, like), log_scale), jnp.sum(skipped), log_s)


def _split(natural: Natural) -> Any:
    return {name: entry_split(vector) for name, vector in natural.items()}


def _join(entries: Any, like: Natural) -> Natural:
    return {name: entry_join(part, like[name]) for name, part in entries.items()}


def factor_order(key: Key[Array, ""], n: int, schedule: str) -> Int[Array, " n"]:
    return jnp.arange(n) if schedule == "sequential" else jax.random.permutation(key, n)
