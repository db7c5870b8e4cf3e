"""`LatentDirichletAllocation` with scikit-learn's arguments and attributes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

import temperance as tp

from .._arguments import whole
from ..errors import InvalidParameter
from ..models import Posterior, Way
from ..models._data import make_data
from ._inference import as_method, as_seed, steps_of


@dataclass(eq=False, repr=False)
class LatentDirichletAllocation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Latent Dirichlet allocation with scikit-learn's arguments and attributes.

    New here: `inference` (a method such as `tp.CVB0()`, or its name), which takes the place of `learning_method`,
    `sample_weight` and `log_evidence_`. Without `inference`, and with no two documents alike, the same `random_state`
    gives the topics that scikit-learn finds.
    `score` is the bound on the log probability of the documents given the mean topics, in nats; `n_jobs` is accepted
    and has no effect.
    """

    model_: tp.LDA = field(init=False)
    state_: Posterior = field(init=False)

    n_components: int = 10
    _: KW_ONLY
    doc_topic_prior: float | None = None
    topic_word_prior: float | None = None
    learning_method: str = "batch"
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    max_iter: int = 10
    batch_size: int = 128
    evaluate_every: int = -1
    total_samples: float = 1e6
    perp_tol: float = 0.1
    mean_change_tol: float = 1e-3
    max_doc_update_iter: int = 100
    n_jobs: int | None = None
    verbose: int = 0
    random_state: Any = None
    inference: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the topics of the documents X, counts of words; `sample_weight` is one number per document."""
        whole(1)("n_components", self.n_components)
        counts = self._counts(X, reset=True)
        if not counts.sum() > 0:
            self._learn_nothing(counts)
        elif self.inference is None:
            self._fit_passes(counts, sample_weight)
        else:
            method = as_method(self.inference, 1, self.max_iter, 0.0)
            seed = as_seed(self.random_state)
            done = tp.fit(self._lda(counts.shape[1]), counts, method, seed=seed, weights=sample_weight, progress=False)
            self.n_iter_ = max(1, steps_of(done))
            self.n_batch_iter_ = self.n_iter_ + 1
            self.log_evidence_ = done.log_evidence
            self._keep(done.model, done._families())
        self.bound_ = self.perplexity(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One online step for each minibatch of X; `total_samples` is the number of documents expected in all."""
        first = not hasattr(self, "components_")
        counts = self._counts(X, reset=first)
        if first:
            self.n_iter_, self.n_batch_iter_ = 0, 1
            self._start(counts.shape[1])
        self._online(counts, np.ones(len_of(counts)), self.total_samples, alike=False)
        self._keep(self.model_, self.state_)
        self.n_iter_ += 1
        return self

    def transform(self, X: Any, *, normalize: bool = True) -> np.ndarray:
        """The expected share of each topic in each document; without `normalize`, the parameters of its Dirichlet."""
        check_is_fitted(self)
        counts = self._counts(X)
        shares = np.asarray(self.model_.transform(self.state_, counts))
        if not normalize:
            shares = shares * (
                self.n_components * self.doc_topic_prior_ + np.asarray(counts.sum(axis=1)).reshape(-1, 1)
            )
        return shares.astype(self.components_.dtype)

    def fit_transform(self, X: Any, y: Any = None, *, normalize: bool = True, **arguments: Any) -> np.ndarray:
        return self.fit(X, y, **arguments).transform(X, normalize=normalize)

    def score(self, X: Any, y: Any = None) -> float:
        """The bound on the log probability of all tokens of X."""
        check_is_fitted(self)
        return float(np.sum(self.model_.log_predictive(self.state_, self.model_.new_rows(self._counts(X)))))

    def perplexity(self, X: Any, sub_sampling: bool = False) -> float:
        """exp(−bound per token). The bound has no term for the topics, so `sub_sampling` makes no difference."""
        check_is_fitted(self)
        tokens = float(self._counts(X).sum())
        return float(np.exp(-self.score(X) / max(tokens, 1.0)))

    # ---- pieces -------------------------------------------------------------------------------------------

    def _start(self, n_words: int) -> None:
        """scikit-learn's random start: the same seed begins at the same topics."""
        model, _ = self._lda(n_words).prepare(np.ones((1, n_words)))
        self.random_state_ = check_random_state(self.random_state)
        self._keep(model, Posterior({"topics": tp.Dirichlet(self._draw(self.n_components, n_words))}, {}))

    def _draw(self, rows: int, columns: int) -> np.ndarray:
        """Positive random numbers around one, as in scikit-learn's start."""
        return self.random_state_.gamma(100.0, 0.01, (rows, columns))

    def _step(self, data: Any, rate: float, alike: bool) -> None:
        """One step on these documents; their shares of topics start at random, or all equal (`alike`)."""
        shares = np.ones((data.weights.shape[0], self.n_components))
        if not alike:
            shares[: data.size] = self._draw(data.size, self.n_components)
        state = Posterior(self.state_.blocks, {"proportions": tp.Dirichlet(shares)})
        found, _ = _sweep(self.model_, state, data, jnp.asarray(rate), self.max_doc_update_iter)
        self.state_ = Posterior(found.blocks, {})
        self.n_batch_iter_ += 1

    def _fit_passes(self, counts: Any, sample_weight: Any) -> None:
        """scikit-learn's algorithms, pass by pass: all documents at once, or minibatches in order.

        The perplexity is computed every `evaluate_every` passes, and may end them; `verbose` prints a line for each
        pass.
        """
        if self.learning_method not in ("batch", "online"):
            raise InvalidParameter(f"learning_method must be 'batch' or 'online', got {self.learning_method!r}")
        self._start(counts.shape[1])
        _, data = self._lda(counts.shape[1]).prepare(counts, sample_weight)
        weights = np.asarray(data.weights)[: data.size]
        tokens, before = float(weights @ np.asarray(counts.sum(axis=1)).ravel()), np.inf
        self.n_batch_iter_ = 1
        # A document of weight two must equal two copies of it, so with repeated documents all start equal.
        alike = sample_weight is not None or _repeats(counts)
        for number in range(1, self.max_iter + 1):
            self.n_iter_ = number
            if self.learning_method == "online":
                self._online(counts, weights, float(weights.sum()), alike)
            else:
                self._step(data, 1.0, alike)
            line = f"iteration: {number} of max_iter: {self.max_iter}"
            looked = self.evaluate_every > 0 and number % self.evaluate_every == 0
            # The whole bound, with the cost of the topics, because the bound of the documents alone settles too soon.
            found = np.exp(-self._bound(data) / tokens) if looked else np.nan
            if self.verbose:
                print(f"{line}, perplexity: {found:.4f}" if looked else line)
            if looked:
                if abs(before - found) < self.perp_tol:
                    break
                before = found
        self._keep(self.model_, self.state_)
        self.log_evidence_ = self._bound(data)

    def _online(self, counts: Any, weights: np.ndarray, total: float, alike: bool) -> None:
        """A step on each minibatch, in order."""
        for rows in gen_batches(len_of(counts), self.batch_size):
            if weights[rows].sum() > 0:
                scale = total / weights[rows].sum()
                data = make_data(self.model_.new_rows(counts[rows]), weights[rows] * scale, spread=False)
                self._step(data, (self.learning_offset + self.n_batch_iter_) ** -self.learning_decay, alike)

    def _bound(self, data: Any) -> float:
        """The bound on the log evidence of these documents."""
        fresh = Posterior(self.state_.blocks, {})
        return float(_sweep(self.model_, fresh, data, jnp.asarray(1.0), self.max_doc_update_iter)[1])

    def _learn_nothing(self, counts: Any) -> None:
        """Documents without a word leave the topics at their prior."""
        self._start(counts.shape[1])
        self.n_iter_, self.n_batch_iter_, self.log_evidence_ = 1, 2, 0.0
        self._keep(self.model_, Posterior({"topics": self.model_.prior["topics"]}, {}))

    def _lda(self, n_words: int) -> tp.LDA:
        return tp.LDA(
            self.n_components,
            n_words,
            document_prior=self.doc_topic_prior,
            topic_prior=self.topic_word_prior,
            fractional=True,
            local_tol=self.mean_change_tol,
        )

    def _counts(self, X: Any, reset: bool = False) -> Any:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_non_negative(X, type(self).__name__)
        if reset:
            self._dtype = X.dtype
        return X.astype(np.float64)

    def _keep(self, model: Any, state: Posterior) -> None:
        self.model_, self.state_ = model, state
        topics: Any = state.blocks["topics"]
        self.components_ = np.asarray(topics.concentration, dtype=self._dtype)
        self.exp_dirichlet_component_ = np.asarray(jnp.exp(topics.mean().log), dtype=self._dtype)
        self.doc_topic_prior_ = self.doc_topic_prior or 1.0 / self.n_components
        self.topic_word_prior_ = self.topic_word_prior or 1.0 / self.n_components

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@eqx.filter_jit
def _sweep(model: tp.LDA, state: Posterior, data: Any, rate: Any, local_steps: int) -> tuple[Posterior, Any]:
    return model.sweep(state, data, Way(local_steps=local_steps), rate)


def _repeats(counts: Any) -> bool:
    """Whether two documents that are not empty are equal."""
    rows = sparse.csr_array(counts)
    rows.sort_indices()
    # A random projection separates all documents that are not equal.
    marks = rows @ np.random.default_rng(0).uniform(size=rows.shape[1])
    marks = marks[marks > 0]
    return len(np.unique(marks)) < len(marks)


def len_of(X: Any) -> int:
    return int(X.shape[0])
