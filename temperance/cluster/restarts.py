"""Restarts, chains and ensembles of one fit as tasks of a cluster: every worker has all the data and runs some of them.

The keys are split as in one process, and each task takes a share of them. The client joins the results into the run
that one process would have made, from which the method makes its result.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..data.arrays import is_lazy
from ..data.stream import Stream
from ..inference._method import Method, Run
from ..inference.progress import Progress
from ..inference.run import _start, check, run
from ..models import Model
from ..models.topics import LDA
from ..numerics.devices import one_device
from ..numerics.threads import kernels
from .tasks import Call, each_done, running, threads


def spreads_restarts(engine: Any, data: Any, method: Method, checkpoint: Any, refusal: Exception | None) -> bool:
    """Whether the workers share the restarts instead of the rows: if all data are in memory, and either there are
    several restarts or the rows cannot be shared."""
    from .start import Cluster

    elsewhere = isinstance(data, str | Path | Stream | dict) or is_lazy(data)
    if engine is None or elsewhere or isinstance(engine, Cluster):
        return False
    return refusal is not None or (checkpoint is None and getattr(method, "restarts", 1) > 1)


def runner(engine: Any, model: Model, data: Any, weights: Any, method: Method, seed: Any) -> Any:
    """A replacement for `run` that makes the restarts on the workers, from the model and data as the user gave them."""
    client = running(engine)

    def on_workers(complete: Method, prepared: Model, arrays: Any, key: Any, progress: Progress, **_: Any) -> Run:
        began = time.perf_counter()
        count = getattr(complete, "restarts", 1)
        shares = np.array_split(np.arange(count), min(count, threads(client)))
        calls = [
            Call(f"restarts-{a}", (method, seed, slice(a, b + 1)), f"the task of restarts {a} to {b}")
            for a, b in ((int(share[0]), int(share[-1])) for share in shares)
        ]
        found: dict[int, Run] = {}
        with progress.task(complete.name, len(calls)) as report:
            for number, one in each_done(client, _some, (model, data, weights), calls):
                found[number] = one
                report(len(found), {})
        # Use this process's tree structure, because the identity of its nodes may not survive pickling.
        like = eqx.filter_eval_shape(_start, complete.compiled(), prepared, arrays, jax.random.split(key, count)).states
        whole = join_runs([found[number] for number in range(len(calls))])
        states = jax.tree.unflatten(jax.tree.structure(like), whole.states)
        whole = whole._replace(states=states, seconds=time.perf_counter() - began)
        check(complete, prepared, whole.history, None, 0)
        return whole

    return on_workers


def join_runs(runs: list[Run]) -> Run:
    """One run with the restarts of all; the history of a restart that ended early repeats its last entry."""
    steps = max(len(jax.tree.leaves(run.history)[0]) for run in runs)

    def along(*leaves: np.ndarray) -> np.ndarray:
        return np.concatenate(
            [np.concatenate([leaf, np.repeat(leaf[-1:], steps - len(leaf), axis=0)]) for leaf in leaves], axis=1
        )

    return Run(
        jax.tree.map(lambda *leaves: np.concatenate(leaves), *(run.states for run in runs)),
        np.concatenate([run.bounds for run in runs]),
        jax.tree.map(along, *(run.history for run in runs)),
        np.concatenate([run.converged for run in runs]),
        max(run.seconds for run in runs),
        any(run.interrupted for run in runs),
        runs[0].engine,
    )


def _some(shared: tuple[Model, Any, Any], method: Method, seed: Any, which: slice) -> Run:
    """Run these restarts on a worker, as one process would run them."""
    from ..fitting import arrange, as_key, prepare

    model, data, weights = shared
    with one_device(), kernels if isinstance(model, LDA) else contextlib.nullcontext():
        model, arrays = prepare(model, data, method, weights, seed)
        complete, arrays = arrange(model, arrays, method, seed)
        done = run(complete, model, arrays, as_key(seed), Progress(False), which=which)
        return done._replace(states=[np.asarray(leaf) for leaf in jax.tree.leaves(done.states)])
