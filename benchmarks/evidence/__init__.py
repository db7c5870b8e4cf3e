"""Is an evidence what it claims to be? Problems of known log evidence, every method that estimates one, many seeds.

    python -m benchmarks evidence [--seeds 20] [--peers 6] [--problems WORD …] [--methods PT …] [--jobs 2]
                                  [--minutes 9] [--limit 60] [--out FOLDER]
    python -m benchmarks evidence --show FOLDER/summary.json

Methods run at their defaults, one thread a process. A run *claims* when it has converged: its log evidence then comes
with a standard error and no warning. Of claims is counted how often ±1.96 standard errors and `fit.bracket` hold the
truth, and how far the worst bracket misses. CPU seconds are those of a seed after the first, whose compilation (in a
fresh process, with no cache) is told apart. `--peers` is how many seeds other libraries run, on the same targets
(`peers.py`), and `--limit` the CPU seconds that one of their runs may take before it counts as without an answer. With
`--out` every run is kept in FOLDER/evidence.json, and FOLDER/summary.json has a row for each method and problem, which
the documentation reads (`docs/measurements/yardstick.json`). What is in FOLDER is not run again; after `--minutes` all
stop.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from pathlib import Path

ONE_THREAD = {
    "TEMPERANCE_THREADS": "1",
    "TEMPERANCE_CACHE": "off",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
GRACE = 15.0  # seconds after the last minute, in which processes hand in what they have


def main(arguments: Sequence[str] = ()) -> None:
    began = time.time()
    os.environ.update(ONE_THREAD)  # before JAX is imported, here and in the processes to come
    os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    from .measure import OURS, PEERS, keep, kept, measure, units
    from .problems import problems
    from .tables import printed, summarised

    options = _options(arguments, [*OURS, *PEERS])
    if options.show is not None:
        print(printed(json.loads(options.show.read_text())))
        return
    chosen = [name for name in problems() if not options.problems or any(word in name for word in options.problems)]
    if not chosen:
        raise SystemExit(f"no problem is called like {options.problems}; there are: {', '.join(problems())}")
    path = options.out and options.out / "evidence.json"
    runs = kept(path) if path else []
    wanted = options.methods or [*OURS, *PEERS]
    seeds = {"ours": options.seeds, "peers": options.peers}
    work = [
        *units(chosen, [name for name in OURS if name in wanted], seeds["ours"], runs),
        *units(chosen, [name for name in _installed() if name in wanted], seeds["peers"], runs),
    ]
    ends = began + 60 * options.minutes
    pool = ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1)
    try:
        for done in as_completed(
            [pool.submit(measure, unit, ends, options.limit) for unit in work], ends + GRACE - time.time()
        ):
            if done.exception() is not None:
                print("a unit of work failed:", done.exception())
                continue
            runs += done.result()
            if path:
                keep(path, runs)
    except TimeoutError:
        pool.shutdown(wait=False, cancel_futures=True)  # first, or processes that end are replaced
        for process in active_children():
            process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    rows = summarised(runs)
    if path:
        (options.out / "summary.json").write_text(json.dumps(rows, indent=0))
    print(printed(rows))
    print(f"{len(chosen)} problems, {seeds}, {options.jobs} processes: {time.time() - began:.0f} s")


def _installed() -> list[str]:
    from .measure import PEERS

    needs = {name: "dynesty" if name == "dynesty" else "blackjax" for name in PEERS}
    return [name for name in PEERS if importlib.util.find_spec(needs[name]) is not None]


def _options(arguments: Sequence[str], methods: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks evidence")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--peers", type=int, default=0, metavar="SEEDS", help="of each peer that is installed")
    parser.add_argument("--problems", nargs="*", default=[], metavar="WORD", help="those whose name has one of these")
    parser.add_argument("--methods", nargs="*", default=[], choices=methods)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which all stop")
    parser.add_argument("--limit", type=float, default=float("inf"), help="CPU seconds of a run by another library")
    parser.add_argument("--out", type=Path, help="a folder for evidence.json and summary.json")
    parser.add_argument("--show", type=Path, help="a summary.json to print instead")
    return parser.parse_args(arguments)
