"""`BayesianRidge` and `ARDRegression` with scikit-learn's arguments and attributes.

Evidence maximisation, as in scikit-learn, and variational Bayes have the same fixed points: with E‖w‖² = ‖m‖² + tr Σ,

    λ = (d + 2 λ₁)/(E‖w‖² + 2 λ₂)    ⇔    λ = (γ + 2 λ₁)/(‖m‖² + 2 λ₂),  γ = d − λ tr Σ,

and likewise for the noise. So evidence maximisation, which takes fewer steps, also gives the bound of variational
Bayes: `log_evidence_`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

import temperance as tp

from ..data import as_weights
from ._base import Estimator
from ._evidence_maximum import Hyper, maximise
from ._inference import as_method

_FINER = 1e-5  # scikit-learn's tol is for the weights, ours for the bound (relative), which is quadratic in them
_STEPS = 20  # sweeps of variational Bayes in place of one step of evidence maximisation


@dataclass(eq=False, repr=False, kw_only=True)
class _Ridge(RegressorMixin, Estimator):
    """Base of regressions with a Gaussian prior over the weights; rows and targets are centred if there is an
    intercept."""

    max_iter: int = 300
    tol: float = 1e-3
    alpha_1: float = 1e-6
    alpha_2: float = 1e-6
    lambda_1: float = 1e-6
    lambda_2: float = 1e-6
    compute_score: bool = False
    fit_intercept: bool = True
    copy_X: bool = True
    verbose: bool = False
    inference: Any = "evidence"

    lambda_: Any = field(init=False)
    coef_: np.ndarray = field(init=False)
    sigma_: np.ndarray = field(init=False)
    _ard = False

    def _regress(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True)
        given = X.dtype
        X, y = X.astype(np.float64), y.astype(np.float64)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        as_weights(weights, len(X))  # refuses negative weights
        centred = bool(self.fit_intercept)
        self.X_offset_ = np.average(X, axis=0, weights=weights) if centred else np.zeros(X.shape[1])
        y_offset = float(np.average(y, weights=weights)) if centred else 0.0
        self.X_scale_ = np.ones(X.shape[1])
        if isinstance(self.inference, str) and self.inference == "evidence":
            self._maximise(X - self.X_offset_, y - y_offset, weights)
        else:
            self._by_method(X - self.X_offset_, y - y_offset, weights)
        self.intercept_ = y_offset - float(self.X_offset_ @ self.coef_)
        self.coef_, self.sigma_ = self.coef_.astype(given), self.sigma_.astype(given)
        return self

    def _maximise(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> None:
        root = 1.0 if weights is None else np.sqrt(weights)
        found = maximise(
            (X.T * root).T,
            y * root,
            float(len(X) if weights is None else weights.sum()),
            Hyper(self.alpha_1, self.alpha_2, self.lambda_1, self.lambda_2),
            self._ard,
            (getattr(self, "alpha_init", None), getattr(self, "lambda_init", None)),
            (self.max_iter, self.tol),
            getattr(self, "threshold_lambda", np.inf),
        )
        self.coef_, self.sigma_, self.alpha_ = found.mean, found.covariance, found.noise
        self.lambda_ = found.precisions if self._ard else float(found.precisions[0])
        self.scores_, self.n_iter_ = np.array(found.scores), found.steps
        self.converged_, self.log_evidence_ = found.converged, found.bound

    def _by_method(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> None:
        model = tp.LinearRegression(
            intercept=False,
            ard=self._ard,
            prior=tp.Gamma(self.lambda_1, self.lambda_2),
            noise=tp.Gamma(self.alpha_1, self.alpha_2),
        )
        method = as_method(self.inference, 1, _STEPS * self.max_iter, _FINER * self.tol, type(self))
        done = self._solve(model, (X, y), method, weights)
        blocks = done.model.units.to_user(done._families().blocks)
        normal: Any = blocks["weights"]
        self.coef_ = np.array(normal.mode())
        self.sigma_ = np.array(normal.covariance)
        self.alpha_ = float(np.asarray(blocks["noise"].mean().value))
        found = np.asarray(blocks["alpha"].mean().value)
        self.lambda_ = found if self._ard else float(found.reshape(-1)[0])
        if self._ard:
            kept = self._kept()
            self.coef_[~kept] = 0.0
            self.sigma_ = self.sigma_[np.ix_(kept, kept)]
        self.scores_ = np.asarray(done.history.get("elbo", [done.log_evidence]))

    def _kept(self) -> np.ndarray:
        """Which weights have not been left out."""
        return np.broadcast_to(self.lambda_ < getattr(self, "threshold_lambda", np.inf), self.coef_.shape)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected targets, and with `return_std` their standard deviations, the noise included."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        mean = (X @ self.coef_ + self.intercept_).astype(X.dtype)
        if not return_std:
            return mean
        away = (X - self.X_offset_)[:, self._kept()]
        variance = np.einsum("ni,ij,nj->n", away, self.sigma_, away) + 1.0 / self.alpha_
        return mean, np.sqrt(variance).astype(X.dtype)


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianRidge(_Ridge):
    """scikit-learn's `BayesianRidge`: `alpha_` is the precision of the noise, `lambda_` that of the weights.

    New: `log_evidence_`, the bound of variational Bayes, and `inference`: "evidence" maximises it as scikit-learn does,
    with a method such as `tp.VB()`, or its name, `fit_` is the `tp.Fit` of the centred rows. Scores are always
    computed; `copy_X` and `verbose` have no effect.
    """

    alpha_init: float | None = None
    lambda_init: float | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the weights; `sample_weight` is one non-negative number per row."""
        return self._regress(X, y, sample_weight)


@dataclass(eq=False, repr=False, kw_only=True)
class ARDRegression(_Ridge):
    """scikit-learn's `ARDRegression`: a precision for each weight, and weights whose precision is above
    `threshold_lambda` are zero. `log_evidence_` and `inference` are those of `BayesianRidge`."""

    _ard = True

    threshold_lambda: float = 1e4

    def fit(self, X: Any, y: Any) -> Self:
        return self._regress(X, y)
