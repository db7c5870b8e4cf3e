"""`StateSpace`: series that follow hidden states, behind scikit-learn's interface."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import temperance as tp

from .._arguments import check_choice, whole
from ..errors import InvalidParameter
from ._base import Estimator, TakesGaps
from ._inference import as_method

_KINDS = {"learned": None, "level": tp.StateSpace.local_level, "trend": tp.StateSpace.local_trend}


@dataclass(eq=False, repr=False)
class StateSpace(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesGaps, Estimator):
    """A series with `n_components` hidden states that evolve linearly; its steps are the rows of X.

    `n_components` is the number of hidden states. `kind` is "learned" (all matrices are), "level" (a level that walks
    at random) or "trend" (with a slope); the last two are for one column and know their number of states. NaN is a
    missing value. `forecast` continues the series that was fitted, or another; `transform` gives the expected states at
    each step.
    """

    n_components: int = 1
    _: KW_ONLY
    kind: str = "learned"
    inference: Any = "vb"
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        make = check_choice("kind", self.kind, _KINDS)
        rows = self._rows(X, reset=True)
        if make is not None and rows.shape[1] != 1:
            raise InvalidParameter(f"kind={self.kind!r} is for one column, got {rows.shape[1]}: use kind='learned'")
        model = tp.StateSpace(self.n_components, missing="marginalise") if make is None else make(missing="marginalise")
        self._solve(model, rows, as_method(self.inference, self.n_init, self.max_iter, self.tol))
        self._n_features_out = self.fit_.model.words.size
        return self

    def forecast(self, n_steps: int = 1, X: Any = None, *, return_std: bool = False) -> Any:
        """The expected next steps (steps, columns) of the fitted series, or of X, and their standard deviations."""
        check_is_fitted(self)
        whole(1)("n_steps", n_steps)
        found = self.fit_.forecast(n_steps, None if X is None else self._rows(X))
        return (found.mean, np.sqrt(found.variance)) if return_std else found.mean

    def transform(self, X: Any) -> np.ndarray:
        """The expected states at each step of this series, given the whole of it."""
        check_is_fitted(self)
        return np.asarray(self.fit_.smooth(self._rows(X)).mean)

    def score(self, X: Any, y: Any = None) -> float:
        """The log density of the series X, per step."""
        check_is_fitted(self)
        rows = self._rows(X)
        return float(np.sum(self.fit_.log_predictive(rows))) / len(rows)
