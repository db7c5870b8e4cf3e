"""How the choice of size changes when each prior is made twice as wide and twice as narrow.

The prior of one block at a time is changed to count as half and as twice as many observations: a Normal then has twice
and half its variance. Every model is fitted again by the method that decides.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from ..errors import NumericalFailure, UnsupportedMethod
from ..families._family import Family
from ..fitting import refit
from ..numerics.place import on_device

if TYPE_CHECKING:
    from .comparison import Cell, Comparison
    from .names import Label

CHANGES = {"twice as wide": 0.5, "half as wide": 2.0}  # change → factor of the observations that a prior counts as


@dataclasses.dataclass(frozen=True)
class PriorSensitivity:
    """The choice under each changed prior; printed, it is one sentence."""

    name: str  # of the best model, in words
    best: Label  # under the unchanged priors
    probability: float
    changed: dict[tuple[str, str], Comparison] = dataclasses.field(repr=False)  # by block and change

    @property
    def choices(self) -> dict[tuple[str, str], Label]:
        return {key: hill.best for key, hill in self.changed.items()}

    @property
    def stable(self) -> bool:
        """Whether the same model is the best under all these priors."""
        return set(self.choices.values()) <= {self.best}

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each changed prior."""
        rows = []
        for (block, change), hill in self.changed.items():
            kept = float(hill.probabilities[hill.models.index(self.best)])
            rows.append(
                {
                    "prior": block, "change": change, "best": hill.best,
                    "probability": float(hill.probabilities.max()), f"probability of {self.best}": kept,
                }
            )  # fmt: skip
        return rows

    def to_frame(self) -> Any:
        """`rows()` as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        from ..report.words import join, percent

        if not self.changed:
            return "No prior of these models can be made wider or narrower."
        if self.stable:
            lowest = min(row[f"probability of {self.best}"] for row in self.rows())
            return (
                f"The choice of {self.name} stays when any prior is made twice as wide or half as wide; the lowest "
                f"probability is {percent(lowest)}."
            )
        others = [
            f"{row['best']} (probability {percent(row['probability'])}) with that of the {row['prior']} {row['change']}"
            for row in self.rows()
            if row["best"] != self.best
        ]
        return f"The choice of {self.name} rests on the prior: it is {join(others)}."


def prior_sensitivity(comparison: Comparison) -> PriorSensitivity:
    """See `Comparison.prior_sensitivity`."""
    from ..report.words import in_words

    name = comparison.decided_by
    row = comparison.cells[comparison.methods.index(name)]
    if any(cell.fit is not None and (cell.fit.method.arranges or cell.fit.method.streams) for cell in row):
        raise UnsupportedMethod(
            f"prior_sensitivity fits every model again to data in memory, and {name} takes them in pieces; use tp.VB"
        )
    changed = {}
    for block in blocks(row):
        for change, worth in CHANGES.items():
            cells = [_again(cell, block, worth) for cell in row]
            if any(new is not old for new, old in zip(cells, row, strict=True)):
                changed[block, change] = dataclasses.replace(
                    comparison, methods=(name,), cells=(tuple(cells),), single=True, criterion="evidence"
                )
    plain = dataclasses.replace(comparison, criterion="evidence")
    return PriorSensitivity(in_words(plain), plain.best, float(plain.probabilities.max()), changed)


def blocks(row: tuple[Cell, ...]) -> list[str]:
    """The names of the priors, in the order of the models."""
    fits = [cell.fit for cell in row if cell.fit is not None]
    return list(dict.fromkeys(name for fit in fits for name, p in fit.model.prior.items() if isinstance(p, Family)))


def _again(cell: Cell, block: str, worth: float) -> Cell:
    """The cell under the changed prior; the unchanged cell if the model has no such prior or it cannot be changed."""
    if cell.fit is None or not cell.usable or not isinstance(prior := cell.fit.model.prior.get(block), Family):
        return cell
    fresh = jax.tree.map(np.asarray, prior).worth(worth)  # of host arrays: there is nothing to compile
    if not np.all(fresh.is_proper()):
        return cell
    changed = cell.fit.model.prior | {block: jax.tree.map(on_device, fresh)}
    model = eqx.tree_at(lambda m: m.prior, cell.fit.model, changed)
    try:
        fit = refit(cell.fit, cell.fit.method, cell.fit.seed, model)
    except NumericalFailure as error:
        return dataclasses.replace(cell, fit=None, failure=str(error))
    return dataclasses.replace(cell, fit=fit, label_correction=fit.label_correction)
