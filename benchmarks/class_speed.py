"""Latent classes of mixed columns: one VB iteration beside StepMix's EM iteration, on the same table and classes.

    python -m benchmarks.class_speed [--size 10000000x50] [--out speed.json]

Columns are real, counts, yes/no and categories of four levels, in equal numbers. Without StepMix, and on a GPU, ours
stands alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np

import temperance as tp
from temperance.fitting import fit_arrays

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


def main(arguments: tuple[str, ...] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1000000x20", help="rows x columns")
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    given = parser.parse_args(arguments)
    n, d = (int(part) for part in given.size.split("x"))
    columns = simulate(n, d)
    table = tp.read_table(columns, kinds={name: "category" for name in columns if name.startswith("category")})
    model, data = tp.ClassMixture(CLASSES).prepare(table)

    def ours(iterations: int) -> None:
        fit_arrays(model, data, tp.VB(max_iter=iterations, tol=0.0), 0, False)

    ours(2)  # compiles
    result: dict[str, object] = {"size": given.size, "classes": CLASSES, "jax": jax.__version__}
    result["device"] = jax.devices()[0].device_kind
    if find_spec("stepmix") is None or jax.default_backend() != "cpu":
        rounds = [per_iteration(ours, 2, 42) for _ in range(3)]
        result["seconds"] = rounds
        print(f"one iteration of {n:,} × {d}: {np.median(rounds):.4f} s", flush=True)
    else:
        mine, theirs, ratios = alternate(
            lambda: per_iteration(ours, 2, 42), lambda: per_iteration(lambda i: stepmix(columns, i), 1, 3), rounds=3
        )
        report(f"{n:,} × {d} mixed columns, K = {CLASSES}", mine, theirs, ratios)
        result |= {"seconds": mine, "stepmix": theirs, "ratios": ratios.tolist()}
    if given.out:
        given.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
