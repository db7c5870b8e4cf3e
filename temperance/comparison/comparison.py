"""The result of a comparison: the evidence of every model by every method, and the resulting probabilities."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import storage
from ..cards import Card, bars, card
from ..errors import InvalidParameter, NumericalFailure
from ..evidence.stacking import stacking
from ..fit import Fit
from ..inference._method import Method
from ..inference.variational.annealed import Annealed
from ..inference.variational.coordinate import VB
from ..inference.variational.local_tempered import LVT
from ..inference.variational.stochastic import SVI
from ..inference.variational.tempered import VT
from ..models._answers import Clustering
from ..numerics.host import logsumexp
from ..summary import Summary
from .names import Label, size_of

if TYPE_CHECKING:
    from ..diagnostics.loo import LOO
    from ..report.co_membership import CoMembership
    from .publication import Publication
    from .sensitivity import PriorSensitivity

NOT_REACHED = "not reached: the comparison was interrupted"
_SIMULATED = 4000  # simulated evidences, drawn by their standard errors
_NEGLIGIBLE = 1e-9  # models with a smaller probability are left out of predictions


@dataclasses.dataclass(frozen=True)
class Cell:
    """The result for one model by one method."""

    model: Label
    method: str
    fit: Fit | None = dataclasses.field(repr=False)  # None if the fit failed or was not reached
    failure: str = ""
    label_correction: float = 0.0  # log of the number of labellings that the method did not count

    @property
    def log_evidence(self) -> float:
        """The log evidence, −∞ where there is none, so that such a model is never the best."""
        found = None if self.fit is None else self.fit.log_evidence
        return -np.inf if found is None else found

    @property
    def total(self) -> float:
        """The log evidence of all labellings together."""
        return self.log_evidence + self.label_correction

    @property
    def bracket(self) -> tuple[float | None, float | None]:
        """Two numbers that enclose the log evidence, None for an unknown one; a variational bound is the lower one."""
        if self.fit is not None and self.fit.bracket is not None:
            return self.fit.bracket
        plain = None if self.fit is None else _untempered(self.fit.method)
        return (self.fit.log_evidence if self.fit is not None and isinstance(plain, VB) else None), None

    @property
    def usable(self) -> bool:
        """Whether this evidence may decide: ln s of message passing that has not converged can be any number, while a
        bound is valid at every step, and a Monte Carlo estimate has an error bar."""
        if self.fit is None or not np.isfinite(self.log_evidence):
            return False
        bounded = self.fit.method.monotone or isinstance(_untempered(self.fit.method), VB | SVI)
        return self.fit.converged or bounded or self.fit.bracket is not None

    @property
    def in_use(self) -> int | None:
        """How many of the parts that the model allows hold data; None where a model has no such parts."""
        if self.fit is None or size_of(self.fit.model) is None:
            return None
        if isinstance(self.fit.model, Clustering):  # without the table, whose numbers need compiled code
            return self.fit.model.occupied(self.fit._families(), self.fit.data) or None
        return len(self.fit.columns().get(self.fit.model.words.part, ())) or None


def _untempered(method: Method) -> Method:
    """The method inside a tempered one, which runs at T = 1 at the end and gives its bound."""
    return method.method if isinstance(method, Annealed | VT | LVT) else method


@dataclasses.dataclass(frozen=True)
class Comparison(Card):
    """Every model by every method. See `compare`.

    Arrays are (methods, models) if a list of methods was given, and (models,) for a single method. In what follows
    `model` and `method` are names, as in `models` and `methods`; `x_new` is new data.
    """

    models: tuple[Label, ...]  # the label of each model: its size, or its name
    methods: tuple[str, ...]  # their names
    cells: tuple[tuple[Cell, ...], ...] = dataclasses.field(repr=False)  # methods × models
    log_prior: np.ndarray = dataclasses.field(repr=False)  # of the models
    seed: Any  # of every fit
    single: bool  # one method, not a list
    size_name: str  # what the labels count: "components", "topics", … or "model"
    criterion: str = "evidence"  # the criterion of `best`; or "loo"

    @property
    def log_evidence(self) -> np.ndarray:
        """`fit.log_evidence` of each model by each method; −∞ where there is no result."""
        return self._array("log_evidence")

    @property
    def label_correction(self) -> np.ndarray:
        """log K!, or less, for methods that see one of the equivalent labellings of a solution."""
        return self._array("label_correction")

    @property
    def total_log_evidence(self) -> np.ndarray:
        """`log_evidence + label_correction`, the evidence by which models are compared."""
        return self._array("total")

    @property
    def decided_by(self) -> str:
        """The method whose evidence decides: the first that brackets the evidence of every model and has converged,
        or else the first that was given and has a usable result."""
        return self.methods[self._deciding()]

    @property
    def best(self) -> Label:
        """The most probable model (its size, or its name); with `criterion="loo"` the model that predicts each datum
        best from all others."""
        if self.criterion == "loo":
            return max(self.loo, key=lambda label: self.loo[label].elpd)
        return self.models[int(np.argmax(self.probabilities))]

    @property
    def best_fit(self) -> Fit:
        """The fit of the best model, by the method that decides."""
        return self.fit(self.best)

    @property
    def choices(self) -> dict[str, Label | None]:
        """The model that each method prefers; None for a method without a usable result, or with a usable result for
        only one of several models."""
        return {name: self.choice(name) for name in self.methods}

    def choice(self, method: str) -> Label | None:
        """The model that one method prefers, as in `choices`."""
        usable = len(self.models) - len(self.set_aside(method))
        if usable < min(2, len(self.models)):
            return None
        return self.models[int(np.argmax(self.probabilities_by(method)))]

    def set_aside(self, method: str) -> tuple[Label, ...]:
        """The models whose result by this method may not decide: it failed, or did not converge. The probabilities are
        those of the remaining models alone."""
        return tuple(cell.model for cell in self.cells[self._row(method)] if not cell.usable)

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

    def probability_errors_by(self, method: str) -> np.ndarray | None:
        """The Monte Carlo error of each probability, from evidences drawn by their standard errors; None for a method
        without such errors."""
        row = self.cells[self._row(method)]
        errors = [cell.fit.standard_error if cell.fit is not None and cell.usable else None for cell in row]
        if all(error is None for error in errors):
            return None
        log = np.array([cell.total if cell.usable else -np.inf for cell in row]) + self.log_prior
        noise = np.random.default_rng(0).normal(size=(_SIMULATED, len(row)))
        drawn = log + noise * np.array([error or 0.0 for error in errors])
        return np.asarray(np.std(np.exp(drawn - logsumexp(drawn, axis=1)[:, None]), axis=0))

    @functools.cached_property
    def loo(self) -> dict[Label, LOO]:
        """`fit.loo()` of every model that has a fit, by the method that decides."""
        return {cell.model: cell.fit.loo() for cell in self.cells[self._deciding()] if cell.fit is not None}

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

    def stacking(self, seed: int = 0) -> np.ndarray:
        """The weights of the models whose averaged density predicts each datum best from all others (stacking by
        `fit.loo()`), by the method that decides; 0 for models without a fit. `seed` is that of `fit.loo`."""
        row = self.cells[self._deciding()]
        fitted = [index for index, cell in enumerate(row) if cell.fit is not None]
        weights = np.zeros(len(row))
        held_out = [cell.fit.loo(seed).pointwise for cell in row if cell.fit is not None]
        weights[fitted] = stacking(np.stack(held_out, axis=1))
        return weights

    def prior_sensitivity(self) -> PriorSensitivity:
        """The choice when the prior of each block is made twice as wide and half as wide (worth half and twice as many
        observations): every model is fitted again by the method that decides, twice for each prior."""
        from .sensitivity import prior_sensitivity

        return prior_sensitivity(self)

    @property
    def complete(self) -> bool:
        """Whether every fit was reached: False after an interruption."""
        return all(cell.fit is not None or cell.failure != NOT_REACHED for row in self.cells for cell in row)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each model and method; None where a value is not known."""
        rows = []
        for name, row in zip(self.methods, self.cells, strict=True):
            probabilities, errors = self.probabilities_by(name), self.probability_errors_by(name)
            alone = len(row) - len(self.set_aside(name)) < min(2, len(row))
            for index, (cell, probability) in enumerate(zip(row, probabilities, strict=True)):
                low, high = cell.bracket
                rows.append(
                    {
                        self.size_name: cell.model,
                        "method": name,
                        "log_evidence": cell.log_evidence if np.isfinite(cell.log_evidence) else None,
                        "label_correction": cell.label_correction,
                        "low": low,
                        "high": high,
                        "probability": float(probability) if cell.usable and not alone else None,
                        "converged": bool(cell.fit is not None and cell.fit.converged),
                        "probability_error": float(errors[index]) if errors is not None and cell.usable else None,
                        "in_use": cell.in_use,
                        "seconds": None if cell.fit is None else cell.fit.seconds,
                        "failure": cell.failure or None,
                    }
                )
        return rows

    def to_frame(self) -> Any:
        """`rows()` as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def publication(self, restarts: int = 20) -> Publication:
        """The table that people publish about groups (latent classes): for every size the log evidence, the largest
        log likelihood (from so many `restarts` of EM), AIC, BIC, aBIC, ICL, entropy, sizes and stability.
        See its `to_latex()`."""
        from .publication import publication

        return publication(self, restarts)

    def co_membership(self, most: int = 300) -> CoMembership:
        """The probability that two rows belong together, averaged over the models by their probabilities: see
        `Fit.co_membership`. The groups are those of `best_fit`; `most` is the largest number of rows."""
        from ..report.co_membership import co_membership

        return co_membership(self, most)

    def plot(self, axes: Any = None) -> Any:
        """The Ockham hill, on these Matplotlib `axes` or in a new figure; returns the axes."""
        from ..report.plots import hill

        return hill(self, axes=axes)

    def summary(self) -> Summary:
        """The table and the conclusion: print them, or let a notebook show them."""
        from ..report.words import comparison_text

        return Summary(comparison_text(self))

    def _card(self) -> str:
        from ..report.words import columns, conclusion, shown

        rows = self.rows()
        names = columns(rows)
        head = [name.replace("_", " ") for name in names]
        table = [head, *([shown(name, row[name]) for name in names] for row in rows)]
        row = self.cells[self.methods.index(self.decided_by)]
        heights = [cell.total if cell.usable else np.nan for cell in row]
        picture = bars([str(cell.model) for cell in row], heights, f"log evidence of each, by {self.decided_by}")
        steps = ("hill.best_fit", "hill.plot()", 'tp.report(hill, "hill.html")')
        return card(f"Comparison of {len(row)} models", conclusion(self), picture, table, steps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file at `path`, which `tp.load` reads."""
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
        for least in (2, 1):  # a choice needs two models
            for index, row in enumerate(self.cells):
                if sum(cell.usable for cell in row) >= min(least, len(row)):
                    return index
        if self.criterion == "loo":
            return next(index for index, row in enumerate(self.cells) if any(cell.fit is not None for cell in row))
        why = next((cell.failure for row in self.cells for cell in row if cell.failure), "nothing converged")
        raise NumericalFailure(f"no method has a usable log evidence for any model: {why}")
