"""Latent classes of simulated tables: how often the number of classes is right, beside StepMix; and three-step
coefficients and outcomes at n = 1,000, whose intervals should hold the truth.

    python -m benchmarks.classes --jobs 14 --minutes 5 --results classes.jsonl [--page docs/measurements/models.md]

Every finished piece of work is a line of the file of results, so that the same command goes on where it stopped. The
number of classes is chosen by the evidence (VB). `--page` writes the tables of a page from the results.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from ._class_page import rewritten
from ._class_tables import DESIGNS, KINDS, as_columns, simulated

LARGEST = 6
BETA = np.array([[0.0, 0.0], [0.3, 0.8], [-0.4, -1.0]])
MEANS = np.array([1.0, 2.0, 4.0])
Task = tuple[str, str, int]  # what, the kind of simulation, its number


def one_table(number: int) -> dict[str, Any]:
    """The number of classes that each criterion chooses, the adjusted Rand index of the classes that follow, and what
    it costs."""
    from sklearn.metrics import adjusted_rand_score

    import temperance as tp

    from . import _class_peers as peers

    about, z, x = simulated(number)
    table = tp.read_table(as_columns(x), kinds=KINDS)
    began = time.process_time()
    hill = tp.compare([tp.ClassMixture(k) for k in range(1, LARGEST + 1)], table, tp.VB(restarts=10), number)
    spent = {"evidence": time.process_time() - began}
    chosen = {"evidence": len(hill.best_fit.order)}
    rand = {"evidence": adjusted_rand_score(z, hill.best_fit.responsibilities(table).argmax(axis=1))}
    if find_spec("stepmix") is not None:
        began = time.process_time()
        best, labels = peers.by_criteria(x, LARGEST, number)
        spent["StepMix"] = time.process_time() - began
        chosen |= best
        about |= {"tolerance": peers.TOLERANCE}
        rand |= {name: adjusted_rand_score(z, found) for name, found in labels.items()}
    return about | {"chosen": chosen, "rand": rand, "processor": spent}


def one_test(number: int) -> dict[str, Any]:
    from . import _class_peers as peers

    about, _, x = simulated(number)
    return about | {"test": peers.by_test(x, LARGEST, number)}


def one_regression(number: int, regime: str) -> dict[str, Any]:
    """Errors of three-step coefficients and outcomes at n = 1,000, their standard errors, and the errors from the true
    classes in units of theirs."""
    import temperance as tp

    rng = np.random.default_rng([52, number])
    apart = {"clear": 3.0, "medium": 2.2}[regime]
    w = rng.normal(size=1000)
    odds = np.exp(np.stack([np.ones(1000), w], axis=1) @ BETA.T)
    z = (rng.uniform(size=1000)[:, None] > (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    smokes = np.where(rng.uniform(size=1000) < 0.15 + 0.3 * z, "yes", "no")
    columns = {"a": rng.normal(apart * z, 1), "b": rng.normal(apart * (z == 1), 1),
               "c": rng.poisson(2 + apart * (z == 2)), "d": smokes}  # fmt: skip
    y = rng.normal(MEANS[z], 1)
    fit = tp.fit(tp.ClassMixture(3), columns, tp.VB(restarts=5), seed=number)
    found = fit.profiles()
    (mean,) = [item.estimate for item in found.items if item.column == "a"]
    order = np.argsort(mean)
    labels = [found.labels[place] for place in order]
    wrong = np.mean(fit.responsibilities(columns)[:, fit.order][:, order].argmax(axis=1) != z)
    effects = fit.classes_by({"w": w}, reference=labels[0])
    means = fit.outcome_by_class(y)
    rows = [effects.labels.index(label) for label in labels[1:]]
    places = [means.labels.index(label) for label in labels]
    known = _by_true_classes(z, w)
    apart_by = [(y[z == t].mean() - MEANS[t]) / (y[z == t].std(ddof=1) / np.sqrt((z == t).sum())) for t in range(3)]
    return {
        "regime": regime, "number": number, "wrong": float(wrong),
        "error": (effects.estimate[rows] - BETA[1:]).ravel().tolist(),
        "standard_error": effects.standard_error[rows].ravel().tolist(), "with_true_classes": known,
        "outcome_error": (means.estimate[places, 0] - MEANS).tolist(),
        "outcome_standard_error": means.standard_error[places, 0].tolist(), "outcome_with_true_classes": apart_by,
    }  # fmt: skip


def _by_true_classes(z: np.ndarray, w: np.ndarray) -> list[float]:
    """Errors of the multinomial logit on classes that are known, in its standard errors."""
    design = np.stack([np.ones(len(w)), w], axis=1)
    beta = BETA[1:].ravel().copy()
    for _ in range(20):
        logits = np.concatenate([np.zeros((len(w), 1)), design @ beta.reshape((2, 2)).T], axis=1)
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        slope = (((z[:, None] == np.arange(3)) - p)[:, 1:].T @ design).ravel()
        each = np.einsum("ns,st->nst", p, np.eye(3)) - p[:, :, None] * p[:, None, :]
        curved = np.einsum("nst,ni,nj->sitj", each[:, 1:, 1:], design, design).reshape((4, 4))
        beta = beta + np.linalg.solve(curved, slope)
    return ((beta - BETA[1:].ravel()) / np.sqrt(np.diag(np.linalg.inv(curved)))).tolist()


def work(task: Task) -> dict[str, Any]:
    what, kind, number = task
    found = (
        one_regression(number, kind) if what == "regression" else (one_table if what == "table" else one_test)(number)
    )
    return {"task": list(task)} | found


def tasks(tables: int, regressions: int, tests: int) -> list[Task]:
    """Regressions, StepMix's tests, the longest first, and then the tables, whose every beginning is balanced."""
    found: list[Task] = [("regression", kind, i) for i in range(regressions) for kind in ("clear", "medium")]
    tested = range(tests if find_spec("stepmix") else 0)
    found += [("test", "", i) for i in sorted(tested, key=lambda i: -DESIGNS[i % len(DESIGNS)][0])]
    return found + [("table", "", i) for i in range(tables)]


def run(pending: list[Task], results: Path, jobs: int, minutes: float) -> Iterator[dict[str, Any]]:
    """The results as they come, written at once; nothing is begun after the time."""
    end, waiting = time.monotonic() + 60 * minutes, iter(pending)
    with (
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        results.open("a", encoding="utf-8") as file,
    ):
        going = {pool.submit(work, task) for _, task in zip(range(jobs), waiting, strict=False)}
        while going:
            done, going = wait(going, return_when=FIRST_COMPLETED)
            for future in done:
                found = future.result()
                file.write(json.dumps(found) + "\n")
                file.flush()
                yield found
                fresh = next(waiting, None) if time.monotonic() < end else None
                going |= {pool.submit(work, fresh)} if fresh else set()


def main(arguments: tuple[str, ...] | None = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--minutes", type=float, default=5.0, help="nothing is begun later; 0 only reads the results")
    parser.add_argument("--results", type=Path, default=Path("classes.jsonl"))
    parser.add_argument("--page", type=Path, help="the page whose tables are written from the results")
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--tests", type=int, default=50, help="tables of StepMix's bootstrap test")
    parser.add_argument("--regressions", type=int, default=400, help="for each of clear and medium")
    given = parser.parse_args(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    lines = given.results.read_text("utf-8").splitlines() if given.results.exists() else []
    found = [json.loads(line) for line in lines]
    finished = {tuple(each["task"]) for each in found}
    pending = [task for task in tasks(given.tables, given.regressions, given.tests) if task not in finished]
    if given.minutes > 0:
        found += run(pending, given.results, given.jobs, given.minutes)
    page = rewritten(given.page.read_text("utf-8") if given.page else "", found)
    if given.page:
        given.page.write_text(page, "utf-8")
    print(page if not given.page else f"{given.page} is written", flush=True)


if __name__ == "__main__":
    main(None)
