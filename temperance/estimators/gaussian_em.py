"""`GaussianMixture`: maximum likelihood by EM, with scikit-learn's arguments, starts and attributes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

import temperance as tp

from .._arguments import NOT_NEGATIVE, check_choice, whole
from ..errors import InvalidData, InvalidParameter, NumericalFailure
from ..models._answers import Start
from ..models.mixture import Mixture
from ..models.mixture.tied import TiedMixture
from ._inference import as_seed
from ._mixture import MixtureEstimator
from .gaussian import FORMS

_STARTS = ("kmeans", "k-means++", "random", "random_from_data")
_FINER = 1e-2  # scikit-learn's tol is a gain of the log likelihood per row, ours relative to the whole log likelihood


@dataclass(eq=False, repr=False)
class GaussianMixture(MixtureEstimator):
    """scikit-learn's `GaussianMixture`: the parameters of highest likelihood, from the same starts.

    For "full" and "diag" `reg_covar` is a prior scatter of each component, worth what scikit-learn adds to a covariance
    of average weight: with it EM climbs a density that has a maximum. "tied" and "spherical" have no proper prior whose
    mode is the maximum likelihood, and so have no `reg_covar`. New: sample weights and missing values (NaN, which start
    from k-means++). For the distributions of the parameters and for the evidence use `BayesianGaussianMixture`.
    """

    inference = "em"

    n_components: int = 1
    _: KW_ONLY
    covariance_type: str = "full"
    tol: float = 1e-3
    reg_covar: float = 1e-6
    max_iter: int = 100
    n_init: int = 1
    init_params: str = "kmeans"
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10

    def aic(self, X: Any) -> float:
        """Akaike's information criterion: the lower the better."""
        return -2.0 * float(self.score_samples(X).sum()) + 2.0 * self._n_parameters()

    def bic(self, X: Any) -> float:
        """The Bayesian information criterion: the lower the better."""
        each = self.score_samples(X)
        return -2.0 * float(each.sum()) + self._n_parameters() * np.log(len(each))

    def _n_parameters(self) -> int:
        check_is_fitted(self)
        k, d = self.means_.shape
        spread = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}
        return int(spread[self.covariance_type] + k * d + k - 1)

    # ---- pieces -------------------------------------------------------------------------------------------

    def _method(self, n: int) -> Any:
        return tp.EM(prior=self.covariance_type in ("full", "diag"), max_iter=self.max_iter, tol=_FINER * self.tol)

    def _run(self, model: Mixture, x: np.ndarray, weights: np.ndarray | None) -> tp.Fit:
        """The best of `n_init` fits from different starts."""
        rng = check_random_state(self.random_state)
        warm = model.start.kind == "responsibilities"
        found: list[tp.Fit] = []
        failure: NumericalFailure | None = None
        for _ in range(1 if warm else self.n_init):
            if not warm and not np.isnan(x).any():
                model = self._model(x, weights, Start("responsibilities", jnp.asarray(self._start(x, weights, rng))))
            try:
                found.append(tp.fit(model, x, self._method(len(x)), seed=as_seed(rng), weights=weights, progress=False))
            except NumericalFailure as error:
                failure = error
        if not found:
            raise InvalidData(f"no start led to a maximum with n_samples = {len(x)}: {failure}") from failure
        return max(found, key=lambda fit: fit.details["log_likelihood"])

    def _start(self, x: np.ndarray, weights: np.ndarray | None, rng: np.random.RandomState) -> np.ndarray:
        """The shares of each row with which scikit-learn's EM begins."""
        n, k = len(x), self.n_components
        if self.init_params == "kmeans":
            labels = KMeans(k, n_init=1, random_state=rng).fit(x, sample_weight=weights).labels_
            shares = np.eye(k)[labels]
        elif self.init_params == "random":
            shares = rng.uniform(size=(n, k))
            shares /= shares.sum(axis=1, keepdims=True)
        else:
            by_draw = self.init_params == "random_from_data"
            rows = rng.choice(n, size=k, replace=False) if by_draw else kmeans_plusplus(x, k, random_state=rng)[1]
            shares = np.zeros((n, k))
            shares[rows, np.arange(k)] = 1.0
        given = (self.weights_init, self.means_init, self.precisions_init)
        if self.init_params in ("kmeans", "random") and all(value is None for value in given):
            return shares
        w = shares if weights is None else shares * weights[:, None]
        return self._shares(x, *self._estimates(x, w))

    def _estimates(self, x: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, means and precision matrices estimated from these shares, or the given ones (`weights_init` and so
        on)."""
        k, d = self.n_components, x.shape[1]
        held = shares.sum(axis=0) + 10.0 * np.finfo(float).eps
        weights = held / held.sum() if self.weights_init is None else _array("weights_init", self.weights_init, (k,))
        means = shares.T @ x / held[:, None]
        away = x[:, None] - means[None]
        spread = np.einsum("nk,nki,nkj->kij", shares, away, away) / held[:, None, None]
        if self.covariance_type == "tied":
            spread = np.broadcast_to(np.einsum("k,kij->ij", held, spread) / held.sum(), (k, d, d))
        variances = np.einsum("kii->ki", spread)
        if self.covariance_type == "spherical":
            variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), (k, d))
        if self.covariance_type in ("diag", "spherical"):
            spread = variances[:, :, None] * np.eye(d)
        precisions = np.linalg.inv(spread + self.reg_covar * np.eye(d))
        if self.means_init is not None:
            means = _array("means_init", self.means_init, (k, d))
        if self.precisions_init is not None:
            shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[self.covariance_type]
            precisions = _matrices(_array("precisions_init", self.precisions_init, shape), k, d)
        return weights, means, precisions

    @staticmethod
    def _shares(x: np.ndarray, weights: np.ndarray, means: np.ndarray, precisions: np.ndarray) -> np.ndarray:
        """The probability of each component for each row."""
        away = x[:, None] - means[None]
        logs = -0.5 * np.einsum("nki,kij,nkj->nk", away, precisions, away) + 0.5 * np.linalg.slogdet(precisions)[1]
        with np.errstate(divide="ignore"):
            logs = logs + np.log(weights)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def _model(self, x: np.ndarray, weights: np.ndarray | None, init: Any) -> Mixture:
        for name in ("n_components", "n_init"):
            whole(1)(name, getattr(self, name))
        check_choice("init_params", self.init_params, {name: name for name in _STARTS})
        form = check_choice("covariance_type", self.covariance_type, FORMS)
        missing = "marginalise" if np.isnan(x).any() else None
        if missing and self.covariance_type == "tied":
            raise InvalidData('covariance_type="tied" takes no missing values; "full" does')
        kind: type[Mixture] = TiedMixture if self.covariance_type == "tied" else tp.Mixture
        total = float(len(x) if weights is None else weights.sum())
        return kind(int(self.n_components), form, prior=self._prior(x, total), init=init, missing=missing)

    def _prior(self, x: np.ndarray, total: float) -> tp.Family:
        """A prior that only keeps covariances from being singular: with its dof, a mode is the maximum of the
        likelihood."""
        NOT_NEGATIVE("reg_covar", self.reg_covar)
        d = x.shape[1]
        spread = np.nanvar(x, axis=0).mean()
        least = 1e-12 * (spread if spread > 0 else 1.0)  # keeps the prior proper if reg_covar is 0
        mean, count = np.nanmean(x, axis=0), 1e-12
        scatter = max(self.reg_covar, least) * total
        if self.covariance_type == "tied":
            return tp.NormalWishart(mean, count, float(d), scatter * np.eye(d))
        scatter = scatter / self.n_components
        if self.covariance_type == "full":
            return tp.NormalWishart(mean, count, float(d), scatter * np.eye(d))
        if self.covariance_type == "diag":
            return tp.NormalGamma(mean, count, 1.0, scatter * np.ones(d))
        return tp.IsotropicNormalGamma(mean, count, float(d), d * scatter)

    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        mode = components.mode()
        if self.covariance_type == "tied":
            self.means_, precisions = np.asarray(mode.weights).T, np.asarray(mode.precision)
        else:
            self.means_, precisions = np.asarray(mode.mean), np.asarray(mode.precision)
        if self.covariance_type == "spherical" and precisions.ndim == 2:
            precisions = precisions[:, 0]
        self.weights_ = weights
        self.precisions_ = precisions
        if self.covariance_type in ("full", "tied"):
            self.covariances_ = np.linalg.inv(precisions)
            lower = np.linalg.cholesky(self.covariances_)
            identity = np.broadcast_to(np.eye(lower.shape[-1]), lower.shape)
            self.precisions_cholesky_ = np.linalg.solve(lower, identity).swapaxes(-1, -2)
        else:
            self.covariances_, self.precisions_cholesky_ = 1.0 / precisions, np.sqrt(precisions)
        # The history includes the prior's constant, which is not part of the likelihood.
        total = float(fit.data.total_weight)
        self.lower_bound_ = fit.details["log_likelihood"] / total
        gains = np.asarray(fit.history["elbo"]) - fit.history["elbo"][-1]
        self.lower_bounds_ = (self.lower_bound_ + gains / total).tolist()


def _array(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    found = np.asarray(value, dtype=float)
    if found.shape != shape or not np.isfinite(found).all():
        raise InvalidParameter(f"{name} must be finite numbers of shape {shape}, got shape {found.shape}")
    return found


def _matrices(precisions: np.ndarray, k: int, d: int) -> np.ndarray:
    """A precision matrix for each component."""
    if precisions.shape == (k, d, d):
        return precisions
    if precisions.shape == (d, d):
        return np.broadcast_to(precisions, (k, d, d))
    return precisions.reshape(k, -1, 1) * np.eye(d)
