"""Is a change slower? Two checkouts, benchmark by benchmark, alternating in one run.

    python -m benchmarks.before_after BEFORE [AFTER] [--case NAME …] [--minutes M] [--rounds R] [--cpu] [--json FILE]

BEFORE and AFTER are folders or git refs; AFTER is this checkout unless it is given. Each checkout has a process of its
own, which makes the data and runs a benchmark once before it is timed; then the two take turns. The cases "first …" are
first fits, in a fresh process every time and with nothing kept from an earlier one, so that they count compilation.
A benchmark is slower when its median is larger by more than 5% and the quartiles of the two do not overlap; then the
exit status is 1. Benchmarks for which the minutes do not suffice are left out and named. `--cpu` counts CPU seconds of
all threads, for a machine that others use.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
MARGIN, LEAST_ROUNDS = 1.05, 7

Run = Callable[[], object]


# ---- what is timed -----------------------------------------------------------------------------------------------


def _rows(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(scale=3.0, size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def _corpus(documents: int, words: int, length: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(words, 0.1), size=5)
    return np.stack([rng.multinomial(length, rng.dirichlet(np.full(5, 0.3)) @ topics) for _ in range(documents)])


def _fit(tp: Any, model: Any, data: Any, method: Any) -> Run:
    return lambda: tp.fit(model, data, method, seed=0, progress=False)


def _sweeps(tp: Any, count: int) -> Any:
    return tp.VB(max_iter=count, tol=0.0)


def _line(tp: Any) -> Run:
    x = _rows(10_000, 20, 3)
    return _fit(tp, tp.LinearRegression(), (x, x @ np.linspace(-1.0, 1.0, 20) + x[::-1, 0]), _sweeps(tp, 50))


def _yes_or_no(tp: Any) -> Run:
    x = _rows(10_000, 20, 3)
    return _fit(tp, tp.LogisticRegression(prior=1.0), (x, (x[:, 0] > 0.0).astype(float)), _sweeps(tp, 20))


STEADY: dict[str, Callable[[Any], Run]] = {
    "mixture": lambda tp: _fit(tp, tp.GaussianMixture(6, init="random"), _rows(10_000, 2, 6), _sweeps(tp, 100)),
    "mixture, large": lambda tp: _fit(
        tp, tp.GaussianMixture(32, init="random"), _rows(100_000, 16, 32), _sweeps(tp, 5)
    ),
    "HMM": lambda tp: _fit(tp, tp.HMM(10, init="random"), _rows(100_000, 4, 10), _sweeps(tp, 10)),
    "message passing": lambda tp: _fit(
        tp, tp.GaussianMixture(5), _rows(1_000, 2, 5), tp.EP(max_passes=20, restarts=20)
    ),
    "parallel tempering": lambda tp: _fit(
        tp, tp.GaussianMixture(3), _rows(500, 2, 3), tp.ParallelTempering(warmup=200, draws=500)
    ),
    "topics, SVI": lambda tp: _fit(tp, tp.LDA(10), _corpus(2_000, 1_000, 100), tp.SVI(batch_size=256, passes=3)),
    "topics, CVB0": lambda tp: _fit(tp, tp.LDA(10), _corpus(2_000, 1_000, 100), tp.CVB0(passes=10, tol=0.0)),
    "factor analysis": lambda tp: _fit(tp, tp.FactorAnalysis(5), _rows(20_000, 20, 5), _sweeps(tp, 20)),
    "state space": lambda tp: _fit(tp, tp.StateSpace(2), _rows(1_000, 3, 1), _sweeps(tp, 20)),
    "regression": _line,
    "logistic regression": _yes_or_no,
}


def _first() -> Any:
    """`benchmarks/first.py` of the checkout that this file is in, whichever is being timed."""
    spec = importlib.util.spec_from_file_location("first_fits", ROOT / "benchmarks" / "first.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def names() -> list[str]:
    return [*STEADY, *(f"first {name}" for name in _first().CASES)]


def _made(name: str, tp: Any) -> Run:
    """The call to be timed, its data at hand."""
    if name in STEADY:
        return STEADY[name](tp)
    first = _first()
    case = first.CASES[name.removeprefix("first ")]
    data = getattr(first, case.data)()
    return lambda: case.fit(tp, data)


def work(cpu: bool) -> None:
    """In the process of a checkout: a benchmark's name comes in, the seconds of one run go out."""
    clock, made = time.process_time if cpu else time.perf_counter, {}
    tp = __import__("temperance")
    for line in sys.stdin:
        name = json.loads(line)
        if name not in made:
            made.clear()  # one benchmark's data at a time
            made[name] = _made(name, tp)
            if name in STEADY:
                made[name]()
        began = clock()
        made[name]()
        print(json.dumps(clock() - began), flush=True)


# ---- two checkouts -----------------------------------------------------------------------------------------------


class Checkout:
    """A folder with the package, and the process that runs its benchmarks."""

    def __init__(self, folder: Path, cpu: bool):
        self.folder, self.cpu = folder, cpu
        self.process: subprocess.Popen[str] | None = None

    def seconds(self, name: str) -> float:
        if name not in STEADY:
            self.close()
        if self.process is None:
            self.process = self._started()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(name) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{name} failed in {self.folder} (see above)")
        return float(json.loads(answer))

    def _started(self) -> subprocess.Popen[str]:
        left_out = ("JAX_COMPILATION_CACHE_DIR", "TEMPERANCE_ENGINE", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        nothing_kept = {"JAX_ENABLE_COMPILATION_CACHE": "false", "TEMPERANCE_CACHE": "off"}
        self.numba = tempfile.TemporaryDirectory()
        environment |= nothing_kept | {"NUMBA_CACHE_DIR": self.numba.name, "PYTHONPATH": str(self.folder)}
        # -P: the folder of this file is not searched for modules.
        command = [sys.executable, "-P", __file__, "--work", *(["--cpu"] if self.cpu else [])]
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.numba.cleanup()
            self.process = None


def folder_of(place: str, empty: Path) -> Path:
    """A folder as it is; the tree of a git ref, unpacked into an empty folder."""
    if Path(place).is_dir():
        return Path(place).resolve()
    packed = subprocess.run(["git", "archive", place], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise SystemExit(f"{place!r} is neither a folder nor a git ref of this repository")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(empty, filter="data")
    return empty


class Row(NamedTuple):
    """The seconds of all rounds of one benchmark."""

    name: str
    before: list[float]
    after: list[float]

    @property
    def ratio(self) -> float:
        return float(np.median(self.after) / np.median(self.before))

    @property
    def slower(self) -> bool:
        apart = np.quantile(self.after, 0.25) > np.quantile(self.before, 0.75)
        return bool(self.ratio > MARGIN and apart)

    def __str__(self) -> str:
        cells = [f"{np.median(v):.3g} ({np.quantile(v, 0.25):.3g} to {np.quantile(v, 0.75):.3g})" for v in self[1:]]
        return f"| {self.name} | {cells[0]} | {cells[1]} | {self.ratio:.2f}{' slower' if self.slower else ''} |"


def compared(name: str, before: Checkout, after: Checkout, rounds: int, until: float) -> Row | None:
    """The rounds of one benchmark, either checkout first in turn; None where they would not end in time."""
    began = time.monotonic()
    pairs = [(before.seconds(name), after.seconds(name))]
    each = sum(pairs[0]) if name in STEADY and not before.cpu else time.monotonic() - began
    if time.monotonic() + (rounds - 1) * each > until:
        return None
    for number in range(1, rounds):
        order = (before, after) if number % 2 == 0 else (after, before)
        found = {id(checkout): checkout.seconds(name) for checkout in order}
        pairs.append((found[id(before)], found[id(after)]))
    return Row(name, *(list(times) for times in zip(*pairs, strict=True)))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?")
    parser.add_argument("after", nargs="?", default=str(ROOT))
    parser.add_argument("--case", nargs="+", choices=names(), default=names(), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        work(given.cpu)
        return
    if given.before is None or given.rounds < LEAST_ROUNDS:
        parser.error(f"a folder or a git ref to compare with is needed, and at least {LEAST_ROUNDS} rounds")
    until, rows, left_out = time.monotonic() + 60.0 * given.minutes, [], []
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        places = folder_of(given.before, Path(one)), folder_of(given.after, Path(other))
        before, after = (Checkout(place, given.cpu) for place in places)
        print("| benchmark | before, s | after, s | after / before |\n|---|---|---|---|", flush=True)
        for name in given.case:
            row = compared(name, before, after, given.rounds, until) if time.monotonic() < until else None
            (left_out if row is None else rows).append(name if row is None else row)
            if row is not None:
                print(row, flush=True)
        before.close(), after.close()
    if left_out:
        print(f"\nleft out for want of time: {', '.join(left_out)}")
    slower = [row.name for row in rows if row.slower]
    print(f"\nslower by more than 5% beyond the quartiles: {', '.join(slower) if slower else 'none'}")
    if given.json:
        given.json.write_text(json.dumps({"rows": [row._asdict() for row in rows], "left out": left_out}, indent=1))
    if slower:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
