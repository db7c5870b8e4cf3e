"""How many groups of galaxies? The whole library on 82 velocities."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import active_children, get_context
from pathlib import Path

import jax
import numpy as np
import typer

import temperance as tp

from .. import registry
from ..inference._method import Method
from ..report.words import conclusion

VELOCITY = "velocity (1000 km/s)"
CODE = """import temperance as tp

x = tp.datasets.load("galaxy")  # velocities of 82 galaxies, 1000 km/s
prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
models = [tp.GaussianMixture(k, prior=prior) for k in {sizes}]
methods = {{
{methods}
}}
hill = tp.compare(models, x, methods, seed=0)
print(hill.summary())
tp.report(hill, "galaxy.html")
"""


def demo_methods(quick: bool) -> dict[str, Method]:
    # As many restarts for Hellinger as for EP: then they start in the same compiled function.
    restarts = 5 if quick else 8
    names = ("vb", "ep") if quick else ("vb", "hellinger", "ep", "pt")
    return {_LONG[name]: registry.method(name).make(restarts=restarts, draws=2000, warmup=1000) for name in names}


_LONG = {"vb": "VB", "hellinger": "Hellinger", "ep": "EP", "pt": "parallel tempering"}


@contextlib.contextmanager
def _two_processes() -> Iterator[Executor]:
    """A pool of two processes: tracing and compiling hold the interpreter's lock, so two threads would often share one
    core."""
    others = active_children()
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=_compile_quickly)
    # Only this process handles Ctrl-C: processes that are started while it is ignored keep ignoring it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for _ in range(2):
            pool.submit(int)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        time.sleep(0.3)  # waiting tasks are dropped first, so that only running ones are lost
        for process in active_children():
            if process not in others:
                process.terminate()


def _compile_quickly() -> None:
    """Compile with few optimisations, because for 82 data nearly all time goes to the compiler."""
    jax.config.update("jax_disable_most_optimizations", True)


def run_demo(folder: Path, quick: bool = False) -> tp.Comparison:
    began = time.perf_counter()
    x = tp.datasets.load("galaxy")
    prior = tp.NormalWishart(mean=np.zeros(1), pseudo_count=0.01, dof=2.0, scatter=np.full((1, 1), 0.22))
    sizes = range(2, 5) if quick else range(1, 7)
    methods = demo_methods(quick)
    typer.echo(
        f"Velocities of {len(x)} galaxies: how many groups? {', '.join(methods)}; {sizes[0]} to {sizes[-1]} groups."
    )
    models = [tp.GaussianMixture(k, prior=prior) for k in sizes]
    with _two_processes() as pool:
        hill = tp.compare(models, x, methods, seed=0, engine=pool)
    if not hill.complete:
        raise KeyboardInterrupt  # a conclusion from a part of the sizes would mislead
    folder.mkdir(parents=True, exist_ok=True)
    shown = "\n".join(f"    {name!r}: tp.{method!r}," for name, method in methods.items())
    code = CODE.format(sizes=f"range({sizes[0]}, {sizes[-1] + 1})", methods=shown)
    page = tp.report(hill, folder / "galaxy.html", title="How many groups of galaxies?", code=code, names=[VELOCITY])
    picture = folder / "galaxy.png"
    tp.plot.overview(hill, x, xlabel=VELOCITY).savefig(picture, dpi=150)
    hill.save(folder / "galaxy.tp")
    typer.echo(f"\nThe report is in {page}, the picture in {picture} ({time.perf_counter() - began:.0f} s).\n")
    typer.echo("\n".join(conclusion(hill)))
    return hill
