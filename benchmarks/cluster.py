"""A Dask cluster on one machine: a sweep beside the same in one process, and a corpus larger than the workers' memory.

`python -m benchmarks.cluster GIGABYTES` chooses the size of the corpus (2 unless given; 0 leaves it out).
"""

from __future__ import annotations

import contextlib
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp
from temperance.data import Corpus, store_corpus

from . import mixture
from ._timing import per_iteration

ROWS, COLUMNS, COMPONENTS, PARTITIONS = 2_000_000, 16, 32, 16
DOCUMENTS, ENTRIES, WORDS, TOPICS = 40_000, 100, 20_000, 10  # of a shard; of a document; in all


@contextlib.contextmanager
def local(workers: int = 2, memory: Any = 0) -> Iterator[Any]:
    import distributed

    # Each worker its own core: without this every one of them starts a thread for each core of the machine.
    alone = {
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "TEMPERANCE_THREADS": "1",
    }
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit=memory,
            env=alone,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def sweep(rows: int = ROWS, few: int = 1, many: int = 4, rounds: int = 1) -> None:
    """One iteration of VB on a Gaussian mixture; compilation and reading cancel."""
    x = mixture.simulate(rows, COLUMNS, COMPONENTS)
    model = mixture.model(COLUMNS, COMPONENTS)
    with tempfile.TemporaryDirectory() as folder, local() as client:
        for number, part in enumerate(np.array_split(x, PARTITIONS)):
            np.save(Path(folder) / f"{number:03d}.npy", part)

        def fit(data: Any, iterations: int, **more: Any) -> None:
            tp.fit(model, data, tp.VB(max_iter=iterations, tol=0.0), seed=0, progress=False, **more)

        fit(folder, 1, engine=client)  # compile
        fit(x, 1)
        for _ in range(rounds):
            cluster = per_iteration(lambda n: fit(folder, n, engine=client), few, many)
            here = per_iteration(lambda n: fit(x, n), few, many)
            print(
                f"sweep of {rows:,} rows: in one process {here:.2f} s, on two workers {cluster:.2f} s, "
                f"ratio {cluster / here:.2f}",
                flush=True,
            )


def pieces(gigabytes: float) -> Iterator[Corpus]:
    """Documents whose words come from a window of the vocabulary, a topic each."""
    rng = np.random.default_rng(0)
    for _ in range(max(1, round(gigabytes * 2**30 / (8 * DOCUMENTS * ENTRIES)))):
        topic = rng.integers(TOPICS, size=(DOCUMENTS, 1))
        gaps = rng.integers(1, 2 * WORDS // (TOPICS * ENTRIES), size=(DOCUMENTS, ENTRIES))
        words = np.sort((topic * (WORDS // TOPICS) + np.cumsum(gaps, axis=1)) % WORDS, axis=1)
        counts = rng.integers(1, 4, size=words.size).astype(np.float32)
        yield Corpus(np.arange(DOCUMENTS + 1) * ENTRIES, words.astype(np.int32).ravel(), counts, WORDS)


def corpus(gigabytes: float = 2.0, workers: int = 2, memory: str = "1.5GB") -> None:
    """SVI for topics, two partitions a step, on workers that could not hold the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        store_corpus(pieces(gigabytes), Path(folder) / "corpus", shard_documents=DOCUMENTS)
        written = sum(file.stat().st_size for file in (Path(folder) / "corpus").iterdir())
        print(f"wrote {written / 2**30:.2f} GB in {time.perf_counter() - began:.0f} s", flush=True)
        with local(workers, memory) as client:
            before = max(client.run(peak).values())
            began = time.perf_counter()
            method = tp.SVI(passes=1, batch_size=2, local_steps=5)
            fit = tp.fit(tp.LDA(TOPICS), Path(folder) / "corpus", method, seed=0, engine=client, progress=False)
            took = time.perf_counter() - began
            found = ", ".join(f"{value / 1024:.0f} MB" for value in client.run(peak).values())
            print(
                f"one pass and the bound of all in {took:.0f} s ({fit.log_evidence:.4g}); workers' peak memory {found} "
                f"(before: {before / 1024:.0f} MB), client's {peak() / 1024:.0f} MB",
                flush=True,
            )


def peak() -> int:
    """Resident memory of this process at its largest, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(gigabytes: float = 2.0) -> None:
    sweep(rounds=3)
    if gigabytes:
        corpus(gigabytes)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
