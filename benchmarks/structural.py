"""Structural topics: how often 95% intervals hold simulated coefficients, and how long fits take.

`python -m benchmarks.structural --simulations 200 --jobs 16 --out FILE.jsonl` appends a line for each simulation that
the file does not have yet, and prints the coverage of all of them. `--timing` fits 10,000 documents of 100 words.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FORMULA, LEVEL, TOPIC_PRIOR = "~ party * x", 0.95, 0.1


def simulate(
    seed: int, documents: int, length: int, topics: int, words: int, frequencies: bool = False
) -> tuple[Any, ...]:
    """Counts, covariates, coefficients (topics × 4) and topics drawn from the model, documents of unequal length. With
    `frequencies` some words are frequent in all topics, which the model does not know."""
    rng = np.random.default_rng(seed)
    concentration = np.full(words, TOPIC_PRIOR)
    if frequencies:
        frequency = 1.0 / (10.0 + rng.permutation(words))
        concentration *= words * frequency / frequency.sum()
    beta = rng.dirichlet(concentration, topics)
    party, x = rng.integers(2, size=documents), rng.normal(size=documents)
    truth = np.column_stack([rng.normal(-1.0, 0.5, topics), rng.normal(0.0, 0.5, (topics, 3))])
    alpha = np.exp(np.column_stack([np.ones(documents), party, x, party * x]) @ truth.T)
    theta = rng.gamma(alpha) + 1e-300
    theta /= theta.sum(axis=1, keepdims=True)
    sizes = rng.poisson(length, documents)
    counts = np.stack([rng.multinomial(size, row @ beta) for size, row in zip(sizes, theta, strict=True)])
    return counts, {"party": np.where(party, "R", "D"), "x": x}, truth, beta


def examine(seed: int, frequencies: bool = False) -> dict[str, Any]:
    """One simulation: which coefficients are inside their intervals, and how far off in units of their sd."""
    from scipy.optimize import linear_sum_assignment
    from threadpoolctl import threadpool_limits

    import temperance as tp

    counts, columns, truth, beta = simulate(seed, 600, 100, 5, 500, frequencies)
    began = time.perf_counter()
    with threadpool_limits(1):
        model = tp.StructuralTopics(5, FORMULA, topic_prior=TOPIC_PRIOR)
        fit = tp.fit(model, (counts, columns), tp.VB(restarts=2), seed=seed, progress=False)
        effects = fit.effects(level=LEVEL, draws=600, warmup=300, seed=seed)
    alike = np.sqrt(fit.model.distributions(fit.state)) @ np.sqrt(beta).T
    mine, theirs = linear_sum_assignment(-alike)
    expected = truth[theirs[np.argsort(mine)]]
    q = fit.posterior["coefficients"]
    sd = np.sqrt(np.diagonal(np.asarray(q.covariance), axis1=1, axis2=2))
    return {
        "seed": seed,
        "inside": ((effects.low <= expected) & (expected <= effects.high)).tolist(),
        "variational": (np.abs(np.asarray(q.location) - expected) <= 1.96 * sd).tolist(),
        "score": ((effects.mean - expected) / effects.sd).tolist(),
        "alike": float(alike[mine, theirs].min()),
        "effective": effects.effective,
        "seconds": time.perf_counter() - began,
    }


def coverage(rows: list[dict[str, Any]]) -> None:
    for name in ("inside", "variational"):
        each = np.array([np.mean(row[name]) for row in rows])
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else float("nan")
        print(f"{name:12} {each.mean():.2%} ± {error:.2%} of coefficients inside, over {len(each)} simulations")
    by = np.array([row["inside"] for row in rows]).mean(axis=(0, 1))
    print("by coefficient:", ", ".join(f"{value:.1%}" for value in by))
    scores = np.array([row["score"] for row in rows])
    seconds, alike = np.median([row["seconds"] for row in rows]), min(row["alike"] for row in rows)
    print(f"scores: mean {scores.mean():.3f}, sd {scores.std():.3f}; the least likeness of a topic is {alike:.2f}")
    print(f"median seconds {seconds:.1f}")


def run(seeds: list[int], jobs: int, frequencies: bool) -> Iterator[dict[str, Any]]:
    each = partial(examine, frequencies=frequencies)
    if jobs == 1:
        yield from map(each, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(each, seeds)


def timing(documents: int, length: int, topics: int, words: int) -> None:
    """Seconds of a fit from nothing, and of its effects."""
    import temperance as tp

    counts, columns, _, _ = simulate(0, documents, length, topics, words)
    began = time.perf_counter()
    model = tp.StructuralTopics(topics, FORMULA)
    fit = tp.fit(model, (counts, columns), tp.VB(max_iter=100), seed=0, progress=False)
    middle = time.perf_counter()
    effects = fit.effects()
    end = time.perf_counter()
    print(f"{documents:,} documents of {length} words, {topics} topics: fit {middle - began:.1f} s")
    print(f"{len(fit.history['elbo'])} sweeps; effects {end - middle:.1f} s, worth {effects.effective:.0f} draws")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--frequencies", action="store_true", help="words with frequencies that the model does not know"
    )
    parser.add_argument("--timing", action="store_true")
    given = parser.parse_args([] if arguments is None else arguments)
    if given.timing:
        return timing(10_000, 100, 20, 5_000)
    rows = []
    if given.out is not None and given.out.exists():
        rows = [json.loads(line) for line in given.out.read_text("utf-8").splitlines()]
    done = {row["seed"] for row in rows}
    if given.jobs > 1:
        os.environ |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OMP_NUM_THREADS": "1"}
    for row in run([seed for seed in range(given.simulations) if seed not in done], given.jobs, given.frequencies):
        rows.append(row)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return coverage(rows)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
