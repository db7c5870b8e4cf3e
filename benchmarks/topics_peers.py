"""Topics beside tomotopy and scikit-learn on many cores, a process and a thread for each fit: held-out scores at
K = 100 and 200 (as in `topics_long`), coherence at K = 20, and how often intervals of structural topics hold the truth.

    TEMPERANCE_DATA=folder python -m benchmarks.topics_peers --jobs 14 --minutes 8 --out FILE.json [corpus …]

What is done by then is in the file, and printed as tables.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import multiprocessing
import os
import pkgutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

NAMES, SIZES, SEEDS, SIMULATIONS = ("nips_uci1500", "20news5k", "kos", "ap"), (200, 100), (0, 1, 2), 200
STOPS, PASSES = (300, 1000), (200, 400)
TOPICS, LEADING = 20, 10  # of which coherence is measured
Task = tuple[str, str, Any, int]  # what, corpus and K or method, seed


def tasks(names: tuple[str, ...], simulations: int) -> list[Task]:
    """The longest first."""
    long = [
        (what, name, k, seed) for what in ("tomotopy", "tp.CVB0") for name in names for k in SIZES for seed in SEEDS
    ]
    methods = ("scikit-learn", "tomotopy", "tp.LDA")
    files = [name for name in names if name != "simulated"]
    short = [(name, method, seed) for method in methods for name in (*files, "scipy") for seed in SEEDS]
    coverage = [("coverage", "", 5, seed) for seed in range(simulations)]
    return [*long, *(("coherence", *each) for each in short), *coverage]


def work(task: Task) -> list[dict[str, Any]]:
    from threadpoolctl import threadpool_limits

    what, name, given, seed = task
    with threadpool_limits(1):
        if what == "coverage":
            from .structural import examine

            found = [examine(seed)]
        elif what == "coherence":
            found = [{"method": given, **coherence(name, given, seed)}]
        else:
            from .topics_long import corpus_of, tomotopy

            train, test = corpus_of(name, given)
            rows = tomotopy(train, test, given, STOPS, seed) if what == "tomotopy" else _ours(train, test, given, seed)
            found = [row._asdict() for row in rows]
    kind = what if what in ("coverage", "coherence") else "held out"
    return [{"kind": kind, "corpus": name, "k": given, "seed": seed, **row} for row in found]


def _ours(train: Any, test: Any, k: int, seed: int) -> list[Any]:
    from .topics_long import ours

    return [ours(train, test, k, passes, seed) for passes in PASSES]


def warm() -> None:
    """Kernels are loaded, or compiled, before anything is timed."""
    import temperance as tp

    counts = np.random.default_rng(0).poisson(0.5, (400, 200))
    for learn in ((), "document_prior"):
        model = tp.LDA(20, precision="single", learn=learn)
        tp.fit(model, counts, tp.CVB0(passes=40), progress=False).transform(counts)


# ---- coherence -----------------------------------------------------------------------------------------------------


def docstrings() -> list[str]:
    """What SciPy says of its public functions."""
    import scipy

    found: dict[str, str] = {}
    for part in pkgutil.iter_modules(scipy.__path__):
        if part.ispkg and not part.name.startswith("_"):
            module = importlib.import_module(f"scipy.{part.name}")
            for name in getattr(module, "__all__", ()):
                value = getattr(module, name, None)
                if callable(value) and not inspect.isclass(value) and value.__doc__:
                    found.setdefault(f"{part.name}.{name}", value.__doc__)
    return list(found.values())


def coherence(name: str, method: str, seed: int) -> dict[str, float]:
    """Mean NPMI of the leading words of the topics, over the documents themselves; words in at least five of them."""
    import temperance as tp
    from temperance.data import as_corpus

    read = tp.read_texts(docstrings()) if name == "scipy" else as_corpus(tp.datasets.load(name))
    corpus = read.prune(min_documents=5)
    began = time.process_time()
    beta = {"tp.LDA": _by_us, "tomotopy": _by_tomotopy, "scikit-learn": _by_scikit_learn}[method](corpus, seed)
    taken = time.process_time() - began
    leading = np.argsort(-beta, axis=1, kind="stable")[:, :LEADING].tolist()
    return {"npmi": float(np.mean(tp.coherence(leading, corpus.to_sparse()))), "seconds": taken}


def _by_us(corpus: Any, seed: int) -> np.ndarray:
    """As `temperance topics` fits them."""
    import temperance as tp

    model = tp.LDA(TOPICS, document_prior=0.1, topic_prior=0.01, learn="document_prior")
    fit = tp.fit(model, corpus, tp.CVB0(), seed=seed, progress=False)
    return np.asarray(fit.posterior["topics"].concentration)


def _by_tomotopy(corpus: Any, seed: int) -> np.ndarray:
    import tomotopy

    model = tomotopy.LDAModel(k=TOPICS, alpha=0.1, eta=0.01, seed=seed + 1)
    for d in range(len(corpus)):
        here = slice(corpus.starts[d], corpus.starts[d + 1])
        words = np.repeat(corpus.words[here], corpus.counts[here].astype(int))
        if len(words):
            model.add_doc([str(word) for word in words])
    model.train(300, workers=1)
    beta = np.zeros((TOPICS, corpus.n_words))
    for topic in range(TOPICS):
        beta[topic, [int(word) for word in model.used_vocabs]] = model.get_topic_word_dist(topic)
    return beta


def _by_scikit_learn(corpus: Any, seed: int) -> np.ndarray:
    from sklearn.decomposition import LatentDirichletAllocation

    return LatentDirichletAllocation(TOPICS, random_state=seed).fit(corpus.to_sparse()).components_


# ---- tables --------------------------------------------------------------------------------------------------------


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["corpus, K | method, passes | CPU seconds | held out, mean ± standard error | seeds"]
    scores: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "held out":
            scores[row["corpus"], row["k"], row["method"], row["passes"]].append((row["seconds"], row["score"]))
    lines += [_line(f"{name}, {k} | {method}, {n}", each) for (name, k, method, n), each in sorted(scores.items())]
    lines += ["", f"corpus | method | CPU seconds | NPMI of {TOPICS} topics, mean ± standard error | seeds"]
    means: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "coherence":
            means[row["corpus"], row["method"]].append((row["seconds"], row["npmi"]))
    lines += [_line(" | ".join(name), each) for name, each in sorted(means.items())]
    return "\n".join(lines)


def _line(name: str, each: list[tuple[float, float]]) -> str:
    seconds, values = np.array(each).T
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{name} | {seconds.mean():.1f} | {values.mean():.4f} ± {error:.4f} | {len(values)}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    parser.add_argument("--out", type=Path, default=Path("topics_peers.json"))
    given = parser.parse_args([] if arguments is None else arguments)
    end, rows = time.monotonic() + 60.0 * given.minutes, []
    os.environ |= {
        "TEMPERANCE_THREADS": "1", "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }  # fmt: skip
    warm()  # so that the kernels are compiled once
    default = NAMES if "TEMPERANCE_DATA" in os.environ else ("simulated",)
    left = tasks(tuple(given.corpora) or default, given.simulations)
    with multiprocessing.get_context("spawn").Pool(given.jobs, warm) as pool:
        done = pool.imap_unordered(work, left)
        for _ in left:
            try:
                rows += done.next(max(0.1, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                break
            given.out.write_text(json.dumps(rows), encoding="utf-8")
        pool.terminate()
    print(table(rows))
    if coverages := [row for row in rows if row["kind"] == "coverage"]:
        from .structural import coverage

        coverage(coverages)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
