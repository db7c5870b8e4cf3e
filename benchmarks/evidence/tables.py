"""What the runs amount to: one line a method, and the problems on which a method's claims are too often false."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np

from .measure import Measured

NOMINAL = 1.96
ENOUGH = 0.75  # of the claims on each problem: 15 of 20 seeds


def error(run: Measured) -> float:
    assert run.log_evidence is not None
    return run.log_evidence - run.truth


def claims(run: Measured) -> bool:
    return run.converged and run.log_evidence is not None and run.standard_error is not None


def holds(run: Measured) -> bool:
    """Whether the truth, as far as it is known, lies within the stated error."""
    assert run.standard_error is not None
    return abs(error(run)) <= NOMINAL * np.hypot(run.standard_error, run.uncertainty)


def beyond(run: Measured) -> float:
    """By how much the bracket misses; 0 where it holds the truth."""
    assert run.bracket is not None
    low, high = (np.inf * sign if end is None else end for end, sign in zip(run.bracket, (-1, 1), strict=True))
    return max(low - run.truth - 3 * run.uncertainty, run.truth - 3 * run.uncertainty - high, 0.0)


def by(runs: Iterable[Measured], key: Callable[[Measured], str]) -> dict[str, list[Measured]]:
    return {name: list(group) for name, group in groupby(sorted(runs, key=key), key)}


def line(runs: Sequence[Measured]) -> dict[str, float]:
    """The figures of one method (over the problems it was run on)."""
    sure = [run for run in runs if claims(run)]
    missed_nothing = [run for run in runs if run.log_evidence is not None and run.standard_error and holds(run)]
    brackets = [run for run in runs if run.bracket is not None]
    z = [error(run) / np.hypot(run.standard_error or np.nan, run.uncertainty) for run in sure]
    spreads = [np.std([error(run) for run in of]) for of in by(sure, lambda run: run.problem).values()]
    misses = [beyond(run) for run in brackets if beyond(run) > 0]
    later = [run.cpu_seconds for run in runs if not run.first]
    return {
        "runs": len(runs),
        "claims": len(sure) / len(runs),
        "|error|": _mean([abs(error(run)) for run in sure]),
        "spread": _mean(spreads),
        "claimed": _mean([run.standard_error for run in sure]),
        "rms z": float(np.sqrt(_mean(np.square(z)))),
        "±1.96": _mean([holds(run) for run in sure]),
        "brackets": len(brackets) / len(runs),
        "held": _mean([beyond(run) == 0 for run in brackets]),
        "worst miss": max(misses, default=0.0),
        "warned in vain": _mean([not claims(run) for run in missed_nothing]),
        "CPU s": _mean(later),
        "first s": _mean([run.cpu_seconds for run in runs if run.first]),
    }


def printed(runs: Sequence[Measured]) -> str:
    """A table in Markdown, and the problems that fall behind."""
    lines = {method: line(of) for method, of in by(runs, lambda run: run.method).items()}
    if len(lines) > 1:
        lines["all"] = line(runs)
    names = list(next(iter(lines.values())))
    shares = {"claims", "±1.96", "brackets", "held", "warned in vain"}

    def shown(name: str, value: float) -> str:
        if np.isnan(value):
            return "–"
        return f"{value:.1%}" if name in shares else f"{value:.0f}" if name == "runs" else f"{value:.3f}"

    rows = [f"| method | {' | '.join(names)} |", f"|{'---|' * (len(names) + 1)}"]
    for method, figures in lines.items():
        rows.append(f"| {method} | {' | '.join(shown(name, value) for name, value in figures.items())} |")
    return "\n".join([*rows, *_behind(runs)])


def _behind(runs: Sequence[Measured]) -> list[str]:
    """Method by method and problem by problem: claims that are false too often, brackets that miss, few claims."""
    found = []
    for name, of in by(runs, lambda run: f"{run.method}, {run.problem}").items():
        sure = [run for run in of if claims(run)]
        held = sum(map(holds, sure))
        missed = [beyond(run) for run in of if run.bracket is not None and beyond(run) > 0]
        words = []
        if held < ENOUGH * len(sure):
            z = np.array([error(run) / (run.standard_error or np.nan) for run in sure])
            words.append(
                f"{held} of {len(sure)} claims hold (z: mean {z.mean():.1f}, rms {np.sqrt(np.mean(z**2)):.1f})"
            )
        if missed:
            words.append(f"{len(missed)} brackets miss, by up to {max(missed):.3f}")
        if len(sure) < 0.8 * len(of):
            why = next((note for run in of if not claims(run) for note in run.notes[-1:]), "no note")
            words.append(f"{len(sure)} of {len(of)} runs claim: {why}")
        found += [f"- {name}: {'; '.join(words)}"] if words else []
    return found


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
