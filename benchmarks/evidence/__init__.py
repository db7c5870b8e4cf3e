"""Is an evidence what it claims to be? Problems of known log evidence, every method that estimates one, many seeds.

    python -m benchmarks evidence [--seeds 20] [--problems WORD …] [--methods PT …] [--jobs 2] [--out FOLDER]

Methods run at their defaults, one thread a process. A run *claims* when it has converged: its log evidence then comes
with a standard error and no warning. Of claims is counted how often ±1.96 standard errors and `fit.bracket` hold the
truth, and how far the worst bracket misses. CPU seconds are those of a seed after the first, whose compilation is
told apart. With `--out` every run is kept in FOLDER/evidence.json, so that what was printed can be worked out again.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

ONE_THREAD = {
    "TEMPERANCE_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
PEERS = ("blackjax", "dynesty")


def main(arguments: Sequence[str] = ()) -> None:
    os.environ.update(ONE_THREAD)  # before JAX is imported, here and in the processes to come
    from .measure import METHODS, Measured, keep, measure, units
    from .problems import problems
    from .tables import printed

    options = _options(arguments, list(METHODS))
    chosen = [name for name in problems() if not options.problems or any(word in name for word in options.problems)]
    if not chosen:
        raise SystemExit(f"no problem is called like {options.problems}; there are: {', '.join(problems())}")
    work = units(chosen, options.methods or list(METHODS), options.seeds)
    began, runs = time.perf_counter(), list[Measured]()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measure, *unit) for unit in work]):
            runs += done.result()
            if options.out is not None:
                keep(options.out / "evidence.json", runs)
    print(printed(runs))
    print(
        f"{len(chosen)} problems, {options.seeds} seeds, {options.jobs} processes: {time.perf_counter() - began:.0f} s"
    )
    missing = [name for name in PEERS if importlib.util.find_spec(name) is None]
    print(
        "Peers are not part of this run"
        + (f" ({' and '.join(missing)} not installed)" if missing else "")
        + "; `python -m benchmarks smc` has blackjax's tempered SMC on the galaxies."
    )


def _options(arguments: Sequence[str], methods: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks evidence")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", nargs="*", default=[], metavar="WORD", help="those whose name has one of these")
    parser.add_argument("--methods", nargs="*", default=[], choices=methods)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--out", type=Path, help="a folder for evidence.json")
    return parser.parse_args(arguments)
