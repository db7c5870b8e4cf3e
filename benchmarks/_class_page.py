"""The tables of the page about simulated classes, from the results of `benchmarks.classes`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._class_tables import ERRORS

BEGIN, END = "<!-- simulated classes: python -m benchmarks.classes --page -->", "<!-- end of simulated classes -->"
NOMINAL = 1.959964
Result = dict[str, Any]


def rewritten(page: str, found: Sequence[Result]) -> str:
    """The page with new tables between its two marks; without a page the tables alone."""
    by = {what: [each for each in found if each["task"][0] == what] for what in ("table", "test", "regression")}
    parts = [_numbers(by["table"], by["test"]), _three_step(by["regression"], "", "coefficients"),
             _three_step(by["regression"], "outcome_", "means of an outcome")]  # fmt: skip
    text = "\n\n".join(filter(None, parts))
    if not page:
        return text
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}"


def _numbers(tables: Sequence[Result], tests: Sequence[Result]) -> str:
    if not tables:
        return ""
    lines = [
        f"How often is the number of classes right? {len(tables)} simulated tables of 300 rows: three real columns,",
        "a count, a yes/no and one of four levels, a tenth of the cells missing, 1 to 4 classes, half of the tables",
        f"with equal shares ({datetime.date.today()}, `python -m benchmarks.classes`). Ours is `tp.compare` of 1 to 6",
        "classes by `tp.VB(restarts=10)`; StepMix 3.0 has ten starts, and takes the count for Gaussian, as it has no",
        f"Poisson{_tolerances(tables)}. Differences have paired standard errors.",
        "",
        "| Bayes error | tables | ours | StepMix, BIC | its ICL | ours less BIC | ours less ICL "
        "| adjusted Rand index: ours, BIC, ICL | processor time: ours, StepMix |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for regime, (low, high) in ERRORS.items():
        these = [t for t in tables if t["regime"] == regime]
        lines += [_row(f"{low:.0%} to {high:.0%}", these)] if these else []
    return "\n".join([*lines, _row("all", tables), *_tested(tables, {each["table"]: each["test"] for each in tests})])


def _tolerances(tables: Sequence[Result]) -> str:
    """How exactly StepMix's likelihood was maximised, where not by default."""
    found = [t["tolerance"] for t in tables if "tolerance" in t]
    if not found:
        return ""
    others = f", and its default, 1e-10, in {len(tables) - len(found)}" if len(found) < len(tables) else ""
    return f"; it stops when its mean log likelihood rises by less than {found[0]:.0e} (in {len(found)} tables{others})"


def _tested(tables: Sequence[Result], found: dict[int, int | None]) -> list[str]:
    """What StepMix's bootstrap test finds, where it was run, beside ours on the same tables."""
    both = [t for t in tables if found.get(t["table"]) is not None]
    ended = sum(each is None for each in found.values())
    errors = f" On {ended} more it ended in an error." if ended else ""
    if not both:
        return []
    theirs = np.mean([found[t["table"]] == t["classes"] for t in both])
    ours = np.mean([t["chosen"]["evidence"] == t["classes"] for t in both])
    return [
        "",
        f"StepMix's bootstrap test, run on {len(both)} of these tables, is right in {theirs:.0%}, "
        f"ours in {ours:.0%}.{errors}",
    ]


def _row(name: str, these: Sequence[Result]) -> str:
    criteria = [c for c in ("evidence", "BIC", "ICL") if all(c in t["chosen"] for t in these)]
    right = {c: np.array([t["chosen"][c] == t["classes"] for t in these], dtype=float) for c in criteria}
    rand = {c: np.array([t["rand"][c] for t in these]) for c in criteria}
    share = [f"{right[c].mean():.1%}" if c in right else "–" for c in ("evidence", "BIC", "ICL")]
    apart = [_apart(right["evidence"], right.get(c)) for c in ("BIC", "ICL")]
    index = ", ".join(f"{rand[c].mean():.3f}" for c in criteria)
    names = [n for n in ("evidence", "StepMix") if all(n in t["processor"] for t in these)]
    spent = ", ".join(f"{np.median([t['processor'][n] for t in these]):.1f} s" for n in names)
    return f"| {name} | {len(these)} | {' | '.join([*share, *apart, index, spent])} |"


def _apart(ours: np.ndarray, theirs: np.ndarray | None) -> str:
    if theirs is None:
        return "–"
    each = ours - theirs
    return f"{each.mean():+.1%} ± {each.std() / np.sqrt(len(each)):.1%}".replace("-", "−")


def _three_step(found: Sequence[Result], prefix: str, name: str) -> str:
    if not found:
        return ""
    lines = [
        f"Two-sided 95% intervals of three-step {name}, three classes, 1,000 rows. The last column is the coverage",
        "that intervals from the true classes have in the same tables.",
        "",
        "| rows classified wrongly | tables | mean errors | coverage of each | together | from the true classes |",
        "|---|---|---|---|---|---|",
    ]
    for regime in ("clear", "medium"):
        these = [each for each in found if each["regime"] == regime]
        if not these:
            continue
        errors, se, known = (np.array([each[key] for each in these]) for key in
                             (f"{prefix}error", f"{prefix}standard_error", f"{prefix}with_true_classes"))  # fmt: skip
        held, best = np.abs(errors) < NOMINAL * se, np.abs(known) < NOMINAL
        shown = [", ".join(f"{value:.3f}".replace("-", "−") for value in errors.mean(axis=0)),
                 ", ".join(f"{value:.1%}" for value in held.mean(axis=0)), _share(held), _share(best)]  # fmt: skip
        wrong = np.mean([each["wrong"] for each in these])
        lines.append(f"| {wrong:.0%} | {len(these)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _share(held: np.ndarray) -> str:
    """A share with the standard error of its mean over tables."""
    each = held.mean(axis=1)
    return f"{each.mean():.1%} ± {each.std() / np.sqrt(len(each)):.1%}"
