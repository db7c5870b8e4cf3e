"""LDA on an accelerator at the shapes of the New York Times corpus: 1.7 million documents, 8,000 words, K = 500,
128 distinct words a document, 20 local iterations, float32. Seconds of a pass with the corpus on the device and
streamed from host memory, beside the least that the arithmetic, the cache and the memory of the device allow.

    python -m benchmarks.topics_gpu [--documents N] [--batch B] [--topics K] [--width W] [--words V] [--skip-stream]

A pass is the difference of runs of different length, so that compilation, copying the corpus and the final bound
cancel. On a machine without an accelerator it runs on the CPU: choose small sizes.
"""

from __future__ import annotations

import argparse
import sys

import jax
import numpy as np

import temperance as tp
from temperance.data import Corpus

from ._timing import seconds

ITERATIONS = 20
PIECE = 2**16  # documents of a piece of the stream
# Of an H200: bytes a second of the memory and of the second-level cache (as a kernel that did nothing else read it),
# float32 operations a second.
BANDWIDTH, CACHE, ARITHMETIC = 4.8e12, 7.6e12, 67e12


def simulate(documents: int, words: int, width: int) -> Corpus:
    """Word frequencies as in a language; every document has `width` distinct words (a few are drawn twice)."""
    rng = np.random.default_rng(0)
    weight = 1.0 / (10.0 + np.arange(words))
    table = np.repeat(np.arange(words, dtype=np.int32), np.ceil(1e5 * weight / weight.sum()).astype(int))
    drawn = table[rng.integers(0, len(table), (documents, width))]
    drawn.sort(axis=1)
    counts = np.minimum(rng.geometric(0.6, (documents, width)), 20).astype(np.float32)
    return Corpus(np.arange(documents + 1, dtype=np.int64) * width, drawn.ravel(), counts.ravel(), words)


def roofline(documents: int, width: int, topics: int) -> dict[str, float]:
    """Seconds of a pass if only one thing counted: the arithmetic, two products an iteration and one for the norms; the
    cache, if every row of the topics came from there once an iteration; or the memory, if the topics of a document's
    words were gathered beforehand and read twice an iteration, as on plain arrays."""
    block = documents * width * topics
    return {
        "arithmetic": 4.0 * block * (ITERATIONS + 1) / ARITHMETIC,
        "the cache": 4.0 * block * (ITERATIONS + 1) / CACHE,
        "memory, if gathered": 4.0 * block * (2 * ITERATIONS + 3) / BANDWIDTH,
    }


def a_pass(data: Corpus | tp.Stream, topics: int, batch: int, passes: tuple[int, int]) -> float:
    """Seconds for as many documents as there are (what fills no minibatch is left out of a pass)."""
    model = tp.LDA(topics, engine="device", precision="single", local_tol=0.0)

    def run(count: int) -> float:
        method = tp.SVI(batch_size=batch, passes=count, local_steps=ITERATIONS)
        return seconds(lambda: tp.fit(model, data, method, progress=False))

    run(passes[0])
    few, many = (min(run(count) for _ in range(2)) for count in passes)
    pieces, piece = (data.pieces_per_pass, data.piece_rows) if isinstance(data, tp.Stream) else (1, len(data))
    return (many - few) / (passes[1] - passes[0]) * len(data) / (pieces * (piece // batch) * batch)


def main(arguments: tuple[str, ...] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    on_cpu = jax.default_backend() == "cpu"
    parser.add_argument("--documents", type=int, default=4096 if on_cpu else 1_700_000)
    parser.add_argument("--batch", type=int, default=512 if on_cpu else 4096)
    parser.add_argument("--topics", type=int, default=20 if on_cpu else 500)
    parser.add_argument("--width", type=int, default=32 if on_cpu else 128)
    parser.add_argument("--words", type=int, default=1000 if on_cpu else 8000)
    parser.add_argument("--skip-stream", action="store_true")
    given = parser.parse_args([] if arguments is None else list(arguments))
    print(f"{jax.devices()[0].device_kind}: {vars(given)}", flush=True)
    corpus = simulate(given.documents, given.words, given.width)
    resident = a_pass(corpus, given.topics, given.batch, (1, 3))
    print(f"resident: {resident:.2f} s a pass, {given.documents / resident:,.0f} documents/s", flush=True)
    if not on_cpu:
        for name, least in roofline(given.documents, given.width, given.topics).items():
            print(f"roofline of an H200 by {name}: {least:.2f} s", flush=True)
    if given.skip_stream:
        return
    piece = max(given.batch, min(given.documents // 2, PIECE))
    streamed = a_pass(tp.Stream(corpus, piece_rows=piece), given.topics, given.batch, (1, 3))
    print(f"streamed: {streamed:.2f} s a pass, {streamed / resident:.2f} times resident", flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
