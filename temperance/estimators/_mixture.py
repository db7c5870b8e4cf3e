"""The base of all mixtures: fit, predict, score, sample, and learning batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import equinox as eqx
import jax
import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import temperance as tp

from .._arguments import whole
from ..data import as_weights, distinct_rows
from ..errors import InvalidData
from ..models._answers import Enumerable
from ..models.mixture import Mixture
from ._base import TakesGaps
from ._inference import as_method, as_seed, steps_of, warn_if_cut_short

EXPECTING = (tp.VB, tp.EM, tp.Annealed, tp.VT, tp.LVT)  # methods that work with expected labels


class MixtureEstimator(DensityMixin, TakesGaps, ABC):
    """Base of mixtures. Subclasses make a model of their arguments (`_model`) and set attributes from a fit
    (`_show`)."""

    # The arguments that all subclasses have.
    n_components: int
    inference: Any
    n_init: int
    max_iter: int
    tol: float
    random_state: Any
    converged_: bool
    _given: Any = np.float64  # the precision of the data

    @abstractmethod
    def _model(self, x: np.ndarray, weights: np.ndarray | None, init: Any) -> Mixture:
        """The model that the arguments stand for."""

    @abstractmethod
    def _show(self, fit: tp.Fit, components: Any, weights: np.ndarray) -> None:
        """Set the attributes of a fitted estimator."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture; `sample_weight` is one non-negative number per row, and NaN is a missing value."""
        return self._fit(X, sample_weight, reset=True)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.fit_.responsibilities(self._rows(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """The log predictive density of each row: averaged over the posterior, it integrates to one."""
        check_is_fitted(self)
        return self.fit_.log_predictive(self._rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """New rows from the predictive distribution with their components, sorted by component."""
        check_is_fitted(self)
        whole(1)("n_samples", n_samples)
        rng = check_random_state(self.random_state)
        rows = np.asarray(self.fit_.sample(int(rng.randint(2**31 - 1)), n_samples))
        levels = np.cumsum(self.fit_.responsibilities(rows), axis=1)
        labels = (rng.uniform(size=(n_samples, 1)) * levels[:, -1:] > levels).sum(axis=1)
        order = np.argsort(labels, kind="stable")
        return rows[order], labels[order]

    # ---- pieces -------------------------------------------------------------------------------------------

    def _fit(self, X: Any, sample_weight: Any, reset: bool) -> Self:
        x = self._rows(X, reset)
        if len(x) < self.n_components:
            raise InvalidData(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, n_samples = {len(x)}"
            )
        init = self._init()
        x, weights = self._merged(x, sample_weight, self._method(1), init)
        warm = bool(getattr(self, "warm_start", False)) and hasattr(self, "fit_")
        before = self.log_evidence_ if warm else None
        if warm:
            init = self.fit_.responsibilities(x)
        done = self._run(self._model(x, weights, init), x, weights)
        self._keep(done, 0.0)
        # With a few steps per call, the fit has converged when a whole call gains at most tol.
        self.converged_ = self.converged_ or _gained_little(done.log_evidence, before, self.tol)
        if not self.converged_:
            warn_if_cut_short(self, done)
        return self

    def _run(self, model: Mixture, x: np.ndarray, weights: np.ndarray | None) -> tp.Fit:
        return tp.fit(
            model,
            x,
            self._method(len(x)),
            seed=as_seed(self.random_state),
            weights=weights,
            progress=bool(getattr(self, "verbose", False)),
        )

    def _merged(self, x: np.ndarray, weights: Any, method: Any, init: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Repeated rows merged into one with their total weight, if the method treats both alike, so that the start is
        the same."""
        given = as_weights(weights, len(x))
        # A sampler would draw separate labels for copies of a row, and given shares belong to single rows.
        if not isinstance(method, EXPECTING) or not isinstance(init, str | None):
            return x, given
        return distinct_rows(x, given)

    def _init(self) -> Any:
        return "kmeans++"

    def _method(self, n: int) -> Any:
        # Their tol is an absolute change of the bound, ours a relative one: the bound is of the order of a nat per row.
        return as_method(self.inference, self.n_init, self.max_iter, self.tol / n, type(self))

    def _rows(self, X: Any, reset: bool = False) -> np.ndarray:
        x = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        if reset:
            self._given = x.dtype
        return x.astype(np.float64)

    def _keep(self, done: tp.Fit, so_far: float | None) -> None:
        """Show a fit; `so_far` is the log evidence of the batches before, None where the method estimates none."""
        self.fit_ = done
        found = done.log_evidence
        self.log_evidence_ = None if so_far is None or found is None else so_far + found
        self.converged_ = done.converged
        self.n_iter_ = max(1, steps_of(done))
        state, model = done._families(), done.model
        assert isinstance(model, Enumerable)
        weights = np.exp(np.asarray(_mean_log_weights(model, state)))
        # NumPy arrays, so that attributes are computed without a compilation.
        blocks = model.units.to_user(jax.tree.map(np.asarray, state.blocks))
        self._show(done, blocks["components"], weights)
        for name, value in vars(self).items():  # data in single precision give attributes in single precision
            if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype == np.float64:
                setattr(self, name, value.astype(self._given))


class BatchedMixture(MixtureEstimator):
    """A mixture whose fit is a distribution: it can learn from one batch after another."""

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch: the posterior so far is its prior."""
        if not hasattr(self, "fit_"):
            return self._fit(X, sample_weight, reset=True)
        before = self.fit_
        method = self._method(1)
        x, weights = self._merged(self._rows(X), sample_weight, method, None)
        blocks = before.model.units.to_user(before._families().blocks)
        model = self._model(x, weights, before.responsibilities(x)).with_prior(blocks)
        self._keep(self._run(model, x, weights), self.log_evidence_)
        return self


@eqx.filter_jit
def _mean_log_weights(model: Any, state: Any) -> Any:
    return model.mean_log_weights(state)


def _gained_little(after: float | None, before: float | None, tol: float) -> bool:
    return after is not None and before is not None and abs(after - before) < tol
