"""Latent classes of mixed columns: one VB iteration beside StepMix's EM iteration, on the same table and classes.

Columns are real, counts, yes/no and categories of four levels, in equal numbers. Without StepMix ours stands alone;
rows and columns are those of the environment variable CLASS_SPEED ("10000000x50" for a GPU).
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np

import temperance as tp

from ._timing import alternate, per_iteration, report

CLASSES = 10


def simulate(n: int, d: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    label, table = rng.integers(CLASSES, size=n), {}
    for column in range(d):
        kind = ("real", "count", "binary", "category")[column % 4]
        centre = rng.normal(scale=1.5, size=CLASSES)[label]
        if kind == "real":
            table[f"{kind}_{column}"] = centre + rng.standard_normal(n)
        elif kind == "count":
            table[f"{kind}_{column}"] = rng.poisson(np.exp(0.5 * centre)).astype(float)
        elif kind == "binary":
            table[f"{kind}_{column}"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-centre))).astype(float)
        else:
            table[f"{kind}_{column}"] = np.clip(np.floor(2.0 + centre / 2.0 + rng.random(n)), 0, 3)
    return table


def ours(table: tp.Table, iterations: int) -> tp.Fit:
    return tp.fit(tp.ClassMixture(CLASSES), table, tp.VB(max_iter=iterations, tol=0.0), seed=0, progress=False)


def stepmix(table: dict[str, np.ndarray], iterations: int) -> None:
    import pandas as pd
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    frame = pd.DataFrame(table)
    named = {
        kind: [name for name in frame if name.startswith(kind)] for kind in ("real", "count", "binary", "category")
    }
    columns, descriptor = get_mixed_descriptor(
        frame,
        gaussian_diag=named["real"] + named["count"],  # it has no counts
        binary=named["binary"],
        categorical=named["category"],
    )
    StepMix(
        CLASSES, measurement=descriptor, max_iter=iterations, abs_tol=0.0, rel_tol=0.0, random_state=0, progress_bar=0
    ).fit(columns)


def main() -> None:
    n, d = (int(part) for part in os.environ.get("CLASS_SPEED", "1000000x20").split("x"))
    columns = simulate(n, d)
    table = tp.read_table(columns, kinds={name: "category" for name in columns if name.startswith("category")})
    ours(table, 2)  # compiles
    if find_spec("stepmix") is None:
        few, many = (2, 12)
        print(f"one iteration of {n:,} × {d}: {per_iteration(lambda i: ours(table, i), few, many):.3f} s")
        return
    mine, theirs, ratios = alternate(
        lambda: per_iteration(lambda i: ours(table, i), 2, 42),
        lambda: per_iteration(lambda i: stepmix(columns, i), 1, 3),
        rounds=3,
    )
    report(f"{n:,} × {d} mixed columns, K = {CLASSES}", mine, theirs, ratios)


if __name__ == "__main__":
    main()
