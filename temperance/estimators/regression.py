"""Bayesian linear regression as an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from ._base import Estimator
from ._inference import as_method


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianLinearRegression(RegressorMixin, Estimator):
    """Linear regression with unknown noise; `ard=True` gives every weight a precision of its own.

    With `ard` columns that do not matter get weights near zero. Without `fit_intercept` the regression goes through the
    origin. `prior` and `noise` are those of `tp.LinearRegression`. A fit sets `coef_`, `intercept_` and
    `log_evidence_`; the deviations of `predict(X, return_std=True)` include the noise.
    """

    fit_intercept: bool = True
    ard: bool = False
    prior: Any = None
    noise: Any = None
    inference: Any = "vb"
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        model = tp.LinearRegression(
            intercept=bool(self.fit_intercept), ard=self.ard, prior=self.prior, noise=self.noise
        )
        method = as_method(self.inference, 1, self.max_iter, self.tol)
        self._solve(model, (X, y.astype(float)), method, sample_weight)
        # The coefficients follow from predictions at the origin and one step along each column.
        steps = np.concatenate([np.zeros((1, X.shape[1])), np.eye(X.shape[1])])
        heights = np.asarray(self.fit_.predict(steps).mean)
        self.intercept_, self.coef_ = float(heights[0]), heights[1:] - heights[0]
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        found = self.fit_.predict(X)
        mean = np.asarray(found.mean)
        return (mean, np.sqrt(np.asarray(found.variance))) if return_std else mean
