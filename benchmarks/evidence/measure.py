"""One method on a few problems, seed by seed."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import temperance as tp
from temperance.errors import TemperanceError
from temperance.models._answers import summed

from .problems import Problem, problems

OURS = {"IS": tp.ImportanceSampling, "AIS": tp.AIS, "PT": tp.ParallelTempering, "SMC": tp.SMC}
PEERS = ("blackjax SMC", "blackjax NSS", "bridge", "dynesty")
ORDER = ("PT", "IS", "SMC", "AIS", *PEERS)  # when time is short, the last are left out
AGAIN = 1.0  # seconds after which a process that is late is told again: a callback of the garbage collector is deaf
TOGETHER = 5  # problems of one family in a unit of work: they share what is compiled


@dataclasses.dataclass(frozen=True)
class Measured:
    """One run. Without a log evidence it failed, for the reason in `notes`."""

    problem: str
    method: str
    seed: int
    truth: float
    uncertainty: float  # of the truth: 0 where it is exact
    log_evidence: float | None
    standard_error: float | None
    bracket: tuple[float | None, float | None] | None  # None is an infinite end
    converged: bool
    notes: tuple[str, ...]
    cpu_seconds: float
    first: bool  # in a fresh process: its time has compilations in it
    by: str = ""  # the method whose result it is, where another one took its place
    beside: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)  # its other estimates


Unit = tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]  # a method, and the seeds of each problem
Said = tuple[float | None, float | None, Any, bool, tuple[str, ...], str, dict[str, tuple[float, float]]]


class Late(Exception):
    """The time that was given is over."""


class Spent(Exception):
    """A run of another library has had its CPU seconds."""


def units(names: Sequence[str], methods: Sequence[str], seeds: int, done: Sequence[Measured]) -> list[Unit]:
    """What is left to do, in pieces for one process each: of every method one piece of each family, those that take
    longest first, then the second pieces; of other libraries, all on one problem of each family, then on the second.
    What is cut off by the clock is then spread over all families. Where one run has had its CPU seconds in vain, no
    other seed follows."""
    known = {(run.problem, run.method, run.seed) for run in done}
    hopeless = {(run.problem, run.method) for run in done if spent(run.notes)}
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(problems()[name].family, []).append(name)
    found = []
    for number, method in enumerate(sorted(methods, key=ORDER.index)):
        size = 1 if method in PEERS else TOGETHER
        for of in families.values():
            for first in range(0, len(of), size):
                left = {
                    name: tuple(seed for seed in range(seeds) if (name, method, seed) not in known)
                    for name in of[first : first + size]
                    if runs_on(method, problems()[name]) and (name, method) not in hopeless
                }
                if any(left.values()):
                    unit = method, tuple((name, seeds) for name, seeds in left.items() if seeds)
                    turn = (first, not problems()[of[first]].slow)
                    found.append(((0, *turn, number) if method in PEERS else (number, *turn, 0), unit))
    return [unit for _, unit in sorted(found, key=lambda one: one[0])]


def runs_on(method: str, problem: Problem) -> bool:
    """Other libraries have no target where latents cannot be summed out."""
    return method not in PEERS or not summed(problem.model()).local_groups


def spent(notes: Sequence[str]) -> bool:
    return any(note.startswith(Spent.__name__) for note in notes)


def measure(unit: Unit, ends: float, limit: float = math.inf) -> list[Measured]:
    """All runs of a unit that come to an end before the time (of `time.time`) is over. A run of another library has at
    most `limit` CPU seconds; the seeds after one that needs more are left out."""
    method, work = unit
    found: list[Measured] = []
    sys.unraisablehook = _unless_late
    signal.signal(signal.SIGALRM, _late)
    signal.signal(signal.SIGPROF, functools.partial(_spent, limit))
    signal.setitimer(signal.ITIMER_REAL, max(ends - time.time(), 0.01), AGAIN)
    try:
        for name, seeds in work:
            problem = problems()[name]
            truth, began = problem.log_evidence, time.process_time()
            run = _peer(method, problem) if method in PEERS else _ours(method, problem)
            for number, seed in enumerate(seeds):
                signal.setitimer(signal.ITIMER_PROF, limit if method in PEERS and limit < math.inf else 0.0, AGAIN)
                *said, by, beside = run(seed)
                signal.setitimer(signal.ITIMER_PROF, 0.0)
                took, first = time.process_time() - began, number == 0 and (method in PEERS or not found)
                fit = truth, problem.uncertainty, *said, took, first, by, beside
                found.append(Measured(name, method, seed, *fit))
                if spent(found[-1].notes):
                    break
                began = time.process_time()
    except Late:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return found


def _late(*_: Any) -> None:
    raise Late


def _spent(limit: float, *_: Any) -> None:
    raise Spent(f"no answer in {limit:g} CPU seconds")


def _unless_late(unraisable: Any) -> None:
    if unraisable.exc_type not in (Late, Spent):
        sys.__unraisablehook__(unraisable)


def _ours(method: str, problem: Problem) -> Callable[[int], Said]:
    def run(seed: int) -> Said:
        try:
            fit = tp.fit(problem.model(), problem.data, OURS[method](), seed=seed, progress=False)
        except Late:
            raise
        except TemperanceError as failure:
            return None, None, None, False, (str(failure),), "", {}
        except Exception as failure:  # a fault of ours, which counts as a run without a result
            return None, None, None, False, (f"{type(failure).__name__}: {failure}"[:200],), "", {}
        ends = fit.bracket and tuple(end if math.isfinite(end) else None for end in fit.bracket)
        beside = {name: (float(one[0]), float(one[1])) for name, one in fit.details.get("estimates", {}).items()}
        by = next((note for note in fit.notes if "this is" in note), "")
        return fit.log_evidence, fit.standard_error, ends, fit.converged, tuple(fit.notes), by, beside

    return run


def _peer(method: str, problem: Problem) -> Callable[[int], Said]:
    from . import peers
    from .target import target

    try:
        run_peer = peers.PEERS[method](target(problem))
    except TemperanceError as failure:
        reason = str(failure)
        return lambda seed: (None, None, None, False, (reason,), "", {})

    def run(seed: int) -> Said:
        try:
            value, error = run_peer(seed)
        except Late:
            raise
        except Exception as failure:  # whatever a peer raises is its failure on this problem
            return None, None, None, False, (f"{type(failure).__name__}: {failure}"[:200],), "", {}
        known = math.isfinite(value)
        return (value if known else None), error, None, known, (), "", {}

    return run


def keep(path: Path, runs: Sequence[Measured]) -> None:
    """Everything so far, replaced at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([dataclasses.asdict(run) for run in runs], indent=0))
    fresh.replace(path)


def kept(path: Path) -> list[Measured]:
    """What an earlier call has left there."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return [Measured(**row | {"notes": tuple(row["notes"])}) for row in rows]
