"""The hierarchical Dirichlet process: LDA whose documents share an endless supply of topics, as many as they need.

    v_k ~ Beta(1, γ)   π_k = v_k Π_{j<k} (1 − v_j)   θ_d ~ Dirichlet(c π)   β_k ~ Dirichlet(η)   z_dn ~ θ_d   w_dn ~ β_z

(Teh, Jordan, Beal and Blei, 2006), cut off at `n_topics`. π is the block "document_prior" (`sticks.py`); all else is
LDA with α = c π, whose engines serve, in minibatches too.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma

from ..._arguments import check_count, number
from ...errors import InvalidParameter, UnsupportedMethod
from ...families.concentration import ConcentrationVector
from ...families.dirichlet import Dirichlet, DirichletVector
from ...families.sticks import Sticks
from .._answers import Mergeable
from .._data import Data
from .._model import Posterior
from .._normaliser import Normaliser
from . import LDA

_TOPIC_PRIOR = 0.1  # the same for every truncation: topics beyond those in use then change nothing
_EMPTY = 0.01  # α of an empty topic in one of n documents, times n: it gets there by itself, but in many sweeps
_START = 1e6  # documents with equal shares that a search starts from


class HDP(LDA, Mergeable):
    """LDA that chooses its number of topics, up to `n_topics`.

    `concentration` is γ: with a large one many topics share the documents. `document_concentration` is c: with a large
    one documents are more alike. `topic_prior` is 0.1 unless given; the other `options` are those of `tp.LDA`.
    """

    concentrations: tuple[float, float] = eqx.field(static=True, default=(1.0, 1.0))  # γ, c

    def __init__(
        self,
        n_topics: int,
        n_words: int | None = None,
        *,
        concentration: float = 1.0,
        document_concentration: float = 1.0,
        **options: Any,
    ):
        for name in ("learn", "document_prior"):
            if options.get(name):
                raise InvalidParameter(f"{name} is for tp.LDA: tp.HDP always learns the shares of topics")
        if check_count("n_topics", n_topics) < 2:
            raise InvalidParameter(f"n_topics must be at least 2 for tp.HDP, got {n_topics}")
        positive = number("a number above 0", lambda value: value > 0)
        positive("concentration", concentration)
        positive("document_concentration", document_concentration)
        self.concentrations = (float(concentration), float(document_concentration))
        prior = options.pop("topic_prior", None)
        prior = _TOPIC_PRIOR if prior is None else prior
        super().__init__(
            n_topics, n_words, document_prior=document_concentration / n_topics, topic_prior=prior, **options
        )

    def _prior(self, n_words: int) -> dict[str, Any]:
        return super()._prior(n_words) | {"document_prior": Sticks(self.n_topics, *self.concentrations)}

    def starting_priors(self) -> dict[str, Any]:
        """Equal shares."""
        equal = ConcentrationVector(jnp.zeros(self.n_topics), jnp.asarray(_START))
        return {"document_prior": self.prior["document_prior"].with_natural(equal)}

    @property
    def symmetry(self) -> None:
        """Pieces are broken off one after the other: their order counts."""
        return None

    def merged(self, q: Posterior, data: Data, share: float) -> Posterior | None:
        """Topics with the most similar words, each with one other."""
        topics: Any = q.blocks["topics"]
        lam, gamma = np.array(topics.concentration), np.array(q.locals["proportions"].concentration)  # type: ignore[attr-defined]
        eta = np.broadcast_to(np.asarray(self.eta), lam.shape)
        weights = np.asarray(data.weights)
        here, least = np.flatnonzero((lam - eta).sum(axis=1) >= 1.0), _EMPTY / weights.sum()
        root = np.sqrt(lam[here] / lam[here].sum(axis=1, keepdims=True))
        alike = np.triu(root @ root.T, 1)
        if (pairs := int(share * (len(here) // 2))) < 1:
            return None
        for _ in range(pairs):
            first, second = np.unravel_index(np.argmax(alike), alike.shape)
            i, j = here[first], here[second]
            alike[[first, second]], alike[:, [first, second]] = -1.0, -1.0
            lam[i], lam[j] = lam[i] + lam[j] - eta[j], eta[j]
            gamma[:, i], gamma[:, j] = gamma[:, i] + gamma[:, j], 0.0
        gamma[:, (lam - eta).sum(axis=1) < 1.0] = least
        log_theta = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
        shares = ConcentrationVector(jnp.asarray(weights @ log_theta), jnp.asarray(weights.sum()))
        blocks = {
            "topics": Dirichlet.from_natural(DirichletVector(jnp.asarray(lam - 1.0))),
            "document_prior": q.blocks["document_prior"].with_natural(shares),
        }
        return Posterior(blocks, {"proportions": Dirichlet.from_natural(DirichletVector(jnp.asarray(gamma - 1.0)))})

    def occupied(self, q: Posterior, data: Data) -> int:
        """How many topics hold an expected token or more."""
        return int(np.sum(self.held(q, data)[0] >= 1.0))

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The topics that hold an expected token or more."""
        return {name: values[: max(1, self.occupied(q, data))] for name, values in super().table(q, data).items()}

    def as_collapsed(self) -> LDA:  # type: ignore[override]
        raise UnsupportedMethod("collapsed updates are for tp.LDA, not for HDP; use tp.VB() or tp.SVI()")

    def log_tempered_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        raise UnsupportedMethod("tp.VT is for tp.LDA, not for HDP; use tp.Annealed or tp.VB")
