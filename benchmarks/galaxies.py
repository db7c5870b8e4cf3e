"""How many components have the galaxies? The posterior over 1 to 10, by the defaults and by a hundred runs as long.

    python -m benchmarks galaxies [--seeds 10] [--times 100] [--jobs 2] [--minutes 3] [--out FOLDER]

Under the thesis's prior, each number of components equally likely beforehand. `--seeds` comparisons run by the
defaults, one after the other, on two cores: the first compiles. The reference averages `--times` log evidences of other
seeds for each number; the total variation between the two is printed for every seed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np

SIZES = range(1, 11)
FIRST = 1000  # of the seeds of the reference
PIECE = 10  # seeds to a process


def main(arguments: Sequence[str] = ()) -> None:
    began = time.time()
    options = _options(arguments)
    ends = began + 60 * options.minutes
    os.environ["TEMPERANCE_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    pool = ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1)
    heavy = sorted(SIZES, key=lambda size: (not 3 <= size <= 6, size))  # nearly all of the posterior is there
    pieces = [(size, at) for at in range(0, options.times, PIECE) for size in heavy]
    found: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
    waiting = {
        pool.submit(runs, size, range(FIRST + at, FIRST + min(at + PIECE, options.times)), ends): size
        for size, at in pieces
    }
    try:
        for done in as_completed(waiting, max(ends - time.time(), 1.0)):
            found[waiting[done]] += done.result()
            _report(options.out, found, [])
    except TimeoutError:
        for process in active_children():
            process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    os.environ["TEMPERANCE_THREADS"] = "2"
    _report(options.out, found, _defaults(options.seeds))


def runs(size: int, seeds: Sequence[int], ends: float) -> list[tuple[float, float]]:
    """log evidence and standard error of each seed, by the default of those that draw."""
    import temperance as tp

    fits = []
    for seed in seeds:
        if time.time() < ends:
            fits.append(tp.fit(_models()[size - 1], tp.datasets.load("galaxy"), tp.ParallelTempering(), seed=seed))
    return [(fit.log_evidence, fit.standard_error) for fit in fits]  # type: ignore[misc]


def _models() -> list[Any]:
    import temperance as tp

    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    return [tp.GaussianMixture(size, prior=prior) for size in SIZES]


def _defaults(seeds: int) -> list[dict[str, Any]]:
    import temperance as tp

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    made = []
    for seed in range(seeds):
        began, spent = time.perf_counter(), time.process_time()
        hill = tp.compare(_models(), tp.datasets.load("galaxy"), tp.ParallelTempering(), seed=seed)
        took = time.perf_counter() - began, time.process_time() - spent
        made.append(
            {"log_evidence": [float(value) for value in hill.log_evidence], "seconds": took[0], "cpu seconds": took[1]}
        )
    return made


def _report(out: Path | None, found: dict[int, list[tuple[float, float]]], made: list[dict[str, Any]]) -> None:
    values = {size: np.array(of)[:, 0] for size, of in found.items() if of}
    if made:
        print("| components | runs | log evidence | ± | root mean square of the stated errors | spread |")
        print("|---|---|---|---|---|---|")
        for size, of in values.items():
            claimed = np.sqrt(np.mean(np.square(np.array(found[size])[:, 1])))
            spread = of.std(ddof=1) if len(of) > 1 else np.nan
            figures = (of.mean(), spread / np.sqrt(len(of)), claimed, spread)
            print(f"| {size} | {len(of)} | {' | '.join(f'{figure:.4f}' for figure in figures)} |")
    if made and len(values) == len(SIZES):
        truth = _posterior(np.array([values[size].mean() for size in SIZES]))
        print("reference:", np.round(truth, 4))
        for one in made:
            one["total variation"] = 0.5 * float(np.abs(_posterior(np.array(one["log_evidence"])) - truth).sum())
            print({name: np.round(value, 4) for name, value in one.items()})
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "galaxies.json").write_text(json.dumps({"reference": found, "defaults": made}, indent=0))


def _posterior(log_evidence: np.ndarray) -> np.ndarray:
    weights = np.exp(log_evidence - log_evidence.max())
    return weights / weights.sum()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks galaxies")
    parser.add_argument("--seeds", type=int, default=10, help="comparisons by the defaults")
    parser.add_argument("--times", type=int, default=100, help="runs of the reference")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which the reference stops")
    parser.add_argument("--out", type=Path, help="a folder for galaxies.json")
    return parser.parse_args(arguments)
