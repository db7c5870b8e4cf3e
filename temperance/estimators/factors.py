"""`FactorAnalysis` and a Bayesian `PCA`, with scikit-learn's arguments and attributes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

import temperance as tp

from .._arguments import check_choice, whole
from ..errors import InvalidParameter, UnsupportedMethod
from ._base import Estimator, TakesGaps, TakesSparse
from ._inference import as_method


class _Factors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TakesGaps, Estimator):
    """Rows as linear mixtures of a few scores, plus noise. NaN is an entry that was not seen."""

    inference: Any
    max_iter: int
    components_: np.ndarray
    mean_: np.ndarray
    noise_variance_: Any

    def _factorise(self, X: Any, size: int, noise: str, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """The loadings (factors, columns) and the variance of the noise in each column."""
        # For a point estimate the loadings have a known prior, which maximum likelihood leaves out.
        points = isinstance(self.inference, str) and self.inference == "em"
        missing = "marginalise" if np.isnan(X).any() else None
        method = as_method(self.inference, 1, self.max_iter, tol, type(self))
        model = tp.FactorAnalysis(size, noise=noise, relevance=1.0 if points else None, missing=missing)
        done = self._solve(model, X, tp.EM(prior=False, max_iter=self.max_iter, tol=tol) if points else method)
        blocks = done.model.units.to_user(done._families().blocks)
        loadings = np.asarray(blocks["loadings"].mode())
        precision = np.asarray(blocks["noise"].mean().value)
        self.mean_ = loadings[:, -1]
        return loadings[:, :-1].T, np.broadcast_to(1.0 / precision, self.mean_.shape)

    def get_covariance(self) -> np.ndarray:
        """The covariance of a row: what the components explain, and the noise."""
        raise NotImplementedError

    def get_precision(self) -> np.ndarray:
        return np.linalg.inv(self.get_covariance())

    def score_samples(self, X: Any) -> np.ndarray:
        """The log density of each row."""
        check_is_fitted(self)
        return self.fit_.log_predictive(self._rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        return float(self.score_samples(X).mean())

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


@dataclass(eq=False, repr=False)
class FactorAnalysis(_Factors):
    """scikit-learn's `FactorAnalysis`: by default (`inference="em"`) the parameters of highest likelihood.

    `inference` is a method or its name. With "vb", for example, every factor has a relevance, and `log_evidence_`
    compares numbers of factors.
    `copy`, `noise_variance_init`, `svd_method` and `iterated_power` are accepted and have no effect.
    """

    n_components: int | None = None
    _: KW_ONLY
    tol: float = 1e-2
    copy: bool = True
    max_iter: int = 1000
    noise_variance_init: Any = None
    svd_method: str = "randomized"
    iterated_power: int = 3
    rotation: str | None = None
    random_state: Any = 0
    inference: Any = "em"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the loadings, in scikit-learn's coordinates: WΨ⁻¹Wᵀ is diagonal and descends, unless rotated."""
        X = self._rows(X, reset=True)
        if self.rotation is not None:
            check_choice("rotation", self.rotation, {"varimax": True, "quartimax": True})
        size = X.shape[1] if self.n_components is None else self.n_components
        whole(1)("n_components", size)
        if size > X.shape[1]:
            raise InvalidParameter(f"n_components must be at most the number of columns, {X.shape[1]}, got {size}")
        # scikit-learn's tol is a gain of the log likelihood of all rows.
        loadings, noise = self._factorise(X, size, "diagonal", 1e-3 * self.tol / len(X))
        axes, sizes, directions = np.linalg.svd(loadings / np.sqrt(noise), full_matrices=False)
        signs = _signs(directions)
        components = signs[:, None] * sizes[:, None] * directions * np.sqrt(noise)
        turn = axes * signs
        if self.rotation is not None:
            further = _orthogonal_rotation(components.T, self.rotation)
            components, turn = further.T @ components, turn @ further
        self.components_, self._turn, self.noise_variance_ = components, turn, noise
        self.loglike_ = np.asarray(self.fit_.history.get("elbo", [self.log_evidence_])).tolist()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The expected scores of each row."""
        check_is_fitted(self)
        return self.fit_.transform(self._rows(X)) @ self._turn

    def get_covariance(self) -> np.ndarray:
        check_is_fitted(self)
        return self.components_.T @ self.components_ + np.diag(self.noise_variance_)


@dataclass(eq=False, repr=False)
class PCA(TakesSparse, _Factors):
    """scikit-learn's `PCA` as a model with a posterior: probabilistic principal components by variational Bayes.

    The axes are scikit-learn's. New: missing values (NaN), `log_evidence_`, scores that are predictive densities, and
    `n_components="mle"` is the number of axes of highest evidence. Another `inference` is a method such as
    `tp.ParallelTempering()`, or its name. `copy` and the arguments about singular value decompositions are accepted and
    have no effect.
    """

    n_components: int | float | str | None = None
    _: KW_ONLY
    copy: bool = True
    whiten: bool = False
    svd_solver: str = "auto"
    tol: float = 0.0
    iterated_power: Any = "auto"
    n_oversamples: int = 10
    power_iteration_normalizer: str = "auto"
    random_state: Any = None
    inference: Any = "vb"
    max_iter: int = 1000

    def fit(self, X: Any, y: Any = None) -> Self:
        X = self._rows(X, reset=True)
        n, d = X.shape
        wanted, most = self.n_components, min(n, d)
        size = self._most_probable(X, most) if wanted == "mle" else self._size(most)
        loadings, noise = self._factorise(X, size, "isotropic", max(self.tol, 1e-8))
        self.noise_variance_ = float(noise[0])
        _, _, axes = np.linalg.svd(loadings, full_matrices=False)
        away = (X if not np.isnan(X).any() else np.asarray(self.fit_.impute(X).mean)) - self.mean_
        variance = np.var(away @ axes.T, axis=0, ddof=1)
        order = np.argsort(-variance, kind="stable")
        total = float(np.var(away, axis=0, ddof=1).sum())
        ratio = variance[order] / (total if total > 0 else 1.0)
        kept = len(order)
        if isinstance(wanted, float):
            kept = min(kept, int(np.searchsorted(np.cumsum(ratio), wanted, side="right")) + 1)
        axes = axes[order[:kept]]
        self.components_ = axes * _signs(axes)[:, None]
        self.explained_variance_ = variance[order[:kept]]
        self.explained_variance_ratio_ = ratio[:kept]
        self.singular_values_ = np.sqrt((n - 1) * self.explained_variance_)
        self.n_components_, self.n_samples_ = kept, n
        return self

    def _rows(self, X: Any, reset: bool = False) -> np.ndarray:
        return super()._rows(self._dense(X), reset)

    def _size(self, most: int) -> int:
        """How many axes are fitted."""
        wanted = self.n_components
        if wanted is None or (isinstance(wanted, float) and 0 < wanted < 1):
            return most
        if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or not 1 <= wanted <= most:
            raise InvalidParameter(
                f"n_components must be a whole number from 1 to min(n_samples, n_features) = {most}, a share of the "
                f"variance between 0 and 1, 'mle' or None, got {wanted!r}"
            )
        return int(wanted)

    def _most_probable(self, X: np.ndarray, most: int) -> int:
        """The number of axes of highest evidence, found by adding axes until the evidence has fallen twice."""
        found: list[float] = []
        for size in range(1, max(1, most - 1) + 1):
            self._factorise(X, size, "isotropic", max(self.tol, 1e-8))
            if self.log_evidence_ is None:
                raise UnsupportedMethod(f"n_components='mle' needs an evidence, which {self.fit_.method.name} lacks")
            found.append(self.log_evidence_)
            if size - 1 - int(np.argmax(found)) == 2:
                break
        return 1 + int(np.argmax(found))

    def transform(self, X: Any) -> np.ndarray:
        """The coordinates of each row along the axes; missing entries are replaced by their expectations given the seen
        ones."""
        check_is_fitted(self)
        X = self._rows(X)
        if np.isnan(X).any():
            X = np.asarray(self.fit_.impute(X).mean)
        scores = (X - self.mean_) @ self.components_.T
        return scores / self._unit() if self.whiten else scores

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The rows with these scores."""
        check_is_fitted(self)
        scores = np.asarray(X, dtype=np.float64)
        return (scores * self._unit() if self.whiten else scores) @ self.components_ + self.mean_

    def _unit(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.explained_variance_, np.finfo(np.float64).tiny))

    def get_covariance(self) -> np.ndarray:
        check_is_fitted(self)
        above = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        return (self.components_.T * above) @ self.components_ + self.noise_variance_ * np.eye(len(self.mean_))


def _signs(directions: np.ndarray) -> np.ndarray:
    """The signs that make the largest entry of each row positive."""
    largest = np.argmax(np.abs(directions), axis=1)
    return np.where(directions[np.arange(len(directions)), largest] < 0, -1.0, 1.0)


def _orthogonal_rotation(loadings: np.ndarray, method: str) -> np.ndarray:
    """The rotation of the columns of largest varimax or quartimax criterion (Kaiser, 1958)."""
    d, k = loadings.shape
    turn, before = np.eye(k), 0.0
    for _ in range(1000):
        turned = loadings @ turn
        less = turned * np.square(turned).sum(axis=0)[None] / d if method == "varimax" else 0.0
        left, sizes, right = np.linalg.svd(loadings.T @ (turned**3 - less))
        turn = left @ right
        if before != 0.0 and sizes.sum() < before * (1.0 + 1e-10):
            break
        before = float(sizes.sum())
    return turn
