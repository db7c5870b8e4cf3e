"""The fits of a comparison, one by one: in this process, or in a pool of processes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from concurrent.futures import Executor, as_completed
from typing import Any, NamedTuple

from ..data.arrays import is_lazy
from ..data.stream import Stream
from ..errors import InvalidParameter, NumericalFailure
from ..fit import fit
from ..inference._method import Method
from ..inference.progress import Progress
from ..models import Model
from ..numerics.devices import one_device
from ..numerics.threads import kernels
from .comparison import Cell
from .names import Label


class Task(NamedTuple):
    label: Label
    name: str  # of the method
    model: Model
    method: Method


def fitted(task: Task, data: Any, weights: Any, seed: Any, progress: Progress) -> Cell:
    """Fit one cell; a numerical failure becomes a cell without a fit."""
    try:
        done = fit(task.model, data, task.method, seed=seed, weights=weights, progress=progress)
    except NumericalFailure as error:
        return Cell(task.label, task.name, None, str(error))
    return Cell(task.label, task.name, done, "", done.label_correction)


def fitted_elsewhere(shared: tuple[Any, Any], task: Task, seed: Any) -> Cell:
    """Fit one cell in another process; the result has no data, because the caller has them."""
    with one_device(), kernels if task.model.rows.uses_all_cores else contextlib.nullcontext():
        cell = fitted(task, *shared, seed, Progress(False))
    if cell.fit is None:
        return cell
    return dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, data=None))  # type: ignore[arg-type]


def require_in_memory(data: Any) -> None:
    """Refuse data that are not in memory, because they must be sent to other processes."""
    if isinstance(data, Stream) or is_lazy(data):
        raise InvalidParameter(
            f"data must be in memory for compare(engine=...), where every worker fits whole models to them, got a "
            f"{type(data).__name__}; for tp.fit(..., engine=client) they may be partitions"
        )


def fit_tasks(pool: Executor, tasks: list[Task], data: Any, weights: Any, seed: Any) -> Iterator[tuple[Task, Cell]]:
    """Run each task in any process of the pool, and yield results in the order in which tasks end."""
    futures = {pool.submit(fitted_elsewhere, (data, weights), task, seed): task for task in tasks}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def firsts_first(tasks: list[Task]) -> list[Task]:
    """One task of each method first, then the rest in reverse order, because expensive tasks tend to come last.

    Programs that the first task of a method compiles are stored, and later tasks find them, in any process.
    """
    firsts = {task.name: task for task in reversed(tasks)}
    rest = [task for task in reversed(tasks) if firsts[task.name] is not task]
    return [*firsts.values(), *rest]
