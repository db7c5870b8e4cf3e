"""`StateSpace`: series that follow hidden states, behind scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from ..errors import InvalidParameter
from ._base import Estimator
from ._inference import as_method
from .gaussian import choice

_KINDS = {"learned": None, "level": tp.StateSpace.local_level, "trend": tp.StateSpace.local_trend}


class StateSpace(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """A series, whose steps are the rows of X, behind which are `n_components` hidden states that evolve linearly.

    `kind` is "learned" (all matrices are), "level" (a level that walks at random) or "trend" (with a slope); the last
    two are for one column and know their number of states. NaN is a value that was not seen. `forecast` goes on
    after the series that was fitted, or after another; `transform` gives the expected states at each step.
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        kind: str = "learned",
        inference: Any = "vb",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kind = kind
        self.inference = inference
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        make = choice("kind", self.kind, _KINDS)
        rows = self._rows(X, reset=True)
        if make is not None and rows.shape[1] != 1:
            raise InvalidParameter(f"kind={self.kind!r} is for one column, got {rows.shape[1]}: use kind='learned'")
        model = tp.StateSpace(self.n_components, missing="marginalise") if make is None else make(missing="marginalise")
        self._solve(model, rows, as_method(self.inference, self.n_init, self.max_iter, self.tol))
        self._n_features_out = self.fit_.model.size
        return self

    def forecast(self, n_steps: int = 1, X: Any = None, *, return_std: bool = False) -> Any:
        """The expected next steps (steps, columns) of the fitted series, or of X, and their standard deviations."""
        check_is_fitted(self)
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

    def _rows(self, X: Any, reset: bool = False) -> np.ndarray:
        return validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan",
                             ensure_min_samples=2 if reset else 1)  # fmt: skip

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
