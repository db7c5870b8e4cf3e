"""The local step of LDA on an NVIDIA GPU: one kernel makes all iterations of a document.

On plain arrays, memory bounds the speed of this step: the topics of a document's words, gathered beforehand, are read
twice per iteration. This kernel loads a few rows of the table of topics at a time (the table stays in the second-level
cache) and makes both products while these rows are in registers. γ stays in registers from the first iteration to the
last. A document's iterations end when it has converged, and its loops end at its last word. If documents have powers of
their own, the table holds logarithms, which are exponentiated in registers. The kernels are in `topics.cu`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from . import cuda

_SOURCE = Path(__file__).with_name("topics.cu")
_HELD = 64  # bytes of a row that a thread holds, at least
_AHEAD = 256  # bytes that a thread asks for before it waits
_MANY = 256  # topics up to which four warps share a document, rather than eight (measured)
_PARTS = 4  # parts in which the documents of a word are added up: some words occur in thousands


class Fused(NamedTuple):
    gamma: Float[Array, "n k"]
    share: Float[Array, "n k"]  # exp{power · (ψ(γ) − max ψ(γ))}
    top: Float[Array, " n"]  # power · max ψ(γ)
    norm: Float[Array, "n width"]  # Σ_k share · topic, of words with a count
    level: Float[Array, "n width"] | None  # if documents have own powers: Σ_k share · topic^power · log topic / norm


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
) -> Fused:
    """Make at most `steps` updates γ ← prior + power · share ⊙ Σ_v (count_v / norm_v) topic_v of each document, all in
    the precision of the table. Counts are zero-padded at the end. `latent` is the power of the proportions; `own` is
    the power of each document's words, and where it is given the table holds the logarithms of the topics."""
    n, width = words.shape
    topics, kind = table.shape[1], table.dtype
    tile = _Tile(topics, kind, own is not None, warps=4 if topics <= _MANY else 8)
    prior = jnp.atleast_2d(prior)
    powers = jnp.stack([latent, latent if own is None else own], axis=1).ravel()
    limits = jnp.stack([jnp.asarray(tolerance, kind), jnp.asarray(floor, kind)])
    given = (
        _integers(width, topics, tile.stride, steps, len(prior)),
        jnp.concatenate([limits, powers.astype(kind)]),
        _lengths(counts),
        words,
        counts,
        jnp.concatenate([prior, gamma]).astype(kind),
        tile.fill(table),
    )
    shapes = [(n, topics), (n, topics), (n,), (n, width), *([] if own is None else [(n, width)])]
    return Fused(*tile.launch("documents", (n, 1), shapes, given), *([None] if own is None else []))


def fused_norms(
    table: Float[Array, "v k"],
    words: Int[Array, "n width"],
    counts: Float[Array, "n width"],
    share: Float[Array, "n k"],
) -> Float[Array, "n width"]:
    """Σ_k share · topic of each word with a count, and 1 in the padding."""
    n, width = words.shape
    tile = _Tile(table.shape[1], table.dtype, False, warps=4)
    sizes = _integers(width, tile.stride)
    given = (sizes, _lengths(counts), words, tile.fill(share.astype(table.dtype)), tile.fill(table))
    return tile.launch("norms", (n, 1), [(n, width)], given)[0]


def fused_sums(
    words: Int[Array, "n width"],
    ratios: Float[Array, "n width"],
    share: Float[Array, "n k"],
    n_words: int,
    own: tuple[Float[Array, "v k"], Float[Array, " n"]] | None = None,
) -> Float[Array, "v k"]:
    """Σ_d ratio · share over the documents that contain a word, in the precision of the shares. With `own` (log topics,
    and powers of documents) each share is multiplied by topic^power. Entries are sorted by word first: adding them to
    the result one by one would take as long as the kernel that made them."""
    n, width = words.shape
    topics, kind = share.shape[1], share.dtype
    tile = _Tile(topics, kind, own is not None, warps=2)
    # The padding of documents is sorted after all words.
    entries = jnp.where(ratios > 0, words, n_words).ravel()
    sorted_words, order = jax.lax.sort((entries, jnp.arange(n * width, dtype=jnp.int32)), num_keys=1, is_stable=False)
    starts = jnp.searchsorted(sorted_words, jnp.arange(n_words + 1, dtype=words.dtype), method="scan_unrolled")
    sizes = _integers(n_words, topics, tile.stride)
    given = [sizes, starts.astype(jnp.int32), order // width, ratios.ravel()[order], tile.fill(share)]
    if own is not None:
        given += [tile.fill(own[0].astype(kind)), own[1].astype(kind)]
    return jnp.sum(tile.launch("words", (n_words, _PARTS), [(_PARTS, n_words, topics)], given)[0], axis=0)


class _Tile:
    """How the threads of a block share the rows of a table."""

    def __init__(self, topics: int, kind: Any, own: bool, warps: int):
        self.kind, self.threads = jnp.dtype(kind), 32 * warps
        wide = 16 // self.kind.itemsize
        self.stride = -(-topics // wide) * wide
        lanes = 4
        while lanes < 32 and lanes * _HELD < self.stride * self.kind.itemsize:
            lanes *= 2
        packs = max(_HELD // 16, -(-self.stride // (lanes * wide)))
        self.options = (
            f"-DREAL={'float' if self.kind.itemsize == 4 else 'double'}",
            f"-DLANES={lanes}",
            f"-DPACKS={packs}",
            f"-DAHEAD={max(1, _AHEAD // (16 * packs))}",
            f"-DWARPS={warps}",
            f"-DOWN={int(own)}",
        )

    def fill(self, rows: Float[Array, "n k"]) -> Float[Array, "n stride"]:
        """The rows, padded so that each begins at a multiple of sixteen bytes."""
        return jnp.pad(rows, ((0, 0), (0, self.stride - rows.shape[1])))

    def launch(self, name: str, grid: tuple[int, int], shapes: Any, given: Any) -> list[Array]:
        results = [jax.ShapeDtypeStruct(shape, self.kind) for shape in shapes]
        return cuda.launch(_SOURCE, self.options, name, grid, self.threads, results, given)


def _lengths(counts: Float[Array, "n width"]) -> Int[Array, " n"]:
    """The number of places of each document up to and including its last word."""
    return jnp.max(jnp.where(counts > 0, 1 + jnp.arange(counts.shape[1], dtype=jnp.int32)[None], 0), axis=1)


def _integers(*values: ArrayLike) -> Int[Array, " values"]:
    return jnp.stack([jnp.asarray(value, jnp.int32) for value in values])
