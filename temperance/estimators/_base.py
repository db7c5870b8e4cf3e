"""The base of estimators that hold one fit: they run a method on a model and keep the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

import temperance as tp

from ..models import Model
from ._inference import as_seed, steps_of, warn_if_cut_short


class TakesSparse(BaseEstimator):
    """An estimator that writes sparse rows out before it works on them."""

    def _dense(self, X: Any) -> Any:
        return X.toarray() if sparse.issparse(X) else X

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class TakesGaps(BaseEstimator):
    """An estimator for which NaN is an entry that was not seen."""

    def _rows(self, X: Any, reset: bool = False) -> np.ndarray:
        return validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan",
                             ensure_min_samples=2 if reset else 1)  # fmt: skip

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class Estimator(BaseEstimator):
    """Base of the estimators that hold one fit."""

    fit_: tp.Fit

    def _solve(self, model: Model, data: Any, method: Any, weights: Any = None) -> tp.Fit:
        self.fit_ = tp.fit(
            model,
            data,
            method,
            seed=as_seed(getattr(self, "random_state", 0)),
            weights=weights,
            progress=bool(getattr(self, "verbose", False)),
        )
        self.log_evidence_ = self.fit_.log_evidence
        self.converged_ = self.fit_.converged
        self.n_iter_ = max(1, steps_of(self.fit_))
        warn_if_cut_short(self, self.fit_)
        return self.fit_
