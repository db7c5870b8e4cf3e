"""What hidden Markov models with hmmlearn's interface share: sequences, recursions, and a fit from given parameters."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_feature_names, check_is_fitted

import temperance as tp

from .._arguments import whole
from ..errors import InvalidData, InvalidParameter
from ..models.hidden_markov import log_mean
from ..numerics.chains import FIRST, ON, Chain, best_path, choose_engine, filter_states, smooth_states
from ._base import Estimator, TakesGaps
from ._inference import as_method

# The attribute of each letter of `params` and `init_params`.
_NAMES = {
    "s": "startprob_", "t": "transmat_", "m": "means_", "c": "_covars", "e": "emissionprob_", "l": "lambdas_",
}  # fmt: skip


class Monitor(NamedTuple):
    """hmmlearn's record of a fit: the log likelihood (or bound) after each iteration."""

    history: list[float]
    converged: bool
    iter: int
    tol: float
    n_iter: int


class HiddenMarkov(TakesGaps, Estimator):
    """The base of hidden Markov models. It uses the attributes `startprob_`, `transmat_` and those of the emissions,
    whether set by a fit or by the user.

    NaN is an entry that was not seen; it is integrated out, in a fit as in a score.

    `inference` is "em" (from hmmlearn's start, with its priors), or another method with the default prior of `tp.HMM`:
    the attributes are then posterior means, and `log_evidence_` compares numbers of states.
    """

    n_components: int
    startprob_prior: Any
    transmat_prior: Any
    algorithm: str
    random_state: Any
    n_iter: int
    tol: float
    params: str
    init_params: str
    inference: Any

    startprob_: np.ndarray
    transmat_: np.ndarray
    n_features: Any
    _all: str  # the letters of all parameters

    @abstractmethod
    def _model(self, X: np.ndarray, points: bool) -> dict[str, Any]:
        """The arguments `emission` and `prior` of `tp.HMM`."""

    @abstractmethod
    def _begin(self, X: np.ndarray) -> Any:
        """Set the parameters of the emissions, except those to be kept, and return them as a draw for `tp.HMM`."""

    @abstractmethod
    def _show(self, emissions: Any) -> None:
        """Set the attributes of the emissions from their posterior."""

    @abstractmethod
    def _log_likelihood(self, X: np.ndarray) -> np.ndarray:
        """log p(what was seen of x_t | state) from the attributes, (steps, states)."""

    @abstractmethod
    def _emit(self, states: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """One emitted step for each of these states."""

    def fit(self, X: Any, lengths: Any = None) -> Self:
        """Fit the sequences whose steps follow each other in X; `lengths` holds the length of each sequence."""
        given = X
        self.__dict__.pop("feature_names_in_", None)  # the rows below are arrays
        whole(1)("n_components", self.n_components)
        X, lengths = self._steps(X, lengths)
        points = self.inference == "em" or isinstance(self.inference, tp.EM)
        if not set(self.params) <= set(self._all) or not (points or set(self.params) == set(self._all)):
            wanted = f"some of the letters {self._all!r}" if points else f"{self._all!r} unless inference='em'"
            raise InvalidParameter(f"params must be {wanted}, got {self.params!r}")
        self.n_features = self.n_features_in_ = X.shape[1]
        rng = check_random_state(self.random_state)
        even = np.full(self.n_components, 1.0 / self.n_components)
        if self._starts("s", "startprob_"):
            self.startprob_ = rng.dirichlet(even)
        if self._starts("t", "transmat_"):
            self.transmat_ = rng.dirichlet(even, size=self.n_components)
        emissions = self._begin(X)
        held = {
            name: vars(self)[name] for letter, name in _NAMES.items() if letter in self._all and self._holds(letter)
        }
        model = tp.HMM(
            self.n_components,
            **self._model(X, points),
            missing="marginalise" if np.isnan(X).any() else None,
            concentration=firmly(self.transmat_, X) if self._holds("t") else self.transmat_prior,
            initial_concentration=firmly(self.startprob_, X) if self._holds("s") else self.startprob_prior,
            init={"initial": self.startprob_, "transitions": self.transmat_, "emissions": emissions},
        )
        # hmmlearn's tol is an absolute gain of the log likelihood, ours a relative one; the start was one iteration.
        tol = max(self.tol, 0.0) / max(abs(self.score(X, lengths)), 1.0)
        done = self._solve(
            model, _apart(X, lengths), as_method(self.inference, 1, max(1, self.n_iter - 1), tol, type(self))
        )
        self._keep(done, points)
        self.__dict__.update(held)
        _check_feature_names(self, given, reset=True)
        return self

    def _keep(self, done: tp.Fit, points: bool) -> None:
        blocks = done.model.units.to_user(done._families().blocks)
        for name, block in (("startprob_", "initial"), ("transmat_", "transitions")):
            found = np.exp(np.asarray(log_mean(blocks[block])))
            # EM keeps a probability of zero at zero; by way of logarithms it returns as a tiny number.
            setattr(self, name, np.where(np.asarray(getattr(self, name)) == 0.0, 0.0, found) if points else found)
        self._show(blocks["emissions"])
        history = np.asarray(done.history.get("elbo", [])).tolist()
        self.monitor_ = Monitor(history, done.converged, len(history), self.tol, self.n_iter)

    def _holds(self, letter: str) -> bool:
        """Whether this parameter stays at its start: its prior is then worth far more than the data."""
        return letter not in self.params

    def _starts(self, letter: str, name: str) -> bool:
        return letter in self.init_params or not hasattr(self, name)

    # ---- answers --------------------------------------------------------------------------------------------

    def score(self, X: Any, lengths: Any = None) -> float:
        """The log likelihood of the sequences."""
        return self.score_samples(X, lengths)[0]

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, np.ndarray]:
        """The log likelihood, and the probability of each state at each step."""
        X, lengths = self._steps(X, lengths, fitted=True)
        value, shares = _recursions(self._chain(X, lengths))
        return float(np.sum(np.asarray(value))), np.asarray(shares)

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        return self.score_samples(X, lengths)[1]

    def decode(self, X: Any, lengths: Any = None, algorithm: str | None = None) -> tuple[float, np.ndarray]:
        """The most probable path ("viterbi") with its log probability, or ("map") the most probable states."""
        wanted = algorithm or self.algorithm
        if wanted not in ("viterbi", "map"):
            raise InvalidParameter(f"algorithm must be 'viterbi' or 'map', got {wanted!r}")
        X, lengths = self._steps(X, lengths, fitted=True)
        chain = self._chain(X, lengths)
        if wanted == "map":
            shares = np.asarray(_recursions(chain)[1])
            return float(shares.max(axis=1).sum()), shares.argmax(axis=1)
        path = np.asarray(_best_path(chain))
        first = np.cumsum(lengths) - lengths
        moves = np.delete(np.arange(len(X)), first)
        logs = (
            np.asarray(chain.likelihood)[np.arange(len(X)), path].sum() + np.asarray(chain.initial)[path[first]].sum()
        )
        return float(logs + np.asarray(chain.transition)[path[moves - 1], path[moves]].sum()), path

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The states, as `decode` finds them."""
        return self.decode(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: Any = None, currstate: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """A new sequence with its states; `currstate` is the state of its first step."""
        check_is_fitted(self, "startprob_")
        rng = check_random_state(self.random_state if random_state is None else random_state)
        states = [currstate if currstate is not None else rng.choice(self.n_components, p=self.startprob_)]
        for _ in range(n_samples - 1):
            states.append(rng.choice(self.n_components, p=self.transmat_[states[-1]]))
        path = np.array(states, dtype=int)
        return self._emit(path, rng), path

    def get_stationary_distribution(self) -> np.ndarray:
        """The share of each state in the long run."""
        check_is_fitted(self, "transmat_")
        values, vectors = np.linalg.eig(np.asarray(self.transmat_).T)
        found = np.real(vectors[:, np.argmax(np.real(values))])
        return found / found.sum()

    def aic(self, X: Any, lengths: Any = None) -> float:
        return -2.0 * self.score(X, lengths) + 2.0 * self._n_parameters()

    def bic(self, X: Any, lengths: Any = None) -> float:
        return -2.0 * self.score(X, lengths) + self._n_parameters() * np.log(len(np.asarray(X)))

    def _n_parameters(self) -> int:
        k = self.n_components
        return k - 1 + k * (k - 1) + self._n_emission_parameters()

    @abstractmethod
    def _n_emission_parameters(self) -> int: ...

    def _chain(self, X: np.ndarray, lengths: np.ndarray) -> Chain:
        starts = np.full(len(X), ON, dtype=np.int8)
        starts[np.cumsum(lengths) - lengths] = FIRST
        with np.errstate(divide="ignore"):
            initial, transitions = np.log(self.startprob_), np.log(self.transmat_)
        parts = (initial, transitions, self._log_likelihood(X), starts)
        return Chain(*(jnp.asarray(part) for part in parts))

    def _steps(self, X: Any, lengths: Any, fitted: bool = False) -> tuple[np.ndarray, np.ndarray]:
        if fitted:
            check_is_fitted(self, "startprob_")
            if hasattr(self, "feature_names_in_"):
                _check_feature_names(self, X, reset=False)
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        empty = np.flatnonzero(np.isnan(X).all(axis=0))
        if not fitted and len(empty):
            raise InvalidData(f"X must have a value in every column, but column {empty[0]} has only NaN")
        lengths = np.array([len(X)]) if lengths is None else np.asarray(lengths)
        if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != len(X):
            raise InvalidData(f"lengths must be positive and add up to the {len(X)} rows of X, got {lengths.tolist()}")
        if fitted and X.shape[1] != getattr(self, "n_features", X.shape[1]):
            expected = f"{type(self).__name__} is expecting {self.n_features} features as input"
            raise InvalidData(f"X has {X.shape[1]} features, but {expected}")
        return X, lengths.astype(int)


def worth(X: np.ndarray) -> float:
    """As many steps as hold a parameter where it is, to five digits: with more, rounding would show in the bound."""
    return 1e5 * len(X)


def firmly(probabilities: Any, X: np.ndarray) -> np.ndarray:
    """The concentrations of a prior that holds probabilities where they are."""
    return 1.0 + worth(X) * np.asarray(probabilities, dtype=np.float64)


def _apart(X: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    return np.split(X, np.cumsum(lengths)[:-1])


@eqx.filter_jit
def _recursions(chain: Chain) -> tuple[Any, Any]:
    engine = choose_engine("auto", *chain.likelihood.shape)
    return filter_states(chain, engine)[0], smooth_states(chain, engine)


@eqx.filter_jit
def _best_path(chain: Chain) -> Any:
    return best_path(chain)
