"""`LatentDirichletAllocation` with scikit-learn's arguments and attributes."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, gen_batches
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

import temperance as tp

from ..errors import InvalidParameter
from ..models import Posterior
from ..models._data import make_data
from ._inference import as_method, as_seed, steps_of


class LatentDirichletAllocation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Latent Dirichlet allocation with scikit-learn's arguments and attributes.

    New here: `inference` (a method such as `tp.CVB0()`, or its name), which takes the place of `learning_method`.
    `score` is the bound on the log probability of the documents given the mean topics, in nats; `evaluate_every`,
    `perp_tol`, `n_jobs` and `verbose` are accepted and have no effect.
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        doc_topic_prior: float | None = None,
        topic_word_prior: float | None = None,
        learning_method: str = "batch",
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_iter: int = 10,
        batch_size: int = 128,
        evaluate_every: int = -1,
        total_samples: float = 1e6,
        perp_tol: float = 0.1,
        mean_change_tol: float = 1e-3,
        max_doc_update_iter: int = 100,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        inference: Any = None,
    ):
        self.n_components = n_components
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learning_method = learning_method
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.evaluate_every = evaluate_every
        self.total_samples = total_samples
        self.perp_tol = perp_tol
        self.mean_change_tol = mean_change_tol
        self.max_doc_update_iter = max_doc_update_iter
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.inference = inference

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the topics of the documents X, counts of words."""
        counts = self._counts(X, reset=True)
        done = tp.fit(self._lda(counts.shape[1]), counts, self._method(len_of(counts)), seed=as_seed(self.random_state))
        self.n_iter_ = max(1, steps_of(done))
        self.n_batch_iter_ = self.n_iter_ + 1
        self.log_evidence_ = done.log_evidence
        self._keep(done.model, done._families())
        self.bound_ = self.perplexity(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One online step for each minibatch of X, out of `total_samples` documents in all."""
        first = not hasattr(self, "components_")
        counts = self._counts(X, reset=first)
        if first:
            model, data = self._lda(counts.shape[1]).prepare(counts)
            self.n_iter_, self.n_batch_iter_ = 0, 1
            self._keep(model, model.initial(jax.random.key(as_seed(self.random_state)), data))
        model, blocks = self.model_, self.state_.blocks
        for rows in gen_batches(len_of(counts), self.batch_size):
            documents = model.new_rows(counts[rows])
            size = len_of(counts[rows])
            data = make_data(documents, np.full(size, self.total_samples / size))
            rate = (self.learning_offset + self.n_batch_iter_) ** -self.learning_decay
            q, _ = model.sweep(Posterior(blocks, {}), data, rate=rate, local_steps=self.max_doc_update_iter)
            blocks = q.blocks
            self.n_batch_iter_ += 1
        self.n_iter_ += 1
        self._keep(model, Posterior(blocks, {}))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The expected share of each topic in each document."""
        check_is_fitted(self)
        return np.asarray(self.model_.transform(self.state_, self._counts(X)))

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> np.ndarray:
        return self.fit(X, y).transform(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The bound on the log probability of all tokens of X."""
        check_is_fitted(self)
        return float(np.sum(self.model_.log_predictive(self.state_, self.model_.new_rows(self._counts(X)))))

    def perplexity(self, X: Any) -> float:
        """exp(−bound a token)."""
        tokens = float(self._counts(X).sum())
        return float(np.exp(-self.score(X) / max(tokens, 1.0)))

    # ---- pieces -------------------------------------------------------------------------------------------

    def _lda(self, n_words: int) -> tp.LDA:
        return tp.LDA(
            self.n_components,
            n_words,
            document_prior=self.doc_topic_prior,
            topic_prior=self.topic_word_prior,
            fractional=True,
            local_tol=self.mean_change_tol,
        )

    def _method(self, n: int) -> Any:
        if self.inference is not None:
            return as_method(self.inference, 1, self.max_iter, 0.0)
        if self.learning_method == "batch":
            return tp.VB(max_iter=self.max_iter, tol=0.0, local_steps=self.max_doc_update_iter)
        if self.learning_method == "online":
            return tp.SVI(
                batch_size=min(self.batch_size, n),
                passes=self.max_iter,
                step_size=(self.learning_offset, self.learning_decay),
                local_steps=self.max_doc_update_iter,
            )
        raise InvalidParameter(f"learning_method must be 'batch' or 'online', got {self.learning_method!r}")

    def _counts(self, X: Any, reset: bool = False) -> Any:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)
        check_non_negative(X, type(self).__name__)
        return X if sparse.issparse(X) else np.asarray(X)

    def _keep(self, model: Any, state: Posterior) -> None:
        self.model_, self.state_ = model, state
        topics: Any = state.blocks["topics"]
        self.components_ = np.asarray(topics.concentration)
        self.exp_dirichlet_component_ = np.asarray(jnp.exp(topics.mean().log))
        self.doc_topic_prior_ = self.doc_topic_prior or 1.0 / self.n_components
        self.topic_word_prior_ = self.topic_word_prior or 1.0 / self.n_components

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags


def len_of(X: Any) -> int:
    return int(X.shape[0])
