"""`TopicModel`: the topics of raw strings, or of counts, behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

import temperance as tp

from ..data.text_sources import has_text
from ..errors import InvalidData
from ._base import Estimator
from ._inference import as_method
from .topics import LatentDirichletAllocation


@dataclass(eq=False, repr=False)
class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """`n_topics` topics of texts: `fit` takes strings, which are read as `tp.read_texts` reads them, or counts of
    words.

    `n_topics` is the number of topics. `inference` is a method such as `tp.CVB0()`, or its name; `language` says whose
    stop words are left out. `partial_fit` takes the vocabulary from the documents of its first call, and makes one step
    of online variational Bayes per call; `total_samples` is the number of documents expected in all.
    """

    n_topics: int = 10
    _: KW_ONLY
    inference: Any = "cvb0"
    language: str | None = "english"
    max_iter: int = 200
    total_samples: float = 1e6
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the topics of the documents X."""
        method = as_method(self.inference, 1, self.max_iter, 1e-4)
        X = self._checked(self._given(X), reset=True)
        corpus = self._read(X)
        done = self._solve(self._lda(corpus), corpus, method)
        self._keep(done.model, done._families())
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """One step of online variational Bayes on these documents, over the vocabulary of the first call."""
        X = self._given(X)
        first = not hasattr(self, "online_")
        X = self._checked(X, reset=first)
        if first:
            corpus = self._read(X)
            self._words = self._lda(corpus).complete(corpus)
            self.online_ = LatentDirichletAllocation(
                self.n_topics, total_samples=self.total_samples, random_state=self.random_state
            )
        counts = self._words.new_corpus(X)
        self.online_.partial_fit(counts.to_sparse().tocsr().astype(np.float64))
        self._keep(self._words, self.online_.state_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The expected share of each topic in each document."""
        check_is_fitted(self, "components_")
        X = self._checked(self._given(X), reset=False)
        return np.asarray(self.model_.transform(self.state_, X))

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        given = self._given(X)  # a generator is read once
        return self.fit(given).transform(given)

    def topics(self, n_words: int = 10, relevance: float = 0.6) -> list[list[tuple[str | int, float]]]:
        """The most telling words of each topic with their probabilities."""
        check_is_fitted(self, "components_")
        return self.model_.topics(self.state_, n_words, relevance)

    def _keep(self, model: Any, state: Any) -> None:
        self.model_, self.state_ = model, state
        self.components_ = np.asarray(state.blocks["topics"].concentration)
        self.vocabulary_ = None if model.vocabulary is None else np.array(model.vocabulary.words, dtype=object)

    def _given(self, X: Any) -> Any:
        """Counts and frames as they are, anything else as a list of documents."""
        if isinstance(X, str):
            raise InvalidData("X must be several documents, got one string")
        if len(getattr(X, "columns", ())) == 1:  # a frame of one column, of texts
            column = list(X[X.columns[0]])
            return column if any(isinstance(text, str) for text in column) else X
        if sparse.issparse(X) or isinstance(X, tp.Corpus) or hasattr(X, "columns") or not isinstance(X, Iterable):
            return X
        if isinstance(X, np.ndarray) and X.dtype.kind not in "OUT":
            return X
        values: Any = X
        if getattr(values, "ndim", 1) == 2:  # of strings, a column
            return values[:, 0].tolist() if values.shape[1] == 1 and values.dtype.kind in "OUT" else values
        return list(X)

    def _checked(self, X: Any, reset: bool) -> Any:
        """Counts as scikit-learn checks them, names of columns included; texts and corpora as they are."""
        if isinstance(X, list | tp.Corpus) or has_text(X):
            if reset:
                self.__dict__.pop("feature_names_in_", None)
            return X
        counts = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)
        check_non_negative(counts, type(self).__name__)
        return X if hasattr(X, "columns") else counts

    def _read(self, X: Any) -> Any:
        given = self._given(X)
        listed = isinstance(given, list) and not any(isinstance(document, list | tuple) for document in given)
        if listed or has_text(given):
            return tp.read_texts(given, language=self.language)
        return tp.LDA(1, fractional=True).new_corpus(given)

    def _lda(self, corpus: Any) -> tp.LDA:
        """The model for this corpus; it accepts fractional counts, such as tf-idf weights."""
        return tp.LDA(self.n_topics, fractional=corpus.counts.dtype.kind == "f")

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = tags.input_tags.sparse = tags.input_tags.string = True
        return tags
