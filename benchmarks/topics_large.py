"""Topics on an accelerator: the local step by the kernel and by plain arrays, structural topics of a million documents
of 200 words, and the shares of 500 topics in 30 million documents of 97 distinct words.

    python -m benchmarks.topics_large [--scale 1.0] [--part routes structural inference] [--out FILE.json]

`--scale` shrinks the numbers of documents. The 30 million documents are a million, stored in a folder and streamed from
it again and again: what takes time is there each time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import temperance as tp
from temperance.data import Corpus, open_corpus, store_corpus
from temperance.data.documents import given_documents
from temperance.data.stream import ahead
from temperance.models.topics.walk import device_local_step

from .topics_gpu import simulate

WORDS, BATCH, WIDTH, STEPS = 8000, 4096, 128, 20
PIECE = 2**18  # documents of a piece of the stream


# ---- the local step ------------------------------------------------------------------------------------------------


def routes(scale: float) -> list[dict[str, Any]]:
    """Milliseconds of a minibatch with its statistics, and the largest error of γ relative to double precision."""
    shapes = ((100, True), (100, False), (500, True), (500, False))
    return [row for topics, full in shapes for row in _routes(topics, full, max(64, round(BATCH * scale)))]


def _routes(topics: int, full: bool, batch: int) -> list[dict[str, Any]]:
    """Documents are full, or cut to half their words on average."""
    rng = np.random.default_rng(1)
    corpus = simulate(batch, WORDS, WIDTH)
    words, counts = corpus.words.reshape(batch, WIDTH), corpus.counts.reshape(batch, WIDTH).copy()
    if not full:
        counts[np.arange(WIDTH)[None] >= rng.integers(1, WIDTH + 1, (batch, 1))] = 0.0
    x = given_documents(jnp.asarray(words), jnp.asarray(counts))
    log_topics = jnp.log(jnp.asarray(rng.dirichlet(np.full(WORDS, 0.05), topics) + 1e-12))
    prior = jnp.asarray(np.full(topics, 1.0 / topics))
    gamma = jnp.asarray(
        1.0 / topics + counts.sum(axis=1, dtype=np.float64)[:, None] * np.full((1, topics), 1.0 / topics)
    )
    each = (jnp.ones(batch), jnp.asarray(1.0), jnp.ones(batch))

    def run(single: bool, route: Any, steps: int) -> Callable[[], Any]:
        step = jax.jit(partial(device_local_step, tolerance=0.0, single=single, route=route))
        return lambda: step(log_topics, x, each, prior, gamma, steps=steps)

    truth = run(False, "kept", STEPS)()
    found = []
    for route in ("kernel", "afresh", "kept"):
        if route == "kernel" and jax.default_backend() == "cpu":
            continue
        local = run(True, route, STEPS)()
        row = {"topics": topics, "full": full, "route": route}
        for name in ("gamma", "messages"):
            one, other = (np.asarray(getattr(value, name)) for value in (local, truth))
            row[f"error of {name}"] = float(np.max(np.abs(one - other)) / np.max(np.abs(other)))
        row |= {"ms": _least_ms(run(True, route, STEPS)), "ms without steps": _least_ms(run(True, route, 0))}
        print(row, flush=True)
        found.append(row)
    return found


def _least_ms(call: Callable[[], Any], rounds: int = 15) -> float:
    jax.block_until_ready(call())
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - began)
    return 1e3 * min(taken)


# ---- structural topics ---------------------------------------------------------------------------------------------


def structural(scale: float) -> dict[str, Any]:
    """A million documents of 200 words, 100 topics, `~ party * x`: from the counts to coefficients, and how far these
    are from the simulated ones."""
    documents, topics, words = max(2000, round(1e6 * scale)), max(5, min(100, round(100 * scale**0.25))), 5000
    began = time.perf_counter()
    corpus, columns, truth, beta = _covariate_corpus(documents, 200, topics, words)
    simulated = time.perf_counter() - began
    model = tp.StructuralTopics(topics, "~ party * x", precision="single", topic_prior=0.1)
    began = time.perf_counter()
    fit = tp.fit(model, corpus.with_covariates(columns), tp.SVI(batch_size=4096, passes=1.0), seed=0, progress=False)
    stochastic = time.perf_counter() - began
    row = {"documents": documents, "topics": topics, "simulation": simulated, "SVI, one pass": stochastic}
    row["SVI, error"] = _error(fit, truth, beta)
    print(row, flush=True)
    began = time.perf_counter()
    fit = tp.fit(model, corpus.with_covariates(columns), tp.VB(max_iter=50), seed=0, progress=False)
    row |= {"VB": time.perf_counter() - began, "sweeps": len(fit.history["elbo"])}
    row |= {"VB, error": _error(fit, truth, beta), "engine": str(fit.details.get("engine"))}
    print(row, flush=True)
    return row


def _error(fit: tp.Fit, truth: np.ndarray, beta: np.ndarray) -> float:
    """The root mean square error of coefficients of the matched topics, without the intercepts."""
    from scipy.optimize import linear_sum_assignment

    alike = np.sqrt(fit.model.distributions(fit.state)) @ np.sqrt(beta).T
    mine, theirs = linear_sum_assignment(-alike)
    found = np.asarray(fit.posterior["coefficients"].location)[mine]
    return float(np.sqrt(np.mean((found - truth[theirs])[:, 1:] ** 2)))


def _covariate_corpus(documents: int, length: int, topics: int, words: int) -> tuple[Corpus, dict[str, Any], Any, Any]:
    """Documents drawn from the model, in pieces on the device."""
    rng, piece = np.random.default_rng(0), 20_000
    frequency = 1.0 / (10.0 + rng.permutation(words))
    beta = rng.dirichlet(0.1 * words * frequency / frequency.sum(), topics)
    party, x = rng.integers(2, size=documents), rng.normal(size=documents)
    truth = np.column_stack([rng.normal(-2.0, 0.5, topics), rng.normal(0.0, 0.5, (topics, 3))])
    design = np.column_stack([np.ones(documents), party, x, party * x])
    cumulative = np.cumsum(beta, axis=1)
    edges_of_words = jnp.asarray((np.arange(topics)[:, None] + cumulative / cumulative[:, -1:]).ravel(), jnp.float64)

    @jax.jit
    def draw(key: Any, alpha: Any) -> Any:
        keys = jax.random.split(key, 3)
        share = jax.random.gamma(keys[0], alpha.astype(jnp.float32)) + 1e-30
        edges = jnp.cumsum(share / jnp.sum(share, axis=1, keepdims=True), axis=1)
        levels = jax.random.uniform(keys[1], (len(alpha), length), jnp.float32)
        z = jnp.minimum(jax.vmap(jnp.searchsorted)(edges, levels), topics - 1)
        found = jnp.searchsorted(edges_of_words, z + jax.random.uniform(keys[2], z.shape, jnp.float64))
        return jnp.sort(jnp.clip(found - z * words, 0, words - 1).astype(jnp.int32), axis=1)

    parts = []
    for start in range(0, documents, piece):
        alpha = np.exp(design[start : start + piece] @ truth.T)
        parts.append(np.asarray(draw(jax.random.key(start), jnp.asarray(alpha))))
    tokens = np.concatenate(parts)
    first = np.ones(tokens.shape, dtype=bool)
    first[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    places = np.flatnonzero(first)
    counts = np.diff(np.append(places, tokens.size)).astype(np.float32)
    starts = np.append(0, np.cumsum(first.sum(axis=1))).astype(np.int64)
    columns = {"party": np.where(party, "R", "D"), "x": x}
    return Corpus(starts, tokens.ravel()[places], counts, words), columns, truth, beta


# ---- inference -----------------------------------------------------------------------------------------------------


def inference(scale: float) -> dict[str, Any]:
    """The shares of all topics in new documents, streamed from a folder; only main topics are kept."""
    topics, some = max(5, min(500, round(500 * scale**0.25))), max(2048, round(1e6 * scale))
    model = tp.LDA(topics, precision="single")
    fit = tp.fit(model, simulate(max(2048, some // 16), WORDS, 97), tp.SVI(batch_size=1024, passes=1.0), progress=False)
    times = 30
    with tempfile.TemporaryDirectory() as folder:
        store_corpus(simulate(some, WORDS, 97), Path(folder) / "corpus")
        stored = open_corpus(Path(folder) / "corpus")
        fit.transform(stored.take(slice(0, 4096)))
        sizes, began = np.zeros(topics, dtype=np.int64), time.perf_counter()
        for done in range(times):
            print(f"{done * some:,} documents in {time.perf_counter() - began:.1f} s", flush=True)
            parts = (slice(start, min(start + PIECE, some)) for start in range(0, some, PIECE))
            for piece in ahead((partial(stored.take, part) for part in parts), 1):  # read by a thread
                shares = fit.transform(piece)
                sizes += np.bincount(shares.argmax(axis=1), minlength=topics)
        taken = time.perf_counter() - began
    row = {"documents": int(sizes.sum()), "topics": topics, "seconds": taken}
    print(row, flush=True)
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"routes": routes, "inference": inference, "structural": structural}
    on_cpu = jax.default_backend() == "cpu"
    parser.add_argument("--scale", type=float, default=0.002 if on_cpu else 1.0)
    parser.add_argument("--part", nargs="*", default=list(parts), choices=list(parts))
    parser.add_argument("--out", type=Path, default=Path("topics_large.json"))
    given = parser.parse_args([] if arguments is None else arguments)
    results: dict[str, Any] = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "scale": given.scale}
    for name in given.part:
        try:
            results[name] = parts[name](given.scale)
        except Exception as error:  # the other parts are measured all the same
            results[name] = {"error": f"{type(error).__name__}: {error}"[:2000]}
            print(results[name], flush=True)
        given.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
