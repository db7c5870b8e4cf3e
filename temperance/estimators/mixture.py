"""Mixtures of any conjugate pair, and Dirichlet processes, as estimators."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

import temperance as tp

from ..models._answers import Clustering, require
from ..models.mixture import Mixture
from ._mixture import BatchedMixture


@dataclass(eq=False, repr=False)
class BayesianMixture(BatchedMixture):
    """A mixture of `n_components` distributions of one kind.

    `n_components` is the number of components. `likelihood` is "gaussian", "diagonal", "spherical", "poisson",
    "bernoulli", "categorical" or "multinomial". `init` is that of `tp.Mixture`. `prior` is the conjugate family of a
    component, by default weakly informative; `concentration` is the Dirichlet parameter of the weights; `inference` is
    a method such as `tp.EP()`, or its name. After a fit, `components_` is a dictionary that describes each component.
    """

    _kind: ClassVar[type[Mixture]] = tp.Mixture

    n_components: int = 1
    likelihood: Any = "gaussian"
    _: KW_ONLY
    prior: Any = None
    concentration: Any = 1.0
    inference: Any = "vb"
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-3
    init: Any = "kmeans++"
    random_state: Any = None

    def _init(self) -> Any:
        return self.init

    def _model(self, x: np.ndarray, weights: np.ndarray | None, init: Any) -> Mixture:
        missing = "marginalise" if np.isnan(x).any() else None
        return self._kind(
            self.n_components,
            self.likelihood,
            prior=self.prior,
            concentration=self.concentration,
            init=init,
            missing=missing,
        )

    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        self.weights_ = weights
        self.components_ = {name: np.asarray(value) for name, value in components.described().items()}


@dataclass(eq=False, repr=False)
class DirichletProcessMixture(BayesianMixture):
    """A mixture that uses as many of its `n_components` as the data support; `n_components_used_` says how many.

    `n_components` is the largest number of components. The other arguments are those of `BayesianMixture`, and
    `concentration` is that of `tp.DirichletProcessMixture`.
    """

    _kind = tp.DirichletProcessMixture

    n_components: int = 10

    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        super()._show(fit, components, weights)
        self.n_components_used_ = require(fit.model, Clustering).occupied(fit._families(), fit.data)
