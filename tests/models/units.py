"""Other units, for every model of real numbers by every method: the table of where the evidence follows the Jacobian.

python -m tests.models.units --jobs 4 --out units.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import temperance as tp

RNG = np.random.default_rng(0)
N = 60
X = np.round((RNG.normal(size=(N, 2)) * [1.0, 0.5] + 4.0 * RNG.integers(0, 2, (N, 1)) * [1, -1]) * 2**20) / 2**20
Y = X @ [1.0, -2.0] + 0.5 + 0.3 * RNG.normal(size=N)
# name → (model, whether a column may have a unit of its own, whether it may have another origin)
MODELS = {
    "full": (lambda: tp.GaussianMixture(2), True, True),
    "diagonal": (lambda: tp.GaussianMixture(2, covariance="diag"), True, True),
    "spherical": (lambda: tp.GaussianMixture(2, covariance="spherical"), False, True),
    "Student": (lambda: tp.StudentMixture(2), True, True),
    "process": (lambda: tp.DirichletProcessMixture(3), True, True),
    "states": (lambda: tp.HMM(2), True, True),
    "factor analysis": (lambda: tp.FactorAnalysis(1), True, True),
    "principal components": (lambda: tp.FactorAnalysis(1, noise="isotropic"), False, True),
    "factorial": (lambda: tp.FactorialMixture(2), False, False),
    "state space": (lambda: tp.StateSpace(1), True, True),
}
SHORT = tp.VB(max_iter=20, restarts=2)
METHODS = {
    "VB": SHORT,
    "Annealed": tp.Annealed(SHORT, schedule=[2.0, 1.0]),
    "VT": tp.VT(method=SHORT, temperatures=(1.0, 2.0), length=5),
    "LVT": tp.LVT(method=SHORT, temperatures=(1.0, 2.0), length=5),
    "MessagePassing": tp.MessagePassing(0.5, max_passes=5, restarts=1),
    "EP": tp.EP(max_passes=5, restarts=1),
    "Laplace": tp.Laplace(restarts=2, max_iter=20),
    "SVI": tp.SVI(batch_size=8, steps=10),
    "EM": tp.EM(max_iter=10, restarts=2),
    "ParallelTempering": tp.ParallelTempering(draws=8, warmup=4, replicas=3, reference="prior"),
    "AIS": tp.AIS(particles=4, temperatures=5),
    "SMC": tp.SMC(particles=16, populations=4),
    "ImportanceSampling": tp.ImportanceSampling(draws=64),
}
FURTHER = {
    "holes": lambda: tp.GaussianMixture(2, missing="marginalise"),
    "regression": lambda: tp.LinearRegression(),
    "relevance": lambda: tp.LinearRegression(ard=True),
}
ALL = {name: make for name, (make, *_) in MODELS.items()} | FURTHER
CELLS = [(name, method) for name in ALL for method in METHODS]
UNITS = (1e10, 1e-10, 1e100, 1e-100)
SMALL, TARGETS = X[:30], Y[:30]


def look(name: str, method: str) -> dict[str, Any]:
    """One cell: whether the evidence changes by the Jacobian to 1e-9 of its largest term, and how far off it is.

    EM's value is a density of the parameters, which have units, too: it may change by a whole power of the unit
    besides, the same in all of them.
    """
    targets = name in ("regression", "relevance")

    def evidence(unit: float) -> float | None:
        data = (SMALL * unit, TARGETS * unit) if targets else SMALL * unit
        return tp.fit(ALL[name](), data, METHODS[method], seed=0).log_evidence

    cell: dict[str, Any] = {"model": name, "method": method}
    try:
        plain, moved = evidence(1.0), [evidence(unit) for unit in UNITS]
    except tp.errors.UnsupportedMethod:
        return cell | {"outcome": "unsupported"}
    if plain is None or any(value is None for value in moved):
        same = plain is None and all(value is None for value in moved)
        return cell | {"outcome": "without evidence" if same else "off", "moved": moved, "plain": plain}
    numbers, logs = len(TARGETS) if targets else SMALL.size, np.log(UNITS)
    gaps = np.asarray(moved) + numbers * logs - plain
    power = round(gaps[0] / logs[0]) if method == "EM" else 0
    off = np.abs(gaps - power * logs) / np.maximum(abs(plain), numbers * np.abs(logs))
    return cell | {"outcome": "holds" if off.max() <= 1e-9 else "off", "off": off.tolist(), "power": power}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", default="units.json")
    parser.add_argument("--model", help="look at the cells of one model, a line of JSON for each")
    given = parser.parse_args()
    if given.model:
        for method in METHODS:
            try:
                found = look(given.model, method)
            except Exception as error:
                found = {"outcome": "error", "detail": f"{type(error).__name__}: {str(error)[:300]}"}
            print(json.dumps({"model": given.model, "method": method} | found), flush=True)
        return
    until = time.monotonic() + 60.0 * given.minutes

    def cells(model: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "tests.models.units", "--model", model]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                text, _ = process.communicate(timeout=max(until - time.monotonic(), 1.0))
            except subprocess.TimeoutExpired:
                process.kill()
                text, _ = process.communicate()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    with ThreadPoolExecutor(given.jobs) as pool:
        table = [cell for found in pool.map(cells, ALL) for cell in found]
    counts = dict(Counter(cell["outcome"] for cell in table))
    Path(given.out).write_text(json.dumps({"cells": len(CELLS), "counts": counts, "table": table}, indent=1))
    print(counts, [(cell["model"], cell["method"]) for cell in table if cell["outcome"] in ("off", "error")])


if __name__ == "__main__":
    main()
