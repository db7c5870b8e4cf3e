"""One method on a few problems, seed by seed."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path

import temperance as tp
from temperance.errors import TemperanceError

from .problems import problems

METHODS = {"IS": tp.ImportanceSampling, "AIS": tp.AIS, "PT": tp.ParallelTempering, "SMC": tp.SMC}
TOGETHER = 3  # problems of one family in a unit of work: they share what is compiled


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
    bracket: tuple[float, float] | None
    converged: bool
    notes: tuple[str, ...]
    cpu_seconds: float
    first: bool  # of its kind in a process: its time has compilations in it


Unit = tuple[str, tuple[str, ...], int]


def units(names: Sequence[str], methods: Sequence[str], seeds: int) -> list[Unit]:
    """Work for one process each, those that take longest first."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(problems()[name].family, []).append(name)
    pieces = [tuple(of[i : i + TOGETHER]) for of in families.values() for i in range(0, len(of), TOGETHER)]
    slow = {"PT": 0, "AIS": 1, "SMC": 2, "IS": 3}
    order = sorted(methods, key=lambda method: slow[method])
    return [
        (method, piece, seeds)
        for method in order
        for piece in sorted(pieces, key=lambda piece: not problems()[piece[0]].slow)
    ]


def measure(method: str, names: Sequence[str], seeds: int) -> list[Measured]:
    found = []
    for number, name in enumerate(names):
        problem = problems()[name]
        if method == "IS" and problem.model().local_groups:
            continue  # which importance sampling refuses, with a sentence
        truth = problem.log_evidence()
        for seed in range(seeds):
            began = time.process_time()
            try:
                fit = tp.fit(problem.model(), problem.data, METHODS[method](), seed=seed, progress=False)
                said = (fit.log_evidence, fit.standard_error, fit.bracket, fit.converged, fit.notes)
            except TemperanceError as failure:
                said = (None, None, None, False, (str(failure),))
            spent = time.process_time() - began
            found.append(Measured(name, method, seed, truth, problem.uncertainty, *said, spent, number + seed == 0))
    return found


def keep(path: Path, runs: Sequence[Measured]) -> None:
    """Everything so far, replaced at once; an end of a bracket that is infinite is null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    rows = [dataclasses.asdict(run) for run in runs]
    for row in rows:
        row["bracket"] = row["bracket"] and [end if abs(end) < float("inf") else None for end in row["bracket"]]
    fresh.write_text(json.dumps(rows, indent=0))
    fresh.replace(path)
