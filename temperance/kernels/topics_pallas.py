"""The local step of LDA on an NVIDIA GPU: a kernel that goes through all iterations of a document at once.

What bounds the step on plain arrays is the memory: the topics of a document's words, gathered beforehand, are read
twice an iteration. Here a few rows of the table of topics at a time are loaded from where they are (the table stays
in the second-level cache), and both products are made while they are in registers; so is γ, from the first iteration
to the last. Documents end when they have converged, and after their own last word. Where each has a power of its own
the table holds logarithms, and what is loaded of it is exponentiated in registers.

JAX deprecates Pallas's Triton backend, and says so when the kernel is compiled. Where the backend is gone
(`_has_triton` of `models/topics/walk.py` looks for it) the same step runs on plain arrays through XLA, with
the same results. Mosaic GPU is the backend that JAX keeps, and the one to write this kernel for.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, ArrayLike, Float, Int

from ..numerics.special import digamma

_NUMBERS = 64  # four-byte table entries that a thread holds at a time (measured)
_LANES = 32
_WIDE = 512  # fewest topics for which two warps share a document
_PARTS = 4  # in which the documents of a word are added up: of some words there are thousands


class Fused(NamedTuple):
    gamma: Float[Array, "n k"]
    share: Float[Array, "n k"]  # exp{power · (ψ(γ) − max ψ(γ))}
    top: Float[Array, " n"]  # power · max ψ(γ)
    norm: Float[Array, "n width"]  # Σ_k share · topic, of words with a count
    level: Float[Array, "n width"] | None  # with powers of their own: Σ_k share · topic^power · log topic / norm


def fused_step(
    table: Float[Array, "v k"],
    words: Int[Array, "n width"],
    counts: Float[Array, "n width"],
    prior: Float[Array, "*n k"],
    gamma: Float[Array, "n k"],
    latent: Float[Array, " n"],
    steps: ArrayLike,
    tolerance: ArrayLike,
    floor: float,
    own: Float[Array, " n"] | None = None,
    interpret: bool = False,
) -> Fused:
    """At most `steps` updates γ ← prior + power · share ⊙ Σ_v (count_v / norm_v) topic_v of each document, all in the
    precision of the table; zeros of the counts are at the ends. The topics are the table; or with powers that words
    have in each document, `own`, the table holds their logarithms."""
    n, width = words.shape
    topics, kind = table.shape[1], table.dtype
    tile = _tile(topics, width, kind)
    given = (
        (_whole, jnp.asarray(steps, jnp.int32)[None]),
        (_whole, jnp.asarray(tolerance, kind)[None]),
        (_whole, _rounds(counts, tile.rows)),
        (_whole, latent.astype(kind)),
        (_whole, jnp.ones(n, kind) if own is None else own.astype(kind)),
        (_mine, jnp.pad(words, ((0, 0), tile.more))),
        (_mine, jnp.pad(counts, ((0, 0), tile.more))),
        (_whole, jnp.pad(prior.astype(kind), tile.spare, constant_values=1.0))
        if prior.ndim == 1
        else (_mine, jnp.pad(prior.astype(kind), ((0, 0), tile.spare), constant_values=1.0)),
        (_mine, jnp.pad(gamma.astype(kind), ((0, 0), tile.spare), constant_values=1.0)),
        (_whole, jnp.pad(table, ((0, 0), tile.spare))),
    )
    by_topic, by_word = (n, topics + tile.spare[1]), (n, width + tile.more[1])
    out = [(_mine, by_topic), (_mine, by_topic), (_whole, (n,)), (_mine, by_word)]
    if own is not None:
        out.append((_mine, by_word))
    kernel = functools.partial(_document, topics=topics, rows=tile.rows, floor=floor, own=own is not None)
    found = _call(kernel, (n,), given, out, tile, interpret)
    # The kernel writes nothing beyond the last word of a document.
    seen = counts > 0
    norm = jnp.where(seen, found[3][:, :width], 1.0)
    level = None if own is None else jnp.where(seen, found[4][:, :width], 0.0)
    return Fused(found[0][:, :topics], found[1][:, :topics], found[2], norm, level)


def fused_norms(
    table: Float[Array, "v k"],
    words: Int[Array, "n width"],
    counts: Float[Array, "n width"],
    share: Float[Array, "n k"],
    interpret: bool = False,
) -> Float[Array, "n width"]:
    """Σ_k share · table of the words that have a count, and 1 of the others."""
    n, width = words.shape
    tile = _tile(table.shape[1], width, table.dtype)
    given = (
        (_whole, _rounds(counts, tile.rows)),
        (_mine, jnp.pad(words, ((0, 0), tile.more))),
        (_mine, jnp.pad(share.astype(table.dtype), ((0, 0), tile.spare))),
        (_whole, jnp.pad(table, ((0, 0), tile.spare))),
    )
    out = [(_mine, (n, width + tile.more[1]))]
    found = _call(functools.partial(_mixed, rows=tile.rows), (n,), given, out, tile, interpret)
    return jnp.where(counts > 0, found[0][:, :width], 1.0)


def fused_sums(
    words: Int[Array, "n width"],
    ratios: Float[Array, "n width"],
    share: Float[Array, "n k"],
    n_words: int,
    own: tuple[Float[Array, "v k"], Float[Array, " n"]] | None = None,
    interpret: bool = False,
) -> Float[Array, "v k"]:
    """Σ_d ratio · share of the documents that a word is in, in the precision of the shares; with `own`, logarithms of
    topics and powers of documents, each share times topic^power. Entries are sorted by word first: to add them to their
    rows of the result one by one takes as long as the kernel that made them."""
    n, width = words.shape
    topics, kind = share.shape[1], share.dtype
    tile = _tile(topics, width, kind)
    # What fills up a document comes after all words.
    entries = jnp.where(ratios > 0, words, n_words).ravel()
    sorted_words, order = jax.lax.sort((entries, jnp.arange(n * width, dtype=jnp.int32)), num_keys=1, is_stable=False)
    starts = jnp.searchsorted(sorted_words, jnp.arange(n_words + 1, dtype=words.dtype), method="scan_unrolled")
    given = [
        (_whole, starts.astype(jnp.int32)),
        (_whole, jnp.pad(order // width, (0, tile.rows))),
        (_whole, jnp.pad(ratios.ravel()[order], (0, tile.rows))),
        (_whole, jnp.pad(share, ((0, 0), tile.spare))),
    ]
    if own is not None:
        given += [(_whole, own[1].astype(kind)), (_mine, jnp.pad(own[0].astype(kind), ((0, 0), tile.spare)))]
    out = [(_parts, (_PARTS, n_words, topics + tile.spare[1]))]
    kernel = functools.partial(_word, rows=tile.rows, own=own is not None)
    return jnp.sum(_call(kernel, (n_words, _PARTS), given, out, tile, interpret)[0], axis=0)[:, :topics]


class _Tile(NamedTuple):
    """How much of the table is held at a time, and what fills up the axes of topics and words."""

    rows: int
    warps: int
    spare: tuple[int, int]
    more: tuple[int, int]


def _tile(topics: int, width: int, kind: Any) -> _Tile:
    filled = pl.next_power_of_2(topics)
    warps = 2 if filled >= _WIDE else 1
    rows = _NUMBERS * 4 // kind.itemsize * _LANES * warps // filled
    rows = max(1, min(rows, pl.next_power_of_2(width)))
    return _Tile(rows, warps, (0, filled - topics), (0, -width % rows))


def _rounds(counts: Float[Array, "n width"], rows: int) -> Int[Array, " n"]:
    """How often so many rows, until a document's last word."""
    entries = jnp.max(jnp.where(counts > 0, 1 + jnp.arange(counts.shape[1])[None], 0), axis=1)
    return -(-entries // rows).astype(jnp.int32)


def _mine(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec((None, shape[1]), lambda d, *_: (d, 0))


def _whole(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec(shape, lambda *_: (0,) * len(shape))


def _parts(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec((None, None, shape[2]), lambda v, part: (part, v, 0))


def _call(kernel: Any, grid: tuple[int, ...], given: Any, out: Any, tile: _Tile, interpret: bool) -> Any:
    """The kernel for each document or word; arrays are given, and shapes asked for, with the part of them it sees."""
    kind = given[-1][1].dtype
    return pl.pallas_call(
        kernel,
        out_shape=tuple(jax.ShapeDtypeStruct(shape, kind) for _, shape in out),
        grid=grid,
        in_specs=[spec(array.shape) for spec, array in given],
        out_specs=tuple(spec(shape) for spec, shape in out),
        compiler_params=triton.CompilerParams(num_warps=tile.warps, num_stages=1),
        interpret=interpret,
        name="topics_of_documents",
    )(*(array for _, array in given))


def _document(  # type: ignore[no-untyped-def]
    steps_ref, tolerance_ref, rounds_ref, latent_ref, own_ref, words_ref, counts_ref, prior_ref, gamma_ref, table_ref,
    gamma_out, share_out, top_out, norm_out, *level_out, topics, rows, floor, own,
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
        level = table_ref[words_ref[here], :]
        block = jnp.exp(own_ref[d] * level) if own else level
        return here, level, block, jnp.maximum(jnp.sum(block * share[None], axis=1), floor)

    def update(carry):  # type: ignore[no-untyped-def]
        count, gamma, _ = carry
        share, _ = spread(gamma)

        def visit(i, total):  # type: ignore[no-untyped-def]
            here, _, block, norm = load(i, share)
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
        here, level, block, norm = load(i, share)
        norm_out[here] = norm
        if own:
            level_out[0][here] = jnp.sum(block * share[None] * level, axis=1) / norm
        return carry

    jax.lax.fori_loop(0, rounds, write, jnp.zeros((), jnp.int32))


def _mixed(rounds_ref, words_ref, share_ref, table_ref, norm_out, *, rows):  # type: ignore[no-untyped-def]
    share = share_ref[:]

    def write(i, carry):  # type: ignore[no-untyped-def]
        here = pl.ds(i * rows, rows)
        norm_out[here] = jnp.sum(table_ref[words_ref[here], :] * share[None], axis=1)
        return carry

    jax.lax.fori_loop(0, rounds_ref[pl.program_id(0)], write, jnp.zeros((), jnp.int32))


def _word(starts_ref, documents_ref, ratios_ref, share_ref, *refs, rows, own):  # type: ignore[no-untyped-def]
    *given, out = refs
    v, part = pl.program_id(0), pl.program_id(1)
    first, last = starts_ref[v] + part * rows, starts_ref[v + 1]
    level: Any = given[1][:] if own else None

    def add(i, total):  # type: ignore[no-untyped-def]
        start = first + i * (rows * _PARTS)
        here = pl.ds(start, rows)
        document = documents_ref[here]
        ratio = jnp.where(start + jax.lax.broadcasted_iota(jnp.int32, (rows,), 0) < last, ratios_ref[here], 0.0)
        share = share_ref[document, :]
        if own:
            share = share * jnp.exp(given[0][document][:, None] * level[None])
        return total + jnp.sum(ratio[:, None] * share, axis=0)

    rounds = (jnp.maximum(last - first, 0) + rows * _PARTS - 1) // (rows * _PARTS)
    out[:] = jax.lax.fori_loop(0, rounds, add, jnp.zeros((share_ref.shape[1],), share_ref.dtype))
