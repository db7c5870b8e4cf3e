"""The VB posterior of a logistic regression beside scikit-learn's maximum (lbfgs), 100,000 rows by 50 columns.

    python -m benchmarks.logistic [rows] [columns]

Processor seconds, each from data in memory: the first call, and seven more in turn, of which the median ratio counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression

import temperance as tp

ROUNDS = 7


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main(rows: int = 100_000, columns: int = 50) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    weights = rng.normal(size=columns) / np.sqrt(columns)
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-x @ weights))).astype(float)
    ours = lambda: tp.fit(tp.LogisticRegression(prior=1.0), (x, y), tp.VB(), progress=False)  # noqa: E731
    theirs = lambda: LogisticRegression(C=1.0, solver="lbfgs", max_iter=1000).fit(x, y)  # noqa: E731
    first = seconds(ours), seconds(theirs)
    again = np.array([(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)])
    for name, (a, b) in (("first", first), ("again", np.median(again, axis=0))):
        print(f"{name}: temperance {a:.3f} s, scikit-learn {b:.3f} s, ratio {a / b:.2f}")
    ratios = again[:, 0] / again[:, 1]
    print(f"ratio in each round: median {np.median(ratios):.2f}, from {ratios.min():.2f} to {ratios.max():.2f}")
    fit = ours()
    apart = np.abs(np.asarray(fit.posterior["weights"].location)[1:] - theirs().coef_[0]).max()  # type: ignore[attr-defined]
    print(f"sweeps {len(fit.history['elbo'])}, largest difference of the weights {apart:.2g}")  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
