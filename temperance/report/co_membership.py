"""Which rows belong together: probabilities that do not depend on the numbering or the number of groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..comparison.comparison import Comparison
from ..errors import UnsupportedMethod
from ..fit import Fit
from ..models import Posterior
from ..models._answers import Clustering, require
from ._facts import all_shares, shares_of
from ._style import thin

if TYPE_CHECKING:
    from pandas import DataFrame

_DRAWS, _ROWS = 400, 10_000  # most draws, and most rows, in averages over draws
_NEGLIGIBLE = 0.01  # models with a smaller probability are left out
_SURE = 0.95


@dataclasses.dataclass(frozen=True, eq=False)
class CoMembership:
    """The probability that two rows belong to the same group: for pairs of rows, and on average between groups."""

    rows: np.ndarray  # (m,) counted from 0: group by group, the most certain row of each group first
    groups: np.ndarray  # (m,) the group of each of these rows, 0 for the largest
    probability: np.ndarray  # (m, m) for each pair of these rows
    labels: tuple[str, ...]  # (k) labels of the groups, the largest first
    between: np.ndarray  # (k, k) the mean over a row of one group and another row of the other; NaN without a pair

    @property
    def settled(self) -> float:
        """The share of pairs of rows whose probability of belonging together is above 95% or below 5%."""
        each = self.probability[np.triu_indices(len(self.rows), 1)]
        return float(np.mean((each > _SURE) | (each < 1 - _SURE))) if each.size else 1.0

    def to_frame(self) -> DataFrame:
        """`between` as a pandas frame."""
        from pandas import DataFrame

        return DataFrame(self.between, index=self.labels, columns=self.labels)


def co_membership(results: Fit | Comparison, most: int = 300) -> CoMembership:
    """The co-membership of at most `most` fitted rows. A comparison averages over its models by their probabilities."""
    best = results.best_fit if isinstance(results, Comparison) else results
    require(best.model, Clustering)
    if not best.model.rows.independent:
        raise UnsupportedMethod(
            f"steps of {type(best.model).__name__} depend on each other, so the probabilities of single steps do not "
            "say how probably two of them share a state"
        )
    parts = _weighted(results) if isinstance(results, Comparison) else [(1.0, results)]
    known = np.arange(best.data.size)
    if not all(isinstance(fit.state, Posterior) for _, fit in parts):
        known = thin(known, _ROWS)
    shares = shares_of(best)[known]
    groups = shares.argmax(axis=1)
    order = thin(np.lexsort((-shares.max(axis=1), groups)), most)
    member = (groups[:, None] == np.arange(shares.shape[1])).astype(float)
    found = [_of(fit, known, order, member) for _, fit in parts]
    weights = np.array([weight for weight, _ in parts])
    together, sums = (np.tensordot(weights, np.stack(each), 1) for each in zip(*found, strict=True))
    counts = member.sum(axis=0)
    pairs = np.outer(counts, counts) - np.diag(counts)
    np.fill_diagonal(together, 1.0)
    between = np.where(pairs > 0, sums / np.maximum(pairs, 1.0), np.nan)
    labels = tuple(str(best.model.words.label(k)) for k in range(shares.shape[1]))
    return CoMembership(known[order], groups[order], np.clip(together, 0.0, 1.0), labels, np.clip(between, 0.0, 1.0))


def _weighted(comparison: Comparison) -> Sequence[tuple[float, Fit]]:
    """The fits of the method that decides, with the probabilities of their models."""
    cells = comparison.cells[comparison.methods.index(comparison.decided_by)]
    found = [(float(weight), cell.fit) for weight, cell in zip(comparison.probabilities, cells, strict=True)
             if cell.fit is not None and weight > _NEGLIGIBLE]  # fmt: skip
    total = sum(weight for weight, _ in found)
    return [(weight / total, fit) for weight, fit in found]


def _of(fit: Fit, known: np.ndarray, chosen: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For one fit: the probabilities of pairs of chosen rows, and their sums over the pairs between groups.

    Given the parameters rows are independent, so that p(z_i = z_j) = Σ_k p(z_i = k) p(z_j = k), for i ≠ j.
    """

    def both(shares: Any) -> Any:
        mass = member.T @ shares
        own = (shares**2).sum(axis=1) @ member
        return shares[chosen] @ shares[chosen].T, mass @ mass.T - np.eye(member.shape[1]) * own[None, :]

    if isinstance(fit.state, Posterior):
        together, sums = both(all_shares(fit)[known])
        return np.array(together), np.array(sums)
    values, draws = np.asarray(fit.data.values)[known], fit.state.equally_weighted().thinned(_DRAWS)
    model: Any = fit.model  # Alignable, as all mixtures are
    flat = draws.average(lambda draw: jnp.concatenate([each.ravel() for each in both(model.traits(draw, values))]))
    size = len(chosen)
    together, sums = np.split(np.array(flat), [size * size])
    return together.reshape((size, size)), sums.reshape((member.shape[1], -1))
