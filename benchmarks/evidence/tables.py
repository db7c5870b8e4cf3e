"""What the runs amount to: a row for each method and problem, and from these rows the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from .measure import OURS, PEERS, Measured
from .problems import how_many, problems

NOMINAL = 1.96
ENOUGH = 0.75  # of the claims on each problem: 15 of 20 seeds
T = TypeVar("T")
Row = dict[str, Any]


def error(run: Measured) -> float:
    assert run.log_evidence is not None
    return run.log_evidence - run.truth


def claims(run: Measured) -> bool:
    return run.converged and run.log_evidence is not None and run.standard_error is not None


def holds(run: Measured) -> bool:
    """Whether the truth, as far as it is known, lies within the stated error."""
    assert run.standard_error is not None
    return bool(abs(error(run)) <= NOMINAL * np.hypot(run.standard_error, run.uncertainty))


def beyond(run: Measured) -> float:
    """By how much the bracket misses; 0 where it holds the truth."""
    assert run.bracket is not None
    low, high = (np.inf * sign if end is None else end for end, sign in zip(run.bracket, (-1, 1), strict=True))
    return float(max(low - run.truth - 3 * run.uncertainty, run.truth - 3 * run.uncertainty - high, 0.0))


def by(things: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    return {name: list(group) for name, group in groupby(sorted(things, key=key), key)}


def summarised(runs: Sequence[Measured]) -> list[Row]:
    """Counts and sums of each method on each problem, from which all else follows."""
    return [_row(of) for of in by(runs, lambda run: (run.method, run.problem)).values()]


def _row(runs: Sequence[Measured]) -> Row:
    one = runs[0]
    known = [run for run in runs if run.log_evidence is not None]
    sure = [run for run in known if claims(run)]
    z = [error(run) / np.hypot(run.standard_error or np.nan, run.uncertainty) for run in sure]
    fine = [run for run in known if run.standard_error and holds(run)]
    misses = [beyond(run) for run in runs if run.bracket is not None]
    errors = [error(run) for run in known]
    why = next((note for run in runs if not claims(run) for note in run.notes[-1:]), "")
    return {
        "problem": one.problem,
        "family": problems()[one.problem].family,
        "method": one.method,
        "truth": one.truth,
        "uncertainty": one.uncertainty,
        "runs": len(runs),
        "known": len(known),
        "claims": len(sure),
        "held": sum(map(holds, sure)),
        "squares": float(np.sum(np.square(errors))),
        "mean": float(np.mean(errors)) if errors else 0.0,
        "claimed": float(sum(run.standard_error or 0.0 for run in sure)),
        "z": float(np.sum(z)),
        "z squares": float(np.sum(np.square(z))),
        "brackets": len(misses),
        "missed": sum(miss > 0 for miss in misses),
        "worst": max(misses, default=0.0),
        "missed nothing": len(fine),
        "in vain": sum(not claims(run) for run in fine),
        "later": [round(run.cpu_seconds, 4) for run in runs if not run.first],
        "first": [round(run.cpu_seconds, 4) for run in runs if run.first],
        "why": why[:160],
    }


def line(rows: Sequence[Row]) -> dict[str, float]:
    """The figures of one method over its problems."""

    def total(name: str) -> float:
        return float(sum(row[name] for row in rows))

    later, first = ([t for row in rows for t in row[name]] for name in ("later", "first"))
    return {
        "runs": total("runs"),
        "claims": _ratio(total("claims"), total("runs")),
        "root mean square error": float(np.sqrt(_ratio(total("squares"), total("known")))),
        "claimed error": _ratio(total("claimed"), total("claims")),
        "rms z": float(np.sqrt(_ratio(total("z squares"), total("claims")))),
        "±1.96 holds": _ratio(total("held"), total("claims")),
        "brackets shown": _ratio(total("brackets"), total("runs")),
        "brackets that miss": _ratio(total("missed"), total("brackets")),
        "worst miss": max(row["worst"] for row in rows),
        "warned in vain": _ratio(total("in vain"), total("missed nothing")),
        "CPU s": float(np.mean(later)) if later else float("nan"),
        "first, CPU s": float(np.mean(first)) if first else float("nan"),
    }


def precision(row: Row, seconds: float) -> float:
    """1 over mean squared error (at least the square of the reference's own) times CPU seconds."""
    mean = row["squares"] / row["known"] if row["known"] else np.inf
    return float(1.0 / (max(mean, row["uncertainty"] ** 2, 1e-12) * seconds))


def ratios(rows: Sequence[Row], ours: str, compiled: bool) -> dict[str, tuple[float, str]]:
    """By problem, the precision per CPU second of one method of ours in units of the best peer's, and that peer.

    Not `compiled`: the time is that of a first run in a fresh process (for ours, the mean over the family).
    """
    own = [row for row in rows if row["method"] == ours]
    firsts = {family: [t for row in of for t in row["first"]] for family, of in by(own, _family).items()}

    def seconds(row: Row) -> float:
        times = row["later"] if compiled else row["first"] if row["method"] in PEERS else firsts[row["family"]]
        return float(np.mean(times)) if times else np.nan

    found = {}
    for row in own:
        peers = {
            peer["method"]: precision(peer, seconds(peer))
            for peer in rows
            if peer["method"] in PEERS and peer["problem"] == row["problem"] and peer["known"]
        }
        peers = {name: value for name, value in peers.items() if np.isfinite(value)}
        own_precision = precision(row, seconds(row))
        if peers and np.isfinite(own_precision):
            best = max(peers, key=lambda name: peers[name])
            found[row["problem"]] = own_precision / peers[best], best
    return found


def _family(row: Row) -> str:
    return str(row["family"])


def printed(rows: Sequence[Row]) -> str:
    """Tables in Markdown, and the problems that fall behind."""
    methods = by(rows, lambda row: row["method"])
    lines = {name: line(methods[name]) for name in (*OURS, *PEERS) if name in methods}
    if sum(name in OURS for name in methods) > 1:
        lines["all of ours"] = line([row for row in rows if row["method"] in OURS])
    parts = [_extent(methods), _table(lines), _compared(rows), *_behind(rows)]
    return "\n".join(part for part in parts if part)


def _extent(methods: dict[str, list[Row]]) -> str:
    """How many problems and seeds each method has had, and which methods have had none."""
    words = [f"{name} on {len(rows)} of {how_many()} problems, {_seeds(rows)}" for name, rows in methods.items()]
    absent = [name for name in (*OURS, *PEERS) if name not in methods]
    return f"Run: {'; '.join(words)}." + (f" Not run: {', '.join(absent)}." if absent else "") + "\n"


def _seeds(rows: Sequence[Row]) -> str:
    most = max(row["runs"] for row in rows)
    fewer = [row["runs"] for row in rows if row["runs"] < most]
    return f"{most} seeds each" + (f" (fewer on {len(fewer)} of them, at least {min(fewer)})" if fewer else "")


def _table(lines: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(lines.values())))
    shares = {"claims", "±1.96 holds", "brackets shown", "brackets that miss", "warned in vain"}

    def shown(name: str, value: float, method: str) -> str:
        if np.isnan(value) or (
            method in PEERS and name in ("claims", "brackets shown", "worst miss", "warned in vain")
        ):
            return "–"
        return f"{value:.1%}" if name in shares else f"{value:,.0f}" if name == "runs" else f"{value:.3f}"

    found = [f"| method | {' | '.join(names)} |", f"|{'---|' * (len(names) + 1)}"]
    for method, figures in lines.items():
        found.append(f"| {method} | {' | '.join(shown(name, value, method) for name, value in figures.items())} |")
    return "\n".join(found) + "\n"


def _compared(rows: Sequence[Row]) -> str:
    """Precision per CPU second against the best peer on each problem."""
    found = []
    for method in OURS:
        warm, cold = (ratios(rows, method, compiled) for compiled in (True, False))
        if not warm:
            continue
        values, first = (np.array([value for value, _ in of.values()]) for of in (warm, cold))
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        compiling = f"{np.median(first):.2g}" if len(first) else "–"
        found.append(
            f"| {method} | {len(values)} | {middle:.2g} | {low:.2g} to {high:.2g} | {compiling} | "
            f"{np.mean(values > 1):.0%} |"
        )
    head = "| ours | problems | median | quartiles | median with compilation | better than every peer |"
    return "\n".join([head, f"|{'---|' * 6}", *found]) + "\n" if found else ""


def _behind(rows: Sequence[Row]) -> list[str]:
    """Method by method and problem by problem: claims that are false too often, brackets that miss, few claims."""
    found = []
    for row in rows:
        if row["method"] in PEERS:
            continue
        words, n = [], row["claims"]
        if row["held"] < ENOUGH * n:
            mean, rms = row["z"] / n, np.sqrt(row["z squares"] / n)
            words.append(f"{row['held']} of {n} claims hold (z: mean {mean:.1f}, root mean square {rms:.1f})")
        if row["missed"]:
            words.append(f"{row['missed']} of {row['brackets']} brackets miss, by up to {row['worst']:.3f}")
        if n < 0.8 * row["runs"]:
            words.append(f"{n} of {row['runs']} runs claim: {row['why'] or 'no note'}")
        found += [f"- {row['method']}, {row['problem']}: {'; '.join(words)}"] if words else []
    return found


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
