"""Stochastic steps: their cost a row beside a sweep of VB, what a pass buys, streams beside memory, and the sweep
over binary factors beside the one derived by automatic differentiation. Compilation is left out by running twice."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import temperance as tp
from temperance.models import Model, Powers
from temperance.models._derive import ascend_in_turn
from temperance.models._model import means

from ._timing import alternate, report, seconds

N, D, K = 200_000, 8, 16


def simulate() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(scale=3.0, size=(K, D))[rng.integers(K, size=N)] + rng.normal(size=(N, D))


def model() -> tp.GaussianMixture:
    return tp.GaussianMixture(K, prior=tp.NormalWishart(np.zeros(D), 0.01, D + 2.0, np.eye(D)))


def what_a_pass_buys(x: np.ndarray) -> None:
    """Nats a datum below the best bound seen, after so many passes from the same start."""
    rows = {}
    for passes in (1, 2, 5, 10):
        vb = tp.VB(max_iter=passes, tol=0.0)
        memoised = tp.VB(max_iter=passes, tol=0.0, batches=100)
        svi = tp.SVI(batch_size=1024, passes=passes)
        rows[passes] = [tp.fit(model(), x, method, progress=False).log_evidence for method in (vb, memoised, svi)]
    best = max(max(row) for row in rows.values())
    print(f"nats a datum below the best bound, N = {N:,}, d = {D}, K = {K}: VB, VB in 100 batches, SVI (1024 rows)")
    for passes, row in rows.items():
        print(f"  {passes:3d} passes  " + "  ".join(f"{(best - bound) / N:10.6f}" for bound in row))


def cost_of_a_row(x: np.ndarray) -> None:
    for size in (64, 1024, 16_384):
        steps = 5 * N // size

        def ours(steps: int = steps, size: int = size) -> float:
            return (
                seconds(lambda: tp.fit(model(), x, tp.SVI(batch_size=size, steps=steps), progress=False)) / steps / size
            )

        def theirs() -> float:
            return seconds(lambda: tp.fit(model(), x, tp.VB(max_iter=5, tol=0.0), progress=False)) / 5 / N

        ours(), theirs()
        report(f"a row in SVI (minibatch {size}) and in VB, × 10⁶", *_millions(alternate(ours, theirs, 3)))


def _millions(result: tuple[float, float, np.ndarray]) -> tuple[float, float, np.ndarray]:
    return 1e6 * result[0], 1e6 * result[1], result[2]


def streams(x: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, np.tile(x, (5, 1)))
        rows = np.load(path)
        method = tp.SVI(batch_size=1024, passes=1)

        def memory() -> float:
            return seconds(lambda: tp.fit(model(), rows, method, progress=False))

        def stream() -> float:
            return seconds(lambda: tp.fit(model(), tp.Stream(path), method, progress=False))

        memory(), stream()
        report(f"a pass over {rows.nbytes >> 20} MB in memory, and as a stream", *alternate(memory, stream, 3))


@eqx.filter_jit
def _ours(model: Model, m: object, x: jax.Array, q: object) -> object:
    return model.ascend_local(m, x, Powers(), q, 1)  # type: ignore[arg-type]


@eqx.filter_jit
def _derived(model: Model, m: object, x: jax.Array, q: object) -> object:
    return ascend_in_turn(model, m, x, Powers(), q, 1)  # type: ignore[arg-type]


def _timed(function: Any, arguments: tuple[Any, ...]) -> float:
    return seconds(lambda: jax.block_until_ready(function(*arguments)))


def factors() -> None:
    rng = np.random.default_rng(0)
    for k in (16, 64, 256):
        images = rng.normal(size=(2000, 64))
        complete, data = tp.FactorialMixture(k, noise=0.5, probability=0.2).prepare(images)
        q = complete.initial(jax.random.key(0), data)
        arguments = (complete, means(q.blocks), data.values, q.locals)
        ours, derived = (partial(_timed, f, arguments) for f in (_ours, _derived))
        ours(), derived()
        report(f"a sweep over {k} factors, and as derived", *alternate(ours, derived, 3))


def main() -> None:
    x = simulate()
    what_a_pass_buys(x)
    cost_of_a_row(x)
    streams(x)
    factors()


if __name__ == "__main__":
    main()
