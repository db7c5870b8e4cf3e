"""A Dask cluster on one machine: a sweep beside the same in one process, and a corpus larger than the workers' memory.

`python -m benchmarks.cluster` times the sweep, `python -m benchmarks.cluster GIGABYTES [FOLDER]` streams a corpus of
that size, which is written below FOLDER (that of temporary files unless given) and removed at the end. Cores are
shared out between the workers: `taskset -c 0,1` before either gives each of the two a core.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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
    """Workers that share the cores out: otherwise every one of them starts a thread for each core there is."""
    import distributed

    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // workers)
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
            env=alone if each == 1 else {},
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        if each > 1:
            for number, address in enumerate(sorted(client.scheduler_info(n_workers=-1)["workers"])):
                client.run(pin, cores[number * each : (number + 1) * each], workers=[address])
        yield client


def pin(cores: list[int]) -> None:
    """This process and all its threads on these cores."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def peak() -> float:
    """Resident memory of this process at its largest, in MB. (`ru_maxrss` begins with that of who started it.)"""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


# ---- a sweep ----------------------------------------------------------------------------------------------------


def sweep(rows: int = ROWS, few: int = 2, many: int = 8, rounds: int = 3) -> None:
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
                f"sweep of {rows:,} rows on {len(os.sched_getaffinity(0))} cores: in one process {here:.2f} s, on two "
                f"workers {cluster:.2f} s, ratio {cluster / here:.2f}",
                flush=True,
            )


# ---- a corpus ---------------------------------------------------------------------------------------------------


def documents(number: int) -> Corpus:
    """Documents of a shard: words come from a window of the vocabulary, a topic each."""
    rng = np.random.default_rng(number)
    topic = rng.integers(TOPICS, size=(DOCUMENTS, 1), dtype=np.int32)
    gaps = rng.integers(1, 2 * WORDS // (TOPICS * ENTRIES), size=(DOCUMENTS, ENTRIES), dtype=np.int32)
    words = np.sort((topic * np.int32(WORDS // TOPICS) + np.cumsum(gaps, axis=1, dtype=np.int32)) % WORDS, axis=1)
    counts = rng.integers(1, 4, size=words.size, dtype=np.int8).astype(np.float32)
    return Corpus(np.arange(DOCUMENTS + 1) * ENTRIES, words.ravel(), counts, WORDS)


def write_shard(folder: str, number: int) -> None:
    store_corpus(iter([documents(number)]), Path(folder) / f"{number:05d}", shard_documents=DOCUMENTS)


def write_corpus(folder: str, gigabytes: float) -> None:
    shards = max(1, round(gigabytes * 2**30 / (8 * DOCUMENTS * ENTRIES)))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        list(pool.map(write_shard, [folder] * shards, range(shards)))


def corpus(gigabytes: float, where: str | None = None, workers: int = 2, memory: str = "2GB") -> None:
    """SVI for topics, two partitions a step, on workers that could not hold the corpus."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        began = time.perf_counter()
        write_corpus(folder, gigabytes)
        written = sum(file.stat().st_size for file in Path(folder).rglob("*.npy"))
        print(f"wrote {written / 2**30:.2f} GB in {time.perf_counter() - began:.0f} s", flush=True)
        with local(workers, memory) as client:
            before = max(client.run(peak).values())
            began = time.perf_counter()
            method = tp.SVI(passes=1, batch_size=2, local_steps=5)
            fit = tp.fit(tp.LDA(TOPICS), folder, method, seed=0, engine=client, progress=False)
            took = time.perf_counter() - began
            found = ", ".join(f"{value:.0f} MB" for value in client.run(peak).values())
            print(
                f"one pass and the bound of all in {took:.0f} s ({fit.log_evidence:.4g}); workers' peak memory {found} "
                f"(before: {before:.0f} MB), client's {peak():.0f} MB",
                flush=True,
            )


def main(gigabytes: float = 0.0, where: str | None = None) -> None:
    if gigabytes:
        corpus(gigabytes, where)
    else:
        sweep()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *sys.argv[2:3])
