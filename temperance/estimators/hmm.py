"""`GaussianHMM`, `CategoricalHMM`, `MultinomialHMM` and `PoissonHMM` with hmmlearn's arguments and attributes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, xlogy
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

import temperance as tp

from .._arguments import check_choice
from ..errors import InvalidData, InvalidParameter
from ..families import Point
from ..families.normal_wishart import MeanAndPrecision
from ._hmm import HiddenMarkov, firmly, worth

_FORMS = {"full": "gaussian", "diag": "diagonal", "spherical": "spherical"}
_NOTHING = 1e-12  # a negligible pseudo-count


@dataclass(eq=False, repr=False)
class GaussianHMM(HiddenMarkov):
    """hmmlearn's `GaussianHMM`: means and covariances ("full", "diag" or "spherical") of the states.

    "spherical" has a proper prior, which differs from hmmlearn's by less than one step of data for each state. With
    "full", a number `covars_prior` is that multiple of the identity (hmmlearn adds it to every entry of the matrix).
    `implementation` and `verbose` are accepted and have no effect.
    """

    _all = "stmc"
    means_: np.ndarray = field(init=False)

    n_components: int = 1
    covariance_type: str = "diag"
    min_covar: float = 1e-3
    startprob_prior: Any = 1.0
    transmat_prior: Any = 1.0
    means_prior: Any = 0
    means_weight: float = 0
    covars_prior: Any = 0.01
    covars_weight: float = 1
    algorithm: str = "viterbi"
    random_state: Any = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "stmc"
    init_params: str = "stmc"
    implementation: str = "log"
    inference: Any = "em"

    @property
    def covars_(self) -> np.ndarray:
        """The covariance matrix of each state."""
        return self._covars

    @covars_.setter
    def covars_(self, covars: Any) -> None:
        k, given = self.n_components, np.array(covars, dtype=float)
        d = np.asarray(self.means_).shape[1] if hasattr(self, "means_") else given.shape[-1]
        check_choice("covariance_type", self.covariance_type, _FORMS | {"tied": "gaussian"})
        shapes = {"full": (k, d, d), "diag": (k, d), "spherical": (k,), "tied": (d, d)}
        if self.covariance_type == "tied" and given.shape == (d, d):
            matrices = np.broadcast_to(given, (k, d, d))
        elif self.covariance_type == "full" and given.shape == (k, d, d):
            matrices = given
        elif self.covariance_type != "full" and (
            given.shape in (shapes[self.covariance_type], (k, d)) or given.size == k
        ):
            matrices = np.broadcast_to(given.reshape(k, -1), (k, d))[:, :, None] * np.eye(d)
        else:
            raise InvalidData(f"covars_ must have shape {shapes[self.covariance_type]}, got {given.shape}")
        if (np.linalg.eigvalsh(matrices) <= 0).any():
            raise InvalidData("covars_ must be positive definite")
        self._covars = matrices

    def _model(self, X: np.ndarray, points: bool) -> dict[str, Any]:
        form = check_choice("covariance_type", self.covariance_type, _FORMS)
        if not points:
            return {"emission": form}
        d = X.shape[1]
        mean = np.broadcast_to(np.asarray(self.means_prior, dtype=float), (d,))
        count = max(float(self.means_weight), _NOTHING)
        if self.means_weight == 0:
            mean = np.nanmean(X, axis=0)
        if self._holds("m"):
            mean, count = self.means_, worth(X)
        spread, weight = np.asarray(self.covars_prior, dtype=float), float(self.covars_weight)
        if self.covariance_type == "full":
            scatter = spread if spread.ndim else spread * np.eye(d)
        else:
            scatter = np.broadcast_to(spread, (d,))
        if self._holds("c"):
            weight, scatter = worth(X), worth(X) * self._covars
            scatter = scatter if self.covariance_type == "full" else np.einsum("kii->ki", scatter)
        if self.covariance_type == "full":
            return {"emission": form, "prior": tp.NormalWishart(mean, count, max(weight, float(d)), scatter)}
        if self.covariance_type == "diag":
            return {"emission": form, "prior": tp.Independent(tp.NormalGamma(mean, count, max(weight, 1.0), scatter))}
        dof = max(2.0 - d + d * max(weight - 1.0, 0.0), 1e-3)
        return {"emission": form, "prior": tp.IsotropicNormalGamma(mean, count, dof, scatter.sum(axis=-1))}

    def _begin(self, X: np.ndarray) -> Any:
        check_choice("covariance_type", self.covariance_type, _FORMS)
        X = _without_gaps(X, self.n_components)
        if self._starts("m", "means_"):
            clusters = KMeans(self.n_components, n_init=10, random_state=self.random_state).fit(X)
            self.means_ = clusters.cluster_centers_
        self.means_ = np.asarray(self.means_, dtype=float)
        if self._starts("c", "_covars"):
            if len(X) < 2:
                raise InvalidData("n_samples = 1: a covariance needs at least two steps")
            matrix = np.atleast_2d(np.cov(X.T)) + self.min_covar * np.eye(X.shape[1])
            by_column = np.diag(matrix) if self.covariance_type == "diag" else np.full(X.shape[1], matrix.mean())
            form = matrix if self.covariance_type == "full" else np.diag(by_column)
            self._covars = np.broadcast_to(form, (self.n_components, *form.shape)).copy()
        precisions = np.linalg.inv(self._covars)
        if self.covariance_type == "diag":
            precisions = np.einsum("kii->ki", precisions)
        elif self.covariance_type == "spherical":
            precisions = precisions[:, 0, 0]
        return MeanAndPrecision(jnp.asarray(self.means_), jnp.asarray(precisions))

    def _show(self, emissions: Any) -> None:
        if isinstance(emissions, Point):
            mode = emissions.mode()
            self.means_, precisions = np.asarray(mode.mean), np.asarray(mode.precision)
            spread = np.linalg.inv(precisions) if self.covariance_type == "full" else 1.0 / precisions
        else:
            family: Any = emissions.inner if self.covariance_type == "diag" else emissions
            dof, scatter = np.asarray(family.dof), np.asarray(family.scatter)
            self.means_ = np.asarray(family.location)
            spread = scatter / dof.reshape(dof.shape + (1,) * (scatter.ndim - dof.ndim))
        self.covars_ = spread

    def _log_likelihood(self, X: np.ndarray) -> np.ndarray:
        means, found = np.asarray(self.means_), np.zeros((len(X), self.n_components))
        patterns, pattern = np.unique(~np.isnan(X), axis=0, return_inverse=True)
        for place, seen in enumerate(patterns):
            rows = np.flatnonzero(pattern.reshape(-1) == place)
            for k in range(self.n_components) if seen.any() else ():
                factor = np.linalg.cholesky(self._covars[k][np.ix_(seen, seen)])
                white = solve_triangular(factor, (X[np.ix_(rows, seen)] - means[k, seen]).T, lower=True)
                log_unit = np.log(np.diag(factor)).sum() + 0.5 * seen.sum() * np.log(2.0 * np.pi)
                found[rows, k] = -0.5 * np.square(white).sum(axis=0) - log_unit
        return found

    def _emit(self, states: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        factors = np.linalg.cholesky(self._covars)[states]
        noise = rng.normal(size=(len(states), factors.shape[1], 1))
        return np.asarray(self.means_)[states] + (factors @ noise)[..., 0]

    def _n_emission_parameters(self) -> int:
        k, d = np.asarray(self.means_).shape
        spread = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}
        return k * d + spread[self.covariance_type]


def _without_gaps(X: np.ndarray, least: int) -> np.ndarray:
    """The complete rows, for a start; if at most `least` rows are complete, all rows with column means in their
    gaps."""
    complete = X[~np.isnan(X).any(axis=1)]
    return complete if len(complete) > least else np.where(np.isnan(X), np.nanmean(X, axis=0), X)


class _Categories(HiddenMarkov):
    """Probabilities of a few values in each state."""

    _all = "ste"
    _levels: int

    def _begin(self, X: np.ndarray) -> Any:
        if self._starts("e", "emissionprob_"):
            # hmmlearn has drawn the two other parameters before, unless the user set them.
            drawn = check_random_state(self.random_state).rand(self.n_components, self._levels)
            self.emissionprob_ = drawn / drawn.sum(axis=1, keepdims=True)
        return np.asarray(self.emissionprob_, dtype=float)

    def _show(self, emissions: Any) -> None:
        if isinstance(emissions, Point):
            found = np.asarray(emissions.mode())
        else:
            delta = np.asarray(getattr(emissions, "inner", emissions).concentration)
            found = delta / delta.sum(axis=-1, keepdims=True)
        self.emissionprob_ = found.reshape((self.n_components, -1))

    def _n_emission_parameters(self) -> int:
        k, levels = np.asarray(self.emissionprob_).shape
        return k * (levels - 1)


@dataclass(eq=False, repr=False)
class CategoricalHMM(_Categories):
    """hmmlearn's `CategoricalHMM`: one column of codes 0, 1, 2, … with probabilities in each state."""

    n_components: int = 1
    startprob_prior: Any = 1.0
    transmat_prior: Any = 1.0
    _: KW_ONLY
    emissionprob_prior: Any = 1.0
    n_features: int | None = None
    algorithm: str = "viterbi"
    random_state: Any = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "ste"
    init_params: str = "ste"
    implementation: str = "log"
    inference: Any = "em"

    def _steps(self, X: Any, lengths: Any, fitted: bool = False) -> tuple[np.ndarray, np.ndarray]:
        levels, self.n_features = self.n_features, 1
        try:
            X, lengths = super()._steps(X, lengths, fitted)
        finally:
            self.n_features = levels
        if X.shape[1] != 1 or not _whole(X):
            raise InvalidData("X must be one column of whole numbers 0, 1, 2, …")
        most = self.emissionprob_.shape[1] if fitted else self.n_features
        if most is not None and np.greater_equal(X, most).any():
            raise InvalidData(f"X has the code {int(np.nanmax(X))}, but codes go up to {most - 1}")
        return X, lengths

    def fit(self, X: Any, lengths: Any = None) -> CategoricalHMM:
        rows, _ = self._steps(X, lengths)
        given = self.n_features
        self._levels = int(np.nanmax(rows)) + 1 if given is None else given
        super().fit(X, lengths)
        self.n_features = self._levels
        return self

    def _model(self, X: np.ndarray, points: bool) -> dict[str, Any]:
        prior = firmly(self.emissionprob_, X) if self._holds("e") else np.asarray(self.emissionprob_prior, dtype=float)
        prior = np.broadcast_to(prior, (self.n_components, self._levels))
        emission = tp.IndependentPair(tp.Categorical(self._levels))
        return {"emission": emission, "prior": tp.Independent(tp.Dirichlet(prior[:, None]))}

    def _begin(self, X: np.ndarray) -> Any:
        return super()._begin(X)[:, None]

    def _log_likelihood(self, X: np.ndarray) -> np.ndarray:
        seen = ~np.isnan(X[:, 0])
        found = np.zeros((len(X), self.n_components))
        with np.errstate(divide="ignore"):
            found[seen] = np.log(np.asarray(self.emissionprob_)).T[X[seen, 0].astype(int)]
        return found

    def _emit(self, states: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        levels = np.cumsum(np.asarray(self.emissionprob_), axis=1)[states]
        return (rng.uniform(size=(len(states), 1)) * levels[:, -1:] > levels).sum(axis=1)[:, None]


@dataclass(eq=False, repr=False)
class MultinomialHMM(_Categories):
    """hmmlearn's `MultinomialHMM`: rows of counts of several kinds, with the probabilities of the kinds in each state.

    `n_trials` is the total of every row, needed only by `sample` (by default that of the rows that were fitted).
    A row of NaN is a step that was not seen.
    """

    n_components: int = 1
    n_trials: Any = None
    startprob_prior: Any = 1.0
    transmat_prior: Any = 1.0
    algorithm: str = "viterbi"
    random_state: Any = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "ste"
    init_params: str = "ste"
    implementation: str = "log"
    inference: Any = "em"

    def _steps(self, X: Any, lengths: Any, fitted: bool = False) -> tuple[np.ndarray, np.ndarray]:
        X, lengths = super()._steps(X, lengths, fitted)
        if not _whole(X):
            raise InvalidData("X must be counts, whole numbers of at least 0")
        hidden = np.isnan(X).any(axis=1)
        if not np.isnan(X[hidden]).all():
            raise InvalidData("the counts of a row must be all there or all NaN, for a step that was not seen")
        trials = None if self.n_trials is None else np.broadcast_to(self.n_trials, len(X))[~hidden]
        if trials is not None and (X[~hidden].sum(axis=1) != trials).any():
            raise InvalidData(f"the counts of each row must add up to n_trials, got {self.n_trials!r}")
        return np.where(np.isnan(X), 0.0, X), lengths  # a row of zero counts carries no information, like a missing row

    def fit(self, X: Any, lengths: Any = None) -> Self:
        rows, _ = self._steps(X, lengths)
        totals = rows.sum(axis=1)
        self._levels, self._totals = rows.shape[1], totals[totals > 0]
        return super().fit(X, lengths)

    def _model(self, X: np.ndarray, points: bool) -> dict[str, Any]:
        flat = np.ones((self.n_components, self._levels))
        prior = firmly(self.emissionprob_, X) * X.sum(axis=1).max() if self._holds("e") else flat
        return {"emission": tp.Multinomial(), "prior": tp.Dirichlet(prior)}

    def _log_likelihood(self, X: np.ndarray) -> np.ndarray:
        base = gammaln(X.sum(axis=1) + 1.0) - gammaln(X + 1.0).sum(axis=1)
        return base[:, None] + xlogy(X[:, None], np.asarray(self.emissionprob_)[None]).sum(axis=2)

    def _emit(self, states: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        totals = np.unique(getattr(self, "_totals", []) if self.n_trials is None else self.n_trials)
        if len(totals) != 1:
            raise InvalidParameter("n_trials must be one number for `sample`")
        return np.stack([rng.multinomial(int(totals[0]), np.asarray(self.emissionprob_)[state]) for state in states])


@dataclass(eq=False, repr=False)
class PoissonHMM(HiddenMarkov):
    """hmmlearn's `PoissonHMM`: columns of counts with rates `lambdas_` in each state."""

    _all = "stl"

    n_components: int = 1
    startprob_prior: Any = 1.0
    transmat_prior: Any = 1.0
    lambdas_prior: float = 0.0
    lambdas_weight: float = 0.0
    algorithm: str = "viterbi"
    random_state: Any = None
    n_iter: int = 10
    tol: float = 1e-2
    verbose: bool = False
    params: str = "stl"
    init_params: str = "stl"
    implementation: str = "log"
    inference: Any = "em"

    def _model(self, X: np.ndarray, points: bool) -> dict[str, Any]:
        if not points:
            return {"emission": "poisson"}
        rate = worth(X) if self._holds("l") else max(float(self.lambdas_weight), _NOTHING)
        shape = 1.0 + (rate * self.lambdas_ if self._holds("l") else np.full(X.shape[1], float(self.lambdas_prior)))
        each = tp.Gamma(shape, np.full_like(shape, rate))
        return {"emission": "poisson", "prior": tp.Independent(each)}

    def _begin(self, X: np.ndarray) -> Any:
        if self._starts("l", "lambdas_"):
            mean, variance = np.nanmean(X), np.nanvar(X)
            if not mean > 0 or not variance > 0:
                raise InvalidParameter(
                    "lambdas_ must be set, with init_params='st': counts that never vary have no start"
                )
            rng = check_random_state(self.random_state)
            size = (self.n_components, X.shape[1])
            self.lambdas_ = rng.gamma(shape=mean**2 / variance, scale=variance / mean, size=size)
        return np.asarray(self.lambdas_, dtype=float)

    def _show(self, emissions: Any) -> None:
        if isinstance(emissions, Point):
            self.lambdas_ = np.asarray(emissions.mode())
        else:
            self.lambdas_ = np.asarray(emissions.inner.shape) / np.asarray(emissions.inner.rate)

    def _log_likelihood(self, X: np.ndarray) -> np.ndarray:
        rates = np.asarray(self.lambdas_)[None]
        counts = X[:, None]
        return np.nansum(xlogy(counts, rates) - rates - gammaln(counts + 1.0), axis=2)

    def _emit(self, states: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        return rng.poisson(np.asarray(self.lambdas_)[states])

    def _n_emission_parameters(self) -> int:
        return int(np.asarray(self.lambdas_).size)


def _whole(X: np.ndarray) -> bool:
    """Whether all seen values are whole numbers of at least 0."""
    seen = X[~np.isnan(X)]
    return bool((seen >= 0).all() and (seen % 1 == 0).all())
