"""Factorial mixtures as a transformer: which factors a row is made of."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from ._inference import as_method, as_seed, steps_of, warn_if_cut_short


class FactorialMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows as sums of factors that are on or off; `transform` gives the probability of each, `components_` the factors.

    `noise`, `probability` and `factor_variance` are those of `tp.FactorialMixture`.
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        noise: Any = None,
        probability: Any = None,
        factor_variance: Any = None,
        inference: Any = "vb",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.noise = noise
        self.probability = probability
        self.factor_variance = factor_variance
        self.inference = inference
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        X = validate_data(self, X, dtype=np.float64)
        model = tp.FactorialMixture(
            self.n_components, noise=self.noise, probability=self.probability, factor_variance=self.factor_variance
        )
        method = as_method(self.inference, self.n_init, self.max_iter, self.tol)
        self.fit_ = tp.fit(model, X, method, seed=as_seed(self.random_state))
        warn_if_cut_short(self, self.fit_)
        self.components_ = self.fit_.components
        self.log_evidence_ = self.fit_.log_evidence
        self.n_iter_ = max(1, steps_of(self.fit_))
        self._n_features_out = self.n_components
        return self

    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.fit_.responsibilities(validate_data(self, X, reset=False, dtype=np.float64))
