"""`LogisticRegression` for two classes, with scikit-learn's arguments and attributes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

import temperance as tp

from ..errors import InvalidData, InvalidParameter
from ..registry import resolve
from ._base import Estimator, TakesSparse
from ._inference import as_method

_FINER = 1e-6  # scikit-learn's tol is for the gradient, ours a relative change of the bound
_STEPS = 100  # steps of EM that progress as much as one step of L-BFGS
_FLAT, _WIDE = 1e-9, 1e-2  # precisions of the intercept (unknown) and of centred columns (sd 10)


@dataclass(eq=False, repr=False)
class LogisticRegression(ClassifierMixin, TakesSparse, Estimator):
    """scikit-learn's `LogisticRegression` for two classes: by default (`inference="em"`) the weights of highest
    posterior density under a Normal prior of variance `C`, the intercept left free.

    `C` is the prior variance of the weights. `inference` is a method or its name. With "ep" or "vb" the weights have a
    distribution: `predict_proba` is averaged over it, and
    `log_evidence_` compares choices of `C` and of columns. `penalty`, `solver`, `dual`, `intercept_scaling`,
    `warm_start`, `verbose` and `n_jobs` are accepted and have no effect; `l1_ratio` must be 0.
    """

    penalty: Any = "deprecated"
    _: KW_ONLY
    C: float = 1.0
    l1_ratio: float | None = 0.0
    dual: bool = False
    tol: float = 1e-4
    fit_intercept: bool = True
    intercept_scaling: float = 1
    class_weight: Any = None
    random_state: Any = None
    solver: str = "lbfgs"
    max_iter: int = 100
    verbose: int = 0
    warm_start: bool = False
    n_jobs: int | None = None
    inference: Any = "em"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the weights; `sample_weight` is one non-negative number per row."""
        X, y = validate_data(self, self._dense(X), y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise InvalidData(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}."
            )
        if len(self.classes_) < 2:
            raise InvalidData(f"y must have two classes, got one class: {self.classes_[0]!r}")
        weights = None
        if sample_weight is not None or self.class_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            weights = weights * compute_sample_weight(self.class_weight, y)
        points = self.inference == "em" or isinstance(self.inference, tp.EM)
        self._centre = np.average(X, axis=0, weights=weights) if self.fit_intercept else np.zeros(X.shape[1])
        prior: Any = self._prior(X.shape[1], points)
        model = resolve("LogisticRegression")(intercept=bool(self.fit_intercept), prior=prior)
        method = as_method(self.inference, 1, _STEPS * self.max_iter, _FINER * self.tol, type(self))
        done = self._solve(model, (X - self._centre, codes.astype(np.float64)), method, weights)
        found = np.asarray(done.table()["mean"], dtype=np.float64)
        self.coef_ = found[None, int(self.fit_intercept) :]
        free = found[:1] if self.fit_intercept else np.zeros(1)
        self.intercept_ = free - self.coef_ @ self._centre
        self.n_iter_ = np.array([self.n_iter_])  # type: ignore[assignment]
        return self

    def _rows(self, X: Any) -> np.ndarray:
        return validate_data(self, self._dense(X), reset=False, dtype=np.float64)

    def _prior(self, size: int, points: bool) -> tp.Normal:
        C = self.C
        if isinstance(C, bool) or not isinstance(C, int | float | np.number) or not C > 0:
            raise InvalidParameter(f"C must be a positive number, got {C!r}")
        if self.l1_ratio not in (0, None):
            raise InvalidParameter(f"l1_ratio must be 0 (a Normal prior), got {self.l1_ratio!r}")
        precisions = np.full(size, max(1.0 / float(C), _FLAT))
        if self.fit_intercept:
            precisions = np.append(_FLAT if points else _WIDE, precisions)
        return tp.Normal(np.zeros(len(precisions)), precision=np.diag(precisions))

    def decision_function(self, X: Any) -> np.ndarray:
        """The log odds of the second class at the expected weights."""
        check_is_fitted(self)
        return self._rows(X) @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, averaged over the posterior of the weights."""
        check_is_fitted(self)
        yes = np.asarray(self.fit_.predict(self._rows(X) - self._centre).mean)
        return np.stack([1.0 - yes, yes], axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_class = False
        return tags
