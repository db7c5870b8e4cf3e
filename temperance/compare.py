"""`compare`: every model by every method."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._arguments import choice, whole
from .comparison.comparison import NOT_REACHED, Cell, Comparison
from .comparison.names import Label, log_prior_of, named_methods, named_models, sized
from .comparison.tasks import Task, firsts_first, fit_tasks, fitted, require_in_memory
from .fitting import as_key
from .inference._method import Method
from .inference.progress import Grid
from .models import Data, Model
from .models._answers import as_table
from .models._data import gathered
from .numerics.devices import one_device
from .numerics.keys import fold_in

CRITERIA = ("evidence", "loo")


def compare(
    models: Sequence[Model] | Mapping[Label, Model],
    data: Any,
    methods: Method | Sequence[Method] | Mapping[str, Method] | None = None,
    seed: Any = 0,
    *,
    weights: Any = None,
    prior: Any = None,
    workers: int = 1,
    progress: bool | None = None,
    resume: Comparison | None = None,
    engine: Any = None,
    criterion: str = "evidence",
) -> Comparison:
    """Fit every model by every method (default `tp.VB(restarts=10)`) and compare their evidence.

    Each cell is `tp.fit(model, data, method, seed=seed)`; `data`, `seed`, `weights` and `progress` are those of
    `tp.fit`. `models` and `methods` are lists, or mappings whose keys name them. `prior` is one weight per model
    (default: all the same). `workers` is the number of fits made at a time: the results are the same, and the compiler
    uses more than one core. Ctrl-C ends the comparison and returns the fits that are done; `resume` reuses those of the
    same models, methods, data and seed. `engine` is a Dask client whose workers make the fits, or a pool of processes
    (`concurrent.futures.ProcessPoolExecutor`). With `criterion="loo"` the best model is the one that predicts each
    datum best from all others (`fit.loo()`).
    """
    choice(*CRITERIA)("criterion", criterion)
    named, size_name = named_models(models)
    by = named_methods(methods)
    log_prior = log_prior_of(prior, len(named))
    as_key(seed)
    data = next((found for model in named.values() if (found := as_table(model, data)) is not None), data)
    tasks = [Task(label, name, model, method) for name, method in by.items() for label, model in named.items()]
    if engine is not None:
        require_in_memory(data)
        tasks = firsts_first(tasks)
    grid = Grid(progress, [task.name for task in tasks], _workers(workers, tasks))

    def label(task: Task) -> str:
        return f"{task.name}, {sized(task.label, size_name)}"

    def one(task: Task) -> Cell:
        with grid.cell(label(task)):
            return _resumed(resume, task, data, weights, seed) or fitted(task, data, weights, seed, grid)

    if engine is not None:
        finished = _elsewhere(engine, tasks, data, weights, seed, resume, grid, label)
    else:
        finished = _in_turn(tasks, one) if grid.workers == 1 else _side_by_side(tasks, one, grid)
    with grid.opened(), contextlib.closing(finished):
        cells = _share_data(_collect(finished))
    table = tuple(
        tuple(cells.get((name, label), Cell(label, name, None, NOT_REACHED)) for label in named) for name in by
    )
    single = methods is None or isinstance(methods, Method)
    return Comparison(tuple(named), tuple(by), table, log_prior, seed, single, size_name, criterion)


Finished = Generator[tuple[Task, Cell], None, None]


def _collect(finished: Finished) -> dict[tuple[str, Label], Cell]:
    """All cells; after an interruption the finished cells, if there are any."""
    done: dict[tuple[str, Label], Cell] = {}
    try:
        for task, cell in finished:
            if cell.fit is not None and cell.fit.interrupted:
                raise KeyboardInterrupt
            done[task.name, task.label] = cell
    except KeyboardInterrupt:
        if not done:
            raise
        finished.close()
    return done


def _in_turn(tasks: list[Task], one: Callable[[Task], Cell]) -> Finished:
    for task in tasks:
        yield task, one(task)


def _side_by_side(tasks: list[Task], one: Callable[[Task], Cell], grid: Grid) -> Finished:
    with ThreadPoolExecutor(grid.workers) as pool:
        waiting = {pool.submit(one, task): task for task in tasks}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            grid.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _elsewhere(
    engine: Any,
    tasks: list[Task],
    data: Any,
    weights: Any,
    seed: Any,
    resume: Comparison | None,
    grid: Grid,
    label: Callable[[Task], str],
) -> Finished:
    send: Callable[..., Iterator[tuple[Task, Cell]]]
    if isinstance(engine, Executor):
        grid.left.workers = getattr(engine, "_max_workers", 1)
        send = fit_tasks
    else:
        from .cluster import tasks as cluster

        engine = cluster.running(engine)
        grid.left.workers = cluster.threads(engine)
        send = cluster.fit_tasks
    left = []
    for task in tasks:
        with one_device():
            cell = _resumed(resume, task, data, weights, seed)
        if cell is None:
            left.append(task)
        else:
            yield task, cell
    grid.wait("compiling")
    for task, cell in send(engine, left, data, weights, seed):
        if cell.fit is not None:
            grid.elsewhere(label(task), cell.fit.seconds)
            with one_device():
                arrays = _arranged(task, data, weights, seed)[1]
            cell = dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, data=arrays))
        yield task, cell


def _workers(workers: Any, tasks: list[Task]) -> int:
    whole(1)("workers", workers)
    return 1 if any(task.model.rows.uses_all_cores for task in tasks) else min(workers, len(tasks))


def _share_data(cells: dict[tuple[str, Label], Cell]) -> dict[tuple[str, Label], Cell]:
    """Let fits to equal arrays share one copy of them."""
    shared: Any = None
    for place, cell in cells.items():
        if cell.fit is None or cell.fit.data is shared:
            continue
        if shared is not None and _same(cell.fit.data, shared):
            cells[place] = dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, data=shared))
        else:
            shared = cell.fit.data
    return cells


def _resumed(before: Comparison | None, task: Task, data: Any, weights: Any, seed: Any) -> Cell | None:
    """The cell of an earlier comparison for this model, method, data and seed, if there is one."""
    if before is None or task.name not in before.methods or task.label not in before.models:
        return None
    cell = before.cells[before.methods.index(task.name)][before.models.index(task.label)]
    if cell.fit is None or cell.fit.method != task.method or not _same(cell.fit.seed, seed):
        return None
    model, arrays = _arranged(task, data, weights, seed)
    return cell if _same(cell.fit.model, model) and _same(cell.fit.data, arrays) else None


def _arranged(task: Task, data: Any, weights: Any, seed: Any) -> tuple[Model, Data]:
    """The model and the data in the form that the fit of a task has."""
    model, arrays = task.model.prepare(data, weights)
    if task.method.row_by_row:
        arrays = gathered(arrays)
    model = task.method.prepare(model)
    if task.method.arranges:
        arrays = task.method.complete(model, arrays).arrange(fold_in(as_key(seed), 0), model, arrays)
    return model, arrays


def _same(left: Any, right: Any) -> bool:
    """Whether two trees are equal, compared by NumPy: `eqx.tree_equal` compiles a program for every shape."""
    structures: set[Any] = {jax.tree.structure(left), jax.tree.structure(right)}
    return len(structures) == 1 and all(map(_same_leaf, jax.tree.leaves(left), jax.tree.leaves(right)))


def _same_leaf(left: Any, right: Any) -> bool:
    if not isinstance(left, jax.Array | np.ndarray) or not isinstance(right, jax.Array | np.ndarray):
        return type(left) is type(right) and bool(left == right)
    if left.dtype != right.dtype:
        return False
    if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
        left, right = jax.random.key_data(left), jax.random.key_data(right)
    return np.array_equal(np.asarray(left), np.asarray(right))
