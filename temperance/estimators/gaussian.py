"""`BayesianGaussianMixture` with scikit-learn's arguments and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

import temperance as tp

from ..errors import InvalidParameter, UnsupportedMethod
from ..models import Mixture
from ._mixture import MixtureEstimator

_FORMS = {"full": "gaussian", "diag": "diagonal", "spherical": "spherical"}
_STARTS = {"kmeans": "kmeans++", "k-means++": "kmeans++", "random": "random", "random_from_data": "kmeans++"}


class BayesianGaussianMixture(MixtureEstimator):
    """A Gaussian mixture with scikit-learn's arguments, priors and attributes.

    New here: `inference` (a method such as `tp.ParallelTempering()`, or its name: "vb", "ep", "pt", …), sample
    weights, missing values (NaN), `partial_fit`, `log_evidence_`, and scores that are true predictive densities.
    `reg_covar` is added to the prior covariance instead of every estimate, so that the bound stays one.
    `covariance_type="tied"` is not available.
    """

    def __init__(
        self,
        *,
        n_components: int = 1,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weight_concentration_prior_type: str = "dirichlet_process",
        weight_concentration_prior: float | None = None,
        mean_precision_prior: float | None = None,
        mean_prior: Any = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        inference: Any = "vb",
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_prior = mean_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.inference = inference

    def _init(self) -> Any:
        return _choice("init_params", self.init_params, _STARTS)

    def _model(self, x: np.ndarray, init: Any) -> Mixture:
        if not isinstance(self.n_components, int | np.integer) or self.n_components < 1:
            raise InvalidParameter(f"n_components must be a whole number of at least 1, got {self.n_components!r}")
        form = _choice("covariance_type", self.covariance_type, _FORMS)
        sticks = _choice(
            "weight_concentration_prior_type",
            self.weight_concentration_prior_type,
            {"dirichlet_process": True, "dirichlet_distribution": False},
        )
        prior = self._prior(x)
        missing = "marginalise" if np.isnan(x).any() else None
        delta = 1.0 / self.n_components if self.weight_concentration_prior is None else self.weight_concentration_prior
        self.weight_concentration_prior_ = delta
        kind = tp.DirichletProcessMixture if sticks else tp.Mixture
        return kind(int(self.n_components), form, prior=prior, concentration=delta, init=init, missing=missing)

    def _prior(self, x: np.ndarray) -> tp.Family:
        """scikit-learn's default: as wide as all data together, and worth one of them."""
        d = x.shape[1]
        count = 1.0 if self.mean_precision_prior is None else self.mean_precision_prior
        mean = np.nanmean(x, axis=0) if self.mean_prior is None else np.asarray(self.mean_prior, dtype=float)
        dof = float(d if self.degrees_of_freedom_prior is None else self.degrees_of_freedom_prior)
        spread = self._spread(x) if self.covariance_prior is None else np.asarray(self.covariance_prior, dtype=float)
        if mean.shape != (d,):
            raise InvalidParameter(f"mean_prior must have {d} numbers, one for each column, got shape {mean.shape}")
        shape = {"full": (d, d), "diag": (d,), "spherical": ()}[self.covariance_type]
        if spread.shape != shape:
            raise InvalidParameter(f"covariance_prior must have shape {shape}, got {spread.shape}")
        self.mean_precision_prior_, self.mean_prior_ = count, mean
        self.degrees_of_freedom_prior_, self.covariance_prior_ = dof, spread
        if self.covariance_type == "full":
            return tp.NormalWishart(mean, count, dof, spread)
        if self.covariance_type == "diag":
            return tp.NormalGamma(mean, count, dof, spread)
        return tp.IsotropicNormalGamma(mean, count, dof, float(spread))

    def _spread(self, x: np.ndarray) -> np.ndarray:
        variances = np.nanvar(x, axis=0, ddof=1) if len(x) > 1 else np.ones(x.shape[1])
        if self.covariance_type == "full":
            whole = len(x) > 1 and not np.isnan(x).any()
            full = np.atleast_2d(np.cov(x.T)) if whole else np.diag(variances)
            return full + self.reg_covar * np.eye(x.shape[1])
        if self.covariance_type == "diag":
            return variances + self.reg_covar
        return np.asarray(variances.mean() + self.reg_covar)

    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        family = components.inner if self.covariance_type == "diag" else components
        if not hasattr(family, "dof"):
            raise UnsupportedMethod(f"{fit.method.name} gives points, not the distributions that this class reports")
        dof = np.asarray(family.dof)
        self.degrees_of_freedom_ = dof[:, 0] if dof.ndim == 2 else dof
        count = np.asarray(family.pseudo_count)
        self.mean_precision_ = count[:, 0] if count.ndim == 2 else count
        scatter = np.asarray(family.scatter)
        self.means_ = np.asarray(family.location)
        self.covariances_ = scatter / dof.reshape(dof.shape + (1,) * (scatter.ndim - dof.ndim))
        if self.covariance_type == "full":
            # The upper factor U with U Uᵀ the precision.
            lower = np.linalg.cholesky(self.covariances_)
            identity = np.broadcast_to(np.eye(lower.shape[-1]), lower.shape)
            self.precisions_cholesky_ = np.linalg.solve(lower, identity).swapaxes(-1, -2)
            self.precisions_ = self.precisions_cholesky_ @ self.precisions_cholesky_.swapaxes(-1, -2)
        else:
            self.precisions_ = 1.0 / self.covariances_
            self.precisions_cholesky_ = np.sqrt(self.precisions_)
        self.weights_ = weights
        blocks: dict[str, Any] = fit._families().blocks
        # Of sticks, the two parameters of each Beta.
        self.weight_concentration_: Any = (
            (np.asarray(blocks["sticks"].a), np.asarray(blocks["sticks"].b))
            if "sticks" in blocks
            else np.asarray(blocks["weights"].concentration)
        )
        self.lower_bounds_ = np.asarray(fit.history.get("elbo", [fit.log_evidence])).tolist()
        self.lower_bound_ = fit.log_evidence


def _choice(name: str, value: Any, options: dict[str, Any]) -> Any:
    if not isinstance(value, str) or value not in options:
        accepted = ", ".join(repr(option) for option in options)
        raise InvalidParameter(f"{name} must be one of {accepted}, got {value!r}")
    return options[value]
