"""What tempering costs: a sweep of annealed VB, VT and LVT beside a sweep of VB, the same for minibatches of documents,
and what is worked out before.

    python -m benchmarks.tempering [name …]

CPU seconds of one thread, from runs of different length in turn, the least of several rounds of each: set-up cancels,
and others on the machine matter little.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import temperance as tp
from temperance.data import as_corpus
from temperance.inference.variational.critical import critical_temperature

Run = Callable[[int], object]

ROUNDS = 6
GRID = np.geomspace(1, 10, 8)


def problems() -> dict[str, tuple[tp.models.Model, Any, int, int]]:
    """A model, data, and the numbers of sweeps (of documents: passes) of the two runs."""
    rng = np.random.default_rng(0)
    points = rng.normal(scale=3.0, size=(16, 8))[rng.integers(16, size=50_000)] + rng.normal(size=(50_000, 8))
    pictures = (rng.random((20_000, 8)) < 0.3) @ rng.random((8, 64)) + np.sqrt(0.1) * rng.normal(size=(20_000, 64))
    known = tp.Mixture(16, tp.KnownCovarianceGaussian(np.eye(8)), prior=tp.Normal(np.zeros(8), 10.0 * np.eye(8)))
    topics, mixtures = rng.dirichlet(np.full(5000, 0.02), 50), rng.dirichlet(np.full(50, 0.05), 3000)
    words = as_corpus(np.array([rng.multinomial(150, mixture @ topics) for mixture in mixtures]))
    return {
        "Gaussian mixture (50000, 8, 16)": (tp.GaussianMixture(16), points, 5, 20),
        "known covariance (50000, 8, 16)": (known, points, 5, 20),
        "factorial mixture (20000, 64, 8)": (
            tp.FactorialMixture(8, noise=0.1, probability=0.3, factor_variance=0.35),
            pictures,
            5,
            20,
        ),
        "LDA (3000, 5000, 50), SVI": (tp.LDA(50), words, 2, 12),
    }


def sweeps(model: tp.models.Model, x: Any) -> dict[str, Run]:
    """Fits of so many sweeps, all of them hot."""

    def fit(method: Any) -> object:
        return tp.fit(model, x, method, progress=False)

    one = tp.VB(max_iter=1, tol=0.0)
    runs: dict[str, Run] = {
        "VB": lambda i: fit(tp.VB(max_iter=i, tol=0.0)),
        "annealed": lambda i: fit(tp.Annealed(one, "geometric", start=5.0, length=i)),
        "VT": lambda i: fit(tp.VT(GRID, method=one, length=i)),
        "LVT": lambda i: fit(tp.LVT(method=one, length=i)),
    }
    return {name: run for name, run in runs.items() if name != "VT" or not isinstance(model, tp.GaussianMixture)}


def passes(model: tp.models.Model, x: Any) -> dict[str, Run]:
    """Fits by minibatches, hot but for the last pass."""

    def fit(method: Any) -> object:
        return tp.fit(model, x, method, progress=False)

    def svi(i: int) -> tp.SVI:
        return tp.SVI(passes=i + 1)

    return {
        "SVI": lambda i: fit(svi(i)),
        "annealed": lambda i: fit(tp.Annealed(svi(i), "linear", start=1.5, length=i)),
        "VT": lambda i: fit(tp.VT(GRID, method=svi(i), length=i)),
        "LVT": lambda i: fit(tp.LVT(method=svi(i), length=i)),
    }


def cpu_seconds(function: Callable[[], object]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began


def compare(name: str, model: tp.models.Model, x: Any, few: int, many: int) -> None:
    runs = passes(model, x) if isinstance(model, tp.LDA) else sweeps(model, x)
    complete, data = model.prepare(x)
    if "VT" in runs:
        began = time.process_time()
        found = complete.tempering.log_normaliser(GRID, data)
        print(f"{name:34s} log C at {len(GRID)} temperatures: {time.process_time() - began:.2f} s", flush=True)
        # Once is enough: it is the same in every run.
        type(complete.tempering).log_normaliser = lambda *_: found  # type: ignore[method-assign,assignment]
    plain = next(iter(runs))
    for run in runs.values():
        run(few)  # compilation is left out
    lengths = (few, many)
    taken = {label: np.full(2, np.inf) for label in runs}
    for _ in range(ROUNDS):
        for label, run in runs.items():
            here = [cpu_seconds(lambda run=run, length=length: run(length)) for length in lengths]
            taken[label] = np.minimum(taken[label], here)
    each = {label: (long - short) / (many - few) for label, (short, long) in taken.items()}
    for label, seconds in each.items():
        print(f"{name:34s} {label:9s} {1e3 * seconds:8.1f} ms   {seconds / each[plain]:.2f} times {plain}", flush=True)
    if not isinstance(model, tp.LDA):
        critical_temperature(complete, data)
        took = cpu_seconds(lambda: critical_temperature(complete, data))
        print(f"{name:34s} critical temperature: {took:.2f} s", flush=True)


def main(arguments: tuple[str, ...] = ()) -> None:
    os.environ["TEMPERANCE_THREADS"] = "1"
    for name, problem in problems().items():
        if not arguments or any(name.startswith(wanted) for wanted in arguments):
            compare(name, *problem)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
