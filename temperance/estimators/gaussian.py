"""`BayesianGaussianMixture` with scikit-learn's arguments and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import temperance as tp

from .._arguments import NOT_NEGATIVE, check_choice, whole
from ..errors import InvalidData, InvalidParameter, UnsupportedMethod
from ..models.mixture import Mixture
from ..models.mixture.tied import TiedMixture, TiedProcessMixture
from ._mixture import BatchedMixture

FORMS = {"full": "gaussian", "tied": "gaussian", "diag": "diagonal", "spherical": "spherical"}
_STARTS = {"kmeans": "kmeans++", "k-means++": "kmeans++", "random": "random", "random_from_data": "kmeans++"}


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianGaussianMixture(BatchedMixture):
    """A Gaussian mixture with scikit-learn's arguments, priors and attributes.

    New here: `inference` (a method such as `tp.ParallelTempering()`, or its name: "vb", "ep", "pt", …), sample
    weights, missing values (NaN), `partial_fit`, `log_evidence_`, and scores that are true predictive densities.
    `reg_covar` is added to the prior covariance instead of every estimate, so that the bound stays one.
    `covariance_type="tied"` is for "vb", "svi" and "annealed"; its prior is worth `degrees_of_freedom_prior` for each
    component, which makes every iteration scikit-learn's.
    """

    n_components: int = 1
    covariance_type: str = "full"
    tol: float = 1e-3
    reg_covar: float = 1e-6
    max_iter: int = 100
    n_init: int = 1
    init_params: str = "kmeans"
    weight_concentration_prior_type: str = "dirichlet_process"
    weight_concentration_prior: float | None = None
    mean_precision_prior: float | None = None
    mean_prior: Any = None
    degrees_of_freedom_prior: float | None = None
    covariance_prior: Any = None
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10
    inference: Any = "vb"

    def _init(self) -> Any:
        return check_choice("init_params", self.init_params, _STARTS)

    def _model(self, x: np.ndarray, weights: np.ndarray | None, init: Any) -> Mixture:
        whole(1)("n_components", self.n_components)
        form = check_choice("covariance_type", self.covariance_type, FORMS)
        sticks = check_choice(
            "weight_concentration_prior_type",
            self.weight_concentration_prior_type,
            {"dirichlet_process": True, "dirichlet_distribution": False},
        )
        prior = self._prior(x, weights)
        missing = "marginalise" if np.isnan(x).any() else None
        delta = 1.0 / self.n_components if self.weight_concentration_prior is None else self.weight_concentration_prior
        self.weight_concentration_prior_ = delta
        kinds: tuple[type[Mixture], type[Mixture]] = (tp.Mixture, tp.DirichletProcessMixture)
        if self.covariance_type == "tied":
            kinds = (TiedMixture, TiedProcessMixture)
            method = self._method(1)
            if not isinstance(method, tp.VB | tp.SVI | tp.Annealed):
                raise UnsupportedMethod(f'covariance_type="tied" is for "vb", "svi" and "annealed", not {method.name}')
            if missing:
                raise InvalidData('covariance_type="tied" takes no missing values; "full" does')
        return kinds[sticks](int(self.n_components), form, prior=prior, concentration=delta, init=init, missing=missing)

    def _prior(self, x: np.ndarray, weights: np.ndarray | None) -> tp.Family:
        """scikit-learn's default prior: as wide as all data together, and worth one datum."""
        d = x.shape[1]
        usual_mean, usual_spread = _moments(x, weights)
        count = 1.0 if self.mean_precision_prior is None else self.mean_precision_prior
        mean = usual_mean if self.mean_prior is None else np.asarray(self.mean_prior, dtype=float)
        dof = float(d if self.degrees_of_freedom_prior is None else self.degrees_of_freedom_prior)
        variances = np.diag(usual_spread)
        form, shape, spread = {
            "full": (np.eye(d), (d, d), usual_spread),
            "tied": (np.eye(d), (d, d), usual_spread),
            "diag": (np.ones(d), (d,), variances),
            "spherical": (np.ones(()), (), np.asarray(variances.mean())),
        }[self.covariance_type]
        if self.covariance_prior is not None:
            spread = np.asarray(self.covariance_prior, dtype=float)
        if mean.shape != (d,):
            raise InvalidParameter(f"mean_prior must have {d} numbers, one for each column, got shape {mean.shape}")
        if spread.shape != shape:
            raise InvalidParameter(f"covariance_prior must have shape {shape}, got {spread.shape}")
        if not dof > d - 1:
            raise InvalidParameter(
                f"The parameter 'degrees_of_freedom_prior' should be greater than {d - 1}, but got {dof:.3f}."
            )
        NOT_NEGATIVE("reg_covar", self.reg_covar)
        self.mean_precision_prior_, self.mean_prior_ = count, mean
        self.degrees_of_freedom_prior_, self.covariance_prior_ = dof, spread
        spread = spread + self.reg_covar * form
        if self.covariance_type == "tied":
            return tp.NormalWishart(mean, count, self.n_components * dof, self.n_components * spread)
        if self.covariance_type == "full":
            return tp.NormalWishart(mean, count, dof, spread)
        if self.covariance_type == "diag":
            return tp.NormalGamma(mean, count, dof, spread)
        return tp.IsotropicNormalGamma(mean, count, dof, float(spread))

    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        family = components.inner if self.covariance_type == "diag" else components
        if not hasattr(family, "dof"):
            raise UnsupportedMethod(f"{fit.method.name} gives points, not the distributions that this class reports")
        dof, scatter = np.asarray(family.dof), np.asarray(family.scatter)
        self.covariances_ = scatter / dof.reshape(dof.shape + (1,) * (scatter.ndim - dof.ndim))
        if self.covariance_type == "tied":
            # Each component has a share of the one precision, as in scikit-learn.
            self.degrees_of_freedom_ = dof / self.n_components
            self.mean_precision_ = np.diagonal(np.asarray(family.pseudo_inputs))
            self.means_ = np.asarray(family.location).T
        else:
            count = np.asarray(family.pseudo_count)
            self.degrees_of_freedom_ = dof[:, 0] if dof.ndim == 2 else dof
            self.mean_precision_ = count[:, 0] if count.ndim == 2 else count
            self.means_ = np.asarray(family.location)
        if self.covariance_type in ("full", "tied"):
            # The upper factor U with U Uᵀ the precision.
            lower = np.linalg.cholesky(self.covariances_)
            identity = np.broadcast_to(np.eye(lower.shape[-1]), lower.shape)
            self.precisions_cholesky_ = np.linalg.solve(lower, identity).swapaxes(-1, -2)
            self.precisions_ = self.precisions_cholesky_ @ self.precisions_cholesky_.swapaxes(-1, -2)
        else:
            self.precisions_ = 1.0 / self.covariances_
            self.precisions_cholesky_ = np.sqrt(self.precisions_)
        self.weights_ = weights
        blocks: dict[str, Any] = jax.tree.map(np.asarray, fit._families().blocks)
        self.weight_concentration_: Any = (
            self._sticks(blocks["sticks"], fit) if "sticks" in blocks else np.asarray(blocks["weights"].concentration)
        )
        self.lower_bounds_ = np.asarray(fit.history.get("elbo", [fit.log_evidence])).tolist()
        self.lower_bound_ = fit.log_evidence

    def _sticks(self, sticks: Any, fit: tp.Fit) -> tuple[np.ndarray, np.ndarray]:
        """The two parameters of each Beta; the last stick takes the whole rest, a Beta whose second parameter is
        zero."""
        a, b = np.asarray(sticks.a), np.asarray(sticks.b)
        rest = b[-1] - self.weight_concentration_prior_ if len(b) else float(fit.data.total_weight)
        return np.append(a, 1.0 + max(rest, 0.0)), np.append(b, 0.0)


def _moments(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the data (with missing entries, only variances); weights count as repetitions."""
    w = np.ones(len(x)) if weights is None else weights
    seen = ~np.isnan(x)
    total = np.maximum(w @ seen, np.finfo(float).tiny)
    mean = (w @ np.where(seen, x, 0.0)) / total
    away = np.where(seen, x - mean, 0.0)
    if len(x) < 2 and w.sum() <= 1:
        return mean, np.eye(x.shape[1])  # one row has no spread
    # The unbiased divisor, unless there is less than a row's weight above one.
    divisor = np.where(total > 1, total - 1, total)
    if seen.all():
        return mean, (away.T * w) @ away / divisor[0]
    return mean, np.diag((w @ np.square(away)) / divisor)
