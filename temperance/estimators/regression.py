"""Bayesian linear regression as an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from ._inference import as_method, as_seed, steps_of, warn_if_cut_short


class BayesianLinearRegression(RegressorMixin, BaseEstimator):
    """Linear regression with unknown noise; `ard=True` gives every weight a precision of its own.

    `prior` and `noise` are those of `tp.LinearRegression`. Fitted: `coef_`, `intercept_`, `log_evidence_`, and
    `predict(X, return_std=True)`, whose deviations hold the noise.
    """

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        ard: bool = False,
        prior: Any = None,
        noise: Any = None,
        inference: Any = "vb",
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Any = None,
    ):
        self.fit_intercept = fit_intercept
        self.ard = ard
        self.prior = prior
        self.noise = noise
        self.inference = inference
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        model = tp.LinearRegression(
            intercept=bool(self.fit_intercept), ard=self.ard, prior=self.prior, noise=self.noise
        )
        method = as_method(self.inference, 1, self.max_iter, self.tol)
        self.fit_ = tp.fit(model, (X, y.astype(float)), method, seed=as_seed(self.random_state), weights=sample_weight)
        warn_if_cut_short(self, self.fit_)
        self.log_evidence_ = self.fit_.log_evidence
        self.n_iter_ = max(1, steps_of(self.fit_))
        # The plane through its own predictions: at the origin, and one step along each column.
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
