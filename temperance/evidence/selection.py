"""`compare`: every model by every method, and what their evidence says about the models."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from scipy.special import logsumexp

from .. import storage
from ..errors import InvalidParameter, NumericalFailure, UnsupportedMethod
from ..fit import Fit, as_key, fit
from ..inference._method import Method
from ..inference.point.em import EM
from ..inference.progress import Grid, Progress
from ..inference.variational.coordinate import VB
from ..models import LDA, Data, Model
from ..models._data import gathered
from .multiplicity import log_multiplicity

Label = int | str  # of a model: its size where the models differ in size, else its name
SIZES = {"n_components": "components", "n_topics": "topics", "n_factors": "factors", "n_states": "states"}
_NEGLIGIBLE = 1e-9  # models of less probability than this are left out of predictions


@dataclasses.dataclass(frozen=True)
class Cell:
    """One model by one method."""

    model: Label
    method: str
    fit: Fit | None = dataclasses.field(repr=False)  # None where it failed, or was not reached
    failure: str = ""
    label_correction: float = 0.0  # log of the number of labellings that the method did not count

    @property
    def log_evidence(self) -> float:
        return -np.inf if self.fit is None else self.fit.log_evidence

    @property
    def total(self) -> float:
        """The log evidence of all labellings together."""
        return self.log_evidence + self.label_correction

    @property
    def bracket(self) -> tuple[float | None, float | None]:
        """Numbers with the log evidence between them; the bound of variational Bayes is one from below."""
        if self.fit is not None and self.fit.bracket is not None:
            return self.fit.bracket
        return (self.fit.log_evidence if self.fit is not None and isinstance(self.fit.method, VB) else None), None

    @property
    def usable(self) -> bool:
        """Whether its evidence may decide: ln s of message passing that has not converged may be anything, while
        a bound is one wherever it stands, and a Monte Carlo estimate has an error bar."""
        if self.fit is None or not np.isfinite(self.log_evidence):
            return False
        return self.fit.converged or self.fit.method.monotone or self.fit.bracket is not None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Every model by every method. See `compare`.

    Where several methods were given, arrays are (methods, models); for a single one, (models,).
    """

    models: tuple[Label, ...]
    methods: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...] = dataclasses.field(repr=False)  # methods × models
    log_prior: np.ndarray = dataclasses.field(repr=False)  # of the models
    seed: Any
    single: bool  # one method, not a list
    size_name: str  # what the labels count: "components", "topics", … or "model"

    @property
    def log_evidence(self) -> np.ndarray:
        """What each method says of each model: `fit.log_evidence` of each; −∞ where there is no result."""
        return self._array("log_evidence")

    @property
    def label_correction(self) -> np.ndarray:
        """log K!, or less, for methods that see one of the equivalent labellings of a solution: see `docs`."""
        return self._array("label_correction")

    @property
    def total_log_evidence(self) -> np.ndarray:
        """`log_evidence + label_correction`, the evidence that models are compared by."""
        return self._array("total")

    @property
    def decided_by(self) -> str:
        """The method whose evidence decides: the first that brackets the evidence of every model and has converged,
        or else the first that was given and has a usable result."""
        return self.methods[self._deciding()]

    @property
    def best(self) -> Label:
        """The most probable model: its size, or its name."""
        return self.models[int(np.argmax(self.probabilities))]

    @property
    def best_fit(self) -> Fit:
        return self.fit(self.best)

    @property
    def choices(self) -> dict[str, Label | None]:
        """The model that each method prefers; None for a method without a usable result."""
        return {name: self.choice(name) for name in self.methods}

    def choice(self, method: str) -> Label | None:
        probabilities = self.probabilities_by(method)
        return self.models[int(np.argmax(probabilities))] if probabilities.any() else None

    @property
    def probabilities(self) -> np.ndarray:
        """The posterior probability of each model, by the method that decides."""
        return self.probabilities_by(self.decided_by)

    def probabilities_by(self, method: str) -> np.ndarray:
        """The posterior probability of each model by the evidence of one method; models without a usable result
        have none."""
        row = self.cells[self._row(method)]
        log = np.array([cell.total if cell.usable else -np.inf for cell in row]) + self.log_prior
        if not np.isfinite(log).any():
            return np.zeros(len(row))
        return np.exp(log - logsumexp(log))

    def fit(self, model: Label, method: str | None = None) -> Fit:
        """The fit of one model, by default by the method that decides."""
        if model not in self.models:
            raise InvalidParameter(f"model must be one of {', '.join(map(repr, self.models))}, got {model!r}")
        row = self._deciding() if method is None else self._row(method)
        cell = self.cells[row][self.models.index(model)]
        if cell.fit is None:
            raise NumericalFailure(f"there is no fit of {model!r} by {self.methods[row]}: {cell.failure}")
        return cell.fit

    def log_predictive(self, x_new: Any) -> np.ndarray:
        """The log density of each new datum, averaged over the models by their probabilities."""
        parts = [
            np.log(probability) + self.fit(model).log_predictive(x_new)
            for model, probability in zip(self.models, self.probabilities, strict=True)
            if probability > _NEGLIGIBLE
        ]
        return np.asarray(logsumexp(np.stack(parts), axis=0))

    @property
    def complete(self) -> bool:
        """Whether every fit was reached: False after an interruption."""
        return all(cell.fit is not None or cell.failure != NOT_REACHED for row in self.cells for cell in row)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each model and method; None where there is nothing to say."""
        rows = []
        for name, row in zip(self.methods, self.cells, strict=True):
            probabilities = self.probabilities_by(name)
            for cell, probability in zip(row, probabilities, strict=True):
                low, high = cell.bracket
                rows.append(
                    {
                        self.size_name: cell.model,
                        "method": name,
                        "log_evidence": cell.log_evidence if np.isfinite(cell.log_evidence) else None,
                        "label_correction": cell.label_correction,
                        "low": low,
                        "high": high,
                        "probability": float(probability) if cell.usable else None,
                        "converged": bool(cell.fit is not None and cell.fit.converged),
                        "seconds": None if cell.fit is None else cell.fit.seconds,
                        "failure": cell.failure or None,
                    }
                )
        return rows

    def to_frame(self) -> Any:
        """`rows()` as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def plot(self, axes: Any = None) -> Any:
        """The Ockham hill; returns Matplotlib axes."""
        from ..report.plots import hill

        return hill(self, axes=axes)

    def summary(self) -> None:
        """Print the table and the conclusion."""
        from ..report.words import comparison_text

        print(comparison_text(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `tp.load` reads."""
        storage.save(self, path)

    def _array(self, name: str) -> np.ndarray:
        values = np.array([[getattr(cell, name) for cell in row] for row in self.cells])
        return values[0] if self.single else values

    def _row(self, method: str) -> int:
        if method not in self.methods:
            raise InvalidParameter(f"method must be one of {', '.join(map(repr, self.methods))}, got {method!r}")
        return self.methods.index(method)

    def _deciding(self) -> int:
        for index, row in enumerate(self.cells):
            if all(cell.usable and cell.fit and cell.fit.bracket and cell.fit.converged for cell in row):
                return index
        for index, row in enumerate(self.cells):
            if any(cell.usable for cell in row):
                return index
        why = next((cell.failure for row in self.cells for cell in row if cell.failure), "nothing converged")
        raise NumericalFailure(f"no method has a usable log evidence for any model: {why}")


NOT_REACHED = "not reached: the comparison was interrupted"


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
) -> Comparison:
    """Fit every model by every method (default `tp.VB(restarts=10)`) and compare their evidence.

    Each cell is `tp.fit(model, data, method, seed=seed)`. Models and methods may be mappings, whose keys then name
    them. `prior` is one weight a model (default: all the same). `workers` fits are made side by side: the results are
    the same, and the compiler uses more than one core. Ctrl-C ends the comparison with what there is, and `resume`
    takes over from such a result whatever belongs to the same models, methods, data and seed. `engine` is a Dask
    client whose workers make the fits.
    """
    named, size_name = _named_models(models)
    by = _named_methods(methods)
    log_prior = _log_prior(prior, len(named))
    as_key(seed)
    tasks = [Task(label, name, model, method) for name, method in by.items() for label, model in named.items()]
    grid = Grid(progress, [task.name for task in tasks], _workers(workers, tasks))

    def label(task: Task) -> str:
        return f"{task.name}, {sized(task.label, size_name)}"

    def one(task: Task) -> Cell:
        with grid.cell(label(task)):
            return _resumed(resume, task, data, weights, seed) or fitted(task, data, weights, seed, grid)

    if engine is not None:
        finished = _on_cluster(engine, tasks, data, weights, seed, resume, grid, label)
    else:
        finished = _in_turn(tasks, one) if grid.workers == 1 else _side_by_side(tasks, one, grid)
    with grid.opened(), contextlib.closing(finished):
        cells = _share_data(_collect(finished))
    table = tuple(
        tuple(cells.get((name, label), Cell(label, name, None, NOT_REACHED)) for label in named) for name in by
    )
    single = methods is None or isinstance(methods, Method)
    return Comparison(tuple(named), tuple(by), table, log_prior, seed, single, size_name)


class Task(NamedTuple):
    label: Label
    name: str  # of the method
    model: Model
    method: Method


Finished = Generator[tuple[Task, Cell], None, None]


def _collect(finished: Finished) -> dict[tuple[str, Label], Cell]:
    """Every cell; after an interruption those that were done, unless there are none."""
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


def _on_cluster(
    engine: Any,
    tasks: list[Task],
    data: Any,
    weights: Any,
    seed: Any,
    resume: Comparison | None,
    grid: Grid,
    label: Callable[[Task], str],
) -> Finished:
    from ..cluster.tasks import check, fit_tasks, one_device, threads

    client = check(engine, data)
    grid.left.workers = threads(client)
    left = []
    for task in tasks:
        with one_device():
            cell = _resumed(resume, task, data, weights, seed)
        if cell is None:
            left.append(task)
        else:
            yield task, cell
    for task, cell in fit_tasks(client, left, data, weights, seed):
        if cell.fit is not None:
            grid.elsewhere(label(task), cell.fit.seconds)
            with one_device():
                arrays = _arranged(task, data, weights, seed)[1]
            cell = dataclasses.replace(cell, fit=dataclasses.replace(cell.fit, data=arrays))
        yield task, cell


def _workers(workers: Any, tasks: list[Task]) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidParameter(f"workers must be a whole number of at least 1, got {workers!r}")
    # The kernels of topic models use all cores by themselves, and may not be entered twice.
    return 1 if any(isinstance(task.model, LDA) for task in tasks) else min(workers, len(tasks))


def fitted(task: Task, data: Any, weights: Any, seed: Any, progress: Progress) -> Cell:
    """One cell; a numerical failure is one too."""
    try:
        done = fit(task.model, data, task.method, seed=seed, weights=weights, progress=progress)
    except NumericalFailure as error:
        return Cell(task.label, task.name, None, str(error))
    return Cell(task.label, task.name, done, "", log_multiplicity(done))


def _share_data(cells: dict[tuple[str, Label], Cell]) -> dict[tuple[str, Label], Cell]:
    """Fits to the same arrays hold one copy of them."""
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
    """The cell of an earlier comparison, if it answers the same question."""
    if before is None or task.name not in before.methods or task.label not in before.models:
        return None
    cell = before.cells[before.methods.index(task.name)][before.models.index(task.label)]
    if cell.fit is None or cell.fit.method != task.method or not _same(cell.fit.seed, seed):
        return None
    model, arrays = _arranged(task, data, weights, seed)
    return cell if _same(cell.fit.model, model) and _same(cell.fit.data, arrays) else None


def _arranged(task: Task, data: Any, weights: Any, seed: Any) -> tuple[Model, Data]:
    """The model and the data as the fit of a task has them."""
    model, arrays = task.model.prepare(data, weights)
    if task.method.row_by_row:
        arrays = gathered(arrays)
    model = task.method.prepare(model)
    if type(task.method).arrange is not Method.arrange:
        arrays = task.method.complete(model, arrays).arrange(jax.random.fold_in(as_key(seed), 0), model, arrays)
    return model, arrays


def _same(left: Any, right: Any) -> bool:
    return bool(eqx.tree_equal(left, right))


def _named_models(models: Sequence[Model] | Mapping[Label, Model]) -> tuple[dict[Label, Model], str]:
    given = list(models.values()) if isinstance(models, Mapping) else _listed(models, Model, "models")
    if not given or not all(isinstance(model, Model) for model in given):
        raise InvalidParameter(f"models must be models such as tp.GaussianMixture(3), got {models!r}")
    sizes = [size_of(model) for model in given]
    kinds = {type(model) for model in given}
    if isinstance(models, Mapping):
        labels: list[Label] = list(models)
        counted = labels == [size and size[1] for size in sizes]
    else:
        numbers = [size[1] for size in sizes if size]
        counted = len(kinds) == 1 and len(set(numbers)) == len(given)
        labels = list(numbers) if counted else _distinct([_model_name(model) for model in given])
    return dict(zip(labels, given, strict=True)), sizes[0][0] if counted and sizes[0] else "model"


def _named_methods(methods: Any) -> dict[str, Method]:
    if methods is None:
        return {"VB": VB(restarts=10)}
    if isinstance(methods, Mapping):
        named = dict(methods)
    else:
        given = _listed(methods, Method, "methods")
        named = dict(zip(_distinct([getattr(m, "name", "?") for m in given]), given, strict=True))
    for name, method in named.items():
        if not isinstance(method, Method):
            raise UnsupportedMethod(f"methods must be methods such as tp.VB(), got {method!r}")
        if isinstance(method, EM):
            raise UnsupportedMethod(
                f"methods holds {name}, whose value is a likelihood or a density and not an evidence: it grows with "
                "the size of the model; use tp.VB() or tp.Laplace()"
            )
    if not named:
        raise InvalidParameter("methods must not be empty")
    return named


def _listed(given: Any, kind: type, name: str) -> list[Any]:
    if isinstance(given, kind):
        return [given]
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidParameter(f"{name} must be a list, got {given!r}")
    return list(given)


def size_of(model: Model) -> tuple[str, int] | None:
    """What a model's size counts, and the number."""
    for field, word in SIZES.items():
        if hasattr(model, field):
            return word, int(getattr(model, field))
    degree = getattr(getattr(model, "features", None), "degree", None)
    return None if degree is None else ("degree", int(degree))


def _model_name(model: Model) -> str:
    size = size_of(model)
    return type(model).__name__ + (f"({size[1]})" if size else "")


def sized(label: Label, size_name: str) -> str:
    """3 components, 1 component, degree 2, or the name of a model."""
    if not size_name.endswith("s"):
        return str(label) if size_name == "model" else f"{size_name} {label}"
    return f"{label} {size_name[:-1] if label == 1 else size_name}"


def _distinct(names: list[str]) -> list[Any]:
    """Names that occur twice are numbered."""
    return [
        name if names.count(name) == 1 else f"{name} #{names[:index].count(name) + 1}"
        for index, name in enumerate(names)
    ]


def _log_prior(prior: Any, n: int) -> np.ndarray:
    if prior is None:
        return np.full(n, -np.log(n))
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise InvalidParameter(f"prior must be one positive weight for each of the {n} models, got {prior!r}")
    return np.log(weights / weights.sum())
