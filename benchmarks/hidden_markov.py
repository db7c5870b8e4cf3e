"""Gaussian hidden Markov models: one VB iteration beside hmmlearn's two implementations.

Same data, same prior; hmmlearn's iteration is an E step, its bound and an M step, timed without its k-means start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

import temperance as tp

from ._timing import alternate, per_iteration, report, seconds

STEPS, STATES, COLUMNS = 100_000, 10, 4


def simulate(steps: int, states: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    means = rng.normal(scale=3.0, size=(states, columns))
    stay, other = rng.uniform(size=steps) < 0.95, rng.integers(states, size=steps)
    path = np.empty(steps, dtype=int)
    path[0] = 0
    for t in range(1, steps):
        path[t] = path[t - 1] if stay[t] else other[t]
    return means[path] + rng.normal(size=(steps, columns))


def ours(x: np.ndarray, states: int, iterations: int, engine: str = "auto") -> tp.Fit:
    prior = tp.NormalWishart(x.mean(axis=0), 1.0, float(x.shape[1]), 1e-3 * np.eye(x.shape[1]))
    share = 1.0 / states
    model = tp.HMM(states, prior=prior, concentration=share, initial_concentration=share, engine=engine)
    return tp.fit(model, x, tp.VB(max_iter=iterations, tol=0.0), seed=0, progress=False)


def hmmlearn(x: np.ndarray, states: int, implementation: str) -> Callable[[], float]:
    """Seconds of one iteration, each from where the last one ended."""
    from hmmlearn.vhmm import VariationalGaussianHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    model = VariationalGaussianHMM(states, covariance_type="full", random_state=0, implementation=implementation)
    model._init(x, [len(x)])
    model._check()

    def iterate() -> None:
        statistics, log_sum = model._do_estep(x, [len(x)])
        model._compute_lower_bound(log_sum)
        model._do_mstep(statistics)

    iterate()
    return lambda: seconds(iterate)


def main() -> None:
    x = simulate(STEPS, STATES, COLUMNS)
    few, many = 5, 35
    ours(x, STATES, few)
    mine = lambda: per_iteration(lambda n: ours(x, STATES, n), few, many)  # noqa: E731
    shape = f"{STEPS} steps, {STATES} states, {COLUMNS} columns"
    for implementation in ("log", "scaling"):
        theirs = hmmlearn(x, STATES, implementation)
        report(f"hmmlearn ({implementation}), {shape}", *alternate(mine, theirs))


if __name__ == "__main__":
    main()
