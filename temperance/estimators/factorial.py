"""Factorial mixtures as a transformer: which factors a row is made of."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from ._base import Estimator
from ._inference import as_method


@dataclass(eq=False, repr=False)
class FactorialMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Rows as sums of factors that are on or off; `transform` gives the probability of each, `components_` the factors.

    `noise`, `probability` and `factor_variance` are those of `tp.FactorialMixture`.
    """

    n_components: int = 2
    _: KW_ONLY
    noise: Any = None
    probability: Any = None
    factor_variance: Any = None
    inference: Any = "vb"
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        X = validate_data(self, X, dtype=np.float64)
        model = tp.FactorialMixture(
            self.n_components, noise=self.noise, probability=self.probability, factor_variance=self.factor_variance
        )
        method = as_method(self.inference, self.n_init, self.max_iter, self.tol)
        self.components_ = self._solve(model, X, method).components
        self._n_features_out = self.n_components
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.fit_.responsibilities(validate_data(self, X, reset=False, dtype=np.float64))
