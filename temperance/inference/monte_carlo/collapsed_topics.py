"""Collapsed Gibbs sampling of topics: the topic of one token after the other (Griffiths and Steyvers, 2004).

p(z_i = k | w, all others) ∝ (n_dk + α_k) (n_kw + η_kw)/(n_k + Σ_w η_kw)
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import InvalidData
from ...families.dirichlet import Dirichlet, DirichletVector
from ...models import Data, Model
from ...models._answers import Collapsible
from ...numerics.place import on_device
from .._method import Info
from .gibbs import Gibbs


class Tokens(Data):
    """A corpus, and the document and the word of each of its tokens."""

    documents: Int[Array, " t"] | None = None
    words: Int[Array, " t"] | None = None


class Counts(NamedTuple):
    """The topics of all tokens, and the counts of topics in documents and words."""

    labels: Int[Array, " t"]
    documents: Float[Array, "d k"]
    words: Float[Array, "k v"]


@dataclasses.dataclass(frozen=True)
class CollapsedTopics(Gibbs):
    """The form of `tp.CollapsedGibbs` for topic models."""

    arranges: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "collapsed Gibbs"

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> Data:
        words, counts = (np.asarray(part) for part in data.values.padded())
        counts = counts * (np.asarray(data.weights) > 0)[:, None]
        if (counts != np.round(counts)).any():
            raise InvalidData(
                "word counts must be whole numbers for collapsed Gibbs, which draws every token; use tp.VB()"
            )
        times = counts.astype(int).ravel()
        documents = np.repeat(np.arange(len(words)), words.shape[1])
        fields = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
        document, word = (on_device(np.repeat(each, times)) for each in (documents, words.ravel()))
        return Tokens(**fields, documents=document, words=word)

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Counts:  # type: ignore[override]
        assert isinstance(model, Collapsible) and isinstance(data, Tokens) and data.words is not None
        labels = jax.random.randint(key, data.words.shape, 0, model.n_topics)
        return count(model, data, labels)

    def step(self, key: Key[Array, ""], model: Model, state: Counts, data: Data) -> tuple[Counts, Info]:  # type: ignore[override]
        assert isinstance(model, Collapsible) and isinstance(data, Tokens)

        def once(number: Array, state: Counts) -> Counts:
            return sweep(jax.random.fold_in(key, number), model, state, data)

        state = jax.lax.fori_loop(1, self.thin + 1, once, state)
        key_topics, key_shares = jax.random.split(jax.random.fold_in(key, 0))
        draws = {"topics": _draw(key_topics, _eta(model) + state.words)}
        local = {"proportions": _draw(key_shares, model.alpha[None] + state.documents)}
        return state, {"draws": draws, "log_joint": model.log_joint(draws, data, local=local)}


def count(model: Collapsible, data: Tokens, labels: Int[Array, " t"]) -> Counts:
    assert model.n_words is not None
    documents = jnp.zeros((data.weights.shape[0], model.n_topics)).at[data.documents, labels].add(1.0)
    return Counts(labels, documents, jnp.zeros((model.n_topics, model.n_words)).at[labels, data.words].add(1.0))


def sweep(key: Key[Array, ""], model: Collapsible, state: Counts, data: Tokens) -> Counts:
    """Draw the topic of every token in turn."""
    eta = _eta(model)
    whole = jnp.sum(eta, axis=1)

    def visit(carry: tuple[Array, Array, Array], part: Any) -> tuple[tuple[Array, Array, Array], Array]:
        documents, words, totals = carry
        label, document, word, noise = part
        documents, words = documents.at[document, label].add(-1.0), words.at[label, word].add(-1.0)
        totals = totals.at[label].add(-1.0)
        share = jnp.log(model.alpha + documents[document]) + jnp.log(eta[:, word] + words[:, word])
        fresh = jnp.argmax(share - jnp.log(whole + totals) + noise)
        documents, words = documents.at[document, fresh].add(1.0), words.at[fresh, word].add(1.0)
        return (documents, words, totals.at[fresh].add(1.0)), fresh

    noise = jax.random.gumbel(key, (state.labels.shape[0], model.n_topics))
    start = (state.documents, state.words, jnp.sum(state.words, axis=1))
    (documents, words, _), labels = jax.lax.scan(visit, start, (state.labels, data.documents, data.words, noise))
    return Counts(labels, documents, words)


def _eta(model: Collapsible) -> Float[Array, "k v"]:
    return jnp.broadcast_to(model.eta, (model.n_topics, model.n_words or 0))


def _draw(key: Key[Array, ""], concentration: Float[Array, "b k"]) -> Any:
    return Dirichlet.from_natural(DirichletVector(concentration - 1.0)).sample(key)
