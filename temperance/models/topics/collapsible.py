"""Topic models whose documents can be inferred by collapsed updates: what CVB0 needs to know of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import equinox as eqx
from jaxtyping import Array, Float

from .._model import Model


class Collapsible(Model):
    """Topics β_k ~ Dirichlet(η) are the block "topics", proportions θ_d ~ Dirichlet(α) the local one."""

    alpha: eqx.AbstractVar[Float[Array, " k"]]
    eta: eqx.AbstractVar[Float[Array, "..."]]  # a number, one for each word, or (topics, words)
    n_topics: eqx.AbstractVar[int]
    n_words: eqx.AbstractVar[int | None]
    learn: eqx.AbstractVar[tuple[str, ...]]  # of "document_prior" and "topic_prior"
    single: eqx.AbstractVar[bool]  # precision
    local_tol: eqx.AbstractVar[float]

    @abstractmethod
    def as_collapsed(self) -> Self:
        """The model as CVB0 sees it."""

    @abstractmethod
    def new_corpus(self, data: Any) -> Any:
        """New documents over the words that the model was fitted to."""
