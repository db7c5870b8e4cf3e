"""The local step of LDA on an NVIDIA GPU: a kernel that goes through all iterations of a document at once.

What bounds the step on plain arrays is the memory: the topics of a document's words, gathered beforehand, are read
twice an iteration. Here a few rows of the table of topics at a time are loaded from where they are (the table stays
in the second-level cache), and both products are made while they are in registers; so is γ, from the first iteration
to the last. Documents end when they have converged, and after their own last word.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, ArrayLike, Float, Int

from ..numerics.special import digamma

_NUMBERS = 64  # four-byte numbers of the table that a thread holds at a time (measured)
_LANES = 32
_WIDE = 512  # topics from which on two warps share a document


class Fused(NamedTuple):
    gamma: Float[Array, "n k"]
    share: Float[Array, "n k"]  # exp{power · (ψ(γ) − max ψ(γ))}
    top: Float[Array, " n"]  # power · max ψ(γ)
    norm: Float[Array, "n width"]  # Σ_k share · table, of words with a count


def fused_step(
    table: Float[Array, "v k"],
    words: Int[Array, "n width"],
    counts: Float[Array, "n width"],
    prior: Float[Array, " k"],
    gamma: Float[Array, "n k"],
    latent: Float[Array, " n"],
    steps: ArrayLike,
    tolerance: ArrayLike,
    floor: float,
    interpret: bool = False,
) -> Fused:
    """At most `steps` updates γ ← prior + power · share ⊙ Σ_v (count_v / norm_v) table_v of each document, all in the
    precision of the table; zeros of the counts are at the ends."""
    if not interpret:
        # Said at every compilation, to users who can do nothing about it: without Triton plain arrays take over.
        warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated", DeprecationWarning)
    n, width = words.shape
    topics, kind = table.shape[1], table.dtype
    filled = pl.next_power_of_2(topics)
    warps = 2 if filled >= _WIDE else 1
    rows = _NUMBERS * 4 // kind.itemsize * _LANES * warps // filled
    rows = max(1, min(rows, pl.next_power_of_2(width)))
    spare, more = (0, filled - topics), (0, -width % rows)
    entries = jnp.max(jnp.where(counts > 0, 1 + jnp.arange(width)[None], 0), axis=1)
    given = (
        jnp.asarray(steps, jnp.int32)[None],
        jnp.asarray(tolerance, kind)[None],
        -(-entries // rows).astype(jnp.int32),
        latent.astype(kind),
        jnp.pad(words, ((0, 0), more)),
        jnp.pad(counts, ((0, 0), more)),
        jnp.pad(prior.astype(kind), spare, constant_values=1.0),
        jnp.pad(gamma.astype(kind), ((0, 0), spare), constant_values=1.0),
        jnp.pad(table, ((0, 0), spare)),
    )

    def mine(array: Any) -> pl.BlockSpec:
        return pl.BlockSpec((None, array.shape[1]), lambda d: (d, 0))

    def whole(array: Any) -> pl.BlockSpec:
        return pl.BlockSpec(array.shape, lambda d: (0,) * len(array.shape))

    out = tuple(jax.ShapeDtypeStruct(shape, kind) for shape in ((n, filled), (n, filled), (n,), (n, width + more[1])))
    each = (whole, whole, whole, whole, mine, mine, whole, mine, whole), (mine, mine, whole, mine)
    found = pl.pallas_call(
        functools.partial(_document, topics=topics, rows=rows, floor=floor),
        out_shape=out,
        grid=(n,),
        in_specs=[spec(array) for spec, array in zip(each[0], given, strict=True)],
        out_specs=tuple(spec(array) for spec, array in zip(each[1], out, strict=True)),
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=interpret,
        name="topics_of_documents",
    )(*given)
    # Beyond the last word of a document the kernel has written nothing.
    norm = jnp.where(counts > 0, found[3][:, :width], 1.0)
    return Fused(found[0][:, :topics], found[1][:, :topics], found[2], norm)


def _document(  # type: ignore[no-untyped-def]
    steps_ref, tolerance_ref, rounds_ref, latent_ref, words_ref, counts_ref, prior_ref, gamma_ref, table_ref,
    gamma_out, share_out, top_out, norm_out, *, topics, rows, floor,
):  # fmt: skip
    d = pl.program_id(0)
    steps, tolerance, rounds, power, prior = steps_ref[0], tolerance_ref[0], rounds_ref[d], latent_ref[d], prior_ref[:]
    real = jax.lax.broadcasted_iota(jnp.int32, prior.shape, 0) < topics

    def spread(gamma):  # type: ignore[no-untyped-def]
        level = jnp.where(real, power * digamma(gamma), -jnp.inf)
        top = jnp.max(level)
        return jnp.exp(level - top), top

    def load(i, share):  # type: ignore[no-untyped-def]
        here = pl.ds(i * rows, rows)
        block = table_ref[words_ref[here], :]
        return here, block, jnp.maximum(jnp.sum(block * share[None], axis=1), floor)

    def update(carry):  # type: ignore[no-untyped-def]
        count, gamma, _ = carry
        share, _ = spread(gamma)

        def visit(i, total):  # type: ignore[no-untyped-def]
            here, block, norm = load(i, share)
            return total + jnp.sum((counts_ref[here] / norm)[:, None] * block, axis=0)

        fresh = prior + power * share * jax.lax.fori_loop(0, rounds, visit, jnp.zeros_like(gamma))
        return count + 1, fresh, jnp.sum(jnp.abs(fresh - gamma)) / topics <= tolerance

    def unfinished(carry):  # type: ignore[no-untyped-def]
        return (carry[0] < steps) & ~carry[2]

    start = (jnp.zeros((), jnp.int32), gamma_ref[:], jnp.zeros((), bool))
    gamma = jax.lax.while_loop(unfinished, update, start)[1]
    share, top = spread(gamma)
    gamma_out[:], share_out[:], top_out[d] = gamma, share, top

    def write(i, carry):  # type: ignore[no-untyped-def]
        here, _, norm = load(i, share)
        norm_out[here] = norm
        return carry

    jax.lax.fori_loop(0, rounds, write, jnp.zeros((), jnp.int32))
