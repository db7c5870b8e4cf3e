"""How the attack goes on: one process for each model, rounds from cheap to dear, and a file that says what is done.

    gate      inputs that are refused before anything is compiled, for every pair
    shape     inputs of the clean data's shape: each pair is compiled once, and what is asked of a fit once a model
    shapes    a row, two rows, a column: compiled for each
    wide      500 columns

A process that dies is followed by another one, which goes on after the input that ended it. `--minutes` ends a run in
time; another one with the same `--out`, or with its file among `--done`, goes on where it ended. Inputs of packages
that are not installed are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import jax

from tests.faults.attack import CASES, GOOD, METHODS, PATIENCE, Outcome, attack
from tests.faults.inputs import INPUTS

ROOT = Path(__file__).resolve().parents[2]
APART = ("one row", "two rows", "one column", "one dimension")
WIDE = ("500 columns",)
ROUNDS = {
    "gate": tuple(INPUTS),
    "shape": tuple(name for name in INPUTS if name not in APART + WIDE),
    "shapes": APART,
    "wide": WIDE,
}
Pair = tuple[str, str]  # method, input


def work(model: str, cases: list[Pair], only_gate: bool) -> None:
    """Attack one model in this process, a line of JSON for each case."""
    jax.config.update("jax_compilation_cache_dir", str(ROOT / ".cache" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_disable_most_optimizations", True)
    clean: dict[str, Outcome] = {}
    for by, name in cases:
        began = time.process_time()
        found = attack(model, by, name, clean, only_gate)
        line = {"model": model, "method": by, "input": name, **found._asdict(), "s": time.process_time() - began}
        print(json.dumps(line), flush=True)


def in_processes(
    model: str, cases: list[Pair], only_gate: bool, write: Callable[[str], None], until: float = math.inf
) -> None:
    """The cases of one model in a process of its own, and in another one after each that ends the process.

    At the time `until` (of `time.monotonic`) the process is ended, and the cases that are left stay unasked.
    """
    command = [sys.executable, "-m", "tests.faults.siege", "--model", model, *(["--gate"] if only_gate else [])]
    # LAPACK's own threads wait by working: beside others they make a second of wide matrices a minute of work.
    environment = {**os.environ, "TEMPERANCE_CACHE": "", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # Kernels that look beyond an array raise an error.
    environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(ROOT / ".cache" / "numba with bounds")}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    while cases and time.monotonic() < until:
        with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as process:
            with contextlib.suppress(BrokenPipeError), process.stdin as told:  # type: ignore[union-attr]
                told.write(json.dumps(cases))
            with _watched(process, until) as heard:
                for line in process.stdout:  # type: ignore[union-attr]
                    heard()
                    if line.startswith("{"):
                        cases = cases[1:]
                        if json.loads(line)["outcome"] != "later":
                            write(line)
        if cases and time.monotonic() < until:
            (by, name), *cases = cases
            outcome = "hang" if process.returncode == -9 else "crash"
            detail = f"the process ended with {process.returncode}"
            write(
                json.dumps({"model": model, "method": by, "input": name, "outcome": outcome, "detail": detail}) + "\n"
            )


@contextlib.contextmanager
def _watched(process: Any, until: float) -> Iterator[Callable[[], None]]:
    """Kills a process that works for twice our patience without a word (compiled code does not hear of signals), or for
    longer than it may."""
    at = _work_of(process.pid)

    def heard() -> None:
        nonlocal at
        at = _work_of(process.pid)

    def watch() -> None:
        while process.poll() is None:
            if _work_of(process.pid) - at > 2 * PATIENCE or time.monotonic() > until:
                process.kill()
            time.sleep(2.0)

    Thread(target=watch, daemon=True).start()
    yield heard


def _work_of(pid: int) -> float:
    """Seconds of processor time that a process has taken; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read(files: list[str]) -> list[dict[str, Any]]:
    """The lines of these files; one that was cut short by the end of a run is left out."""
    lines: list[str] = []
    for file in files:
        if Path(file).exists():
            with gzip.open(file, "rt") if file.endswith(".gz") else open(file) as content:
                lines += content.read().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def show(files: list[str], summary: str = "") -> int:
    """Print the counts of these files and every case that ended badly, also to `summary`; how many did."""
    lines = read(files)
    bad = [line for line in lines if line["outcome"] not in GOOD]
    alike: dict[tuple[str, str], list[str]] = {}
    for line in bad:
        where = f"{line['model']} / {line['method']} / {line['input']}"
        alike.setdefault((line["outcome"], line["detail"][:200]), []).append(where)
    for (outcome, detail), places in alike.items():
        print(f"{outcome}: {detail}\n  {len(places)} times: {'; '.join(places[:8])}")
    pairs = {(line["model"], line["method"]) for line in lines}
    print(f"{len(lines)} cases of {len(pairs)} pairs: {dict(Counter(line['outcome'] for line in lines))}")
    seconds = round(sum(line.get("s", 0.0) for line in lines))
    print(f"{len(bad)} ended badly; {seconds} s of processor time")
    if summary:
        outcomes = dict(Counter(line["outcome"] for line in lines))
        told = {"cases": len(lines), "pairs": len(pairs), "outcomes": outcomes, "processor_s": seconds, "bad": bad}
        Path(summary).write_text(json.dumps(told, indent=1))
    return len(bad)


def at_hand() -> tuple[str, ...]:
    """The inputs whose packages are installed."""
    lacking = [name for name in ("pandas", "polars") if importlib.util.find_spec(name) is None]
    return tuple(name for name in INPUTS if not name.startswith(tuple(lacking)))


def tasks(stage: str, given: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[tuple[str, list[Pair]]]:
    """What is left to ask in this round, a few methods of a model at a time: one process for each."""
    names = json.loads(given.inputs) if given.inputs else at_hand()
    methods = list(METHODS)
    for model in reversed(CASES) if given.backwards else CASES:
        draw = random.Random(model)
        drawn = {(by, name): draw.random() < given.share for by in METHODS for name in ROUNDS[stage]}
        for first in range(0, len(methods), given.together):
            group = [by for by in methods[first : first + given.together] if given.only in f"{model}, {by}"]
            cases = [(by, name) for by in group for name in ROUNDS[stage] if name in names and drawn[by, name]]
            left = [case for case in cases if (model, *case) not in done]
            if left:
                yield model, left


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="attack.jsonl", help="cases in this file are not attacked again")
    parser.add_argument("--done", nargs="*", default=[], help="nor are cases in these files (gzip, too)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--rounds", default=",".join(ROUNDS), help="which of gate, shape, shapes and wide")
    parser.add_argument("--only", default="", help="pairs with this in `model, method`")
    parser.add_argument("--inputs", default="", help="a JSON list of inputs, all if left out")
    parser.add_argument("--share", type=float, default=1.0, help="the share of all inputs, drawn for each pair")
    parser.add_argument(
        "--backwards", action="store_true", help="the last model first, as another machine begins with the first"
    )
    parser.add_argument("--together", type=int, default=len(METHODS), help="how many methods a process is asked")
    parser.add_argument("--count", nargs="+", help="count the outcomes in these files")
    parser.add_argument("--summary", default="", help="write the counts and what ended badly to this file, in JSON")
    parser.add_argument("--model", help="the model to attack in this process, by the cases that it is told")
    parser.add_argument("--gate", action="store_true", help="only what is refused at the gate")
    return parser.parse_args()


def main() -> None:
    given = options()
    if given.count:
        sys.exit(show(given.count, given.summary) > 0)
    if given.model:
        return work(given.model, json.load(sys.stdin), given.gate)
    until = time.monotonic() + 60.0 * given.minutes
    done = {(line["model"], line["method"], line["input"]) for line in read([given.out, *given.done])}
    with open(given.out, "a") as file:
        file.write("\n")  # the last line may have been cut short

        def write(line: str) -> None:
            file.write(line)
            file.flush()
            case = json.loads(line)
            done.add((case["model"], case["method"], case["input"]))

        for stage in given.rounds.split(","):
            with ThreadPoolExecutor(given.jobs) as pool:
                started = [
                    pool.submit(in_processes, model, cases, stage == "gate", write, until)
                    for model, cases in tasks(stage, given, done)
                ]
            for each in started:
                each.result()
            left = sum(len(cases) for _, cases in tasks(stage, given, done))
            print(f"{stage}: {left} cases left", flush=True)
    sys.exit(show([given.out, *given.done], given.summary) > 0)


if __name__ == "__main__":
    main()
