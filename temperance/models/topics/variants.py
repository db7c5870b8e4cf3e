"""LDA with other priors of the proportions: structural topics, and the hierarchical Dirichlet process.

Structural topics: the shares of topics in a document depend on its covariates (Dirichlet-multinomial regression),

    λ_k ~ N(μ, S)   α_dk = exp(x_d · λ_k)   θ_d ~ Dirichlet(α_d)   z_dn ~ θ_d   w_dn ~ β_{z_dn}

(Mimno & McCallum, 2008). x_d is a row of the design matrix of a formula. The posterior of the coefficients λ_k is a
Normal block, that of θ_d a Dirichlet distribution, as in LDA, so LDA's engines are used. With a_dk = x_d · λ_k ~ N
under q,

    E log p(θ_d | λ) ≥ Σ_k (E e^a_dk − 1) E log θ_dk − Σ_k E log Γ(e^a_dk) + log Γ(Σ_k E e^a_dk),

because log Γ is convex: E log Γ(Σ α) ≥ log Γ(E Σ α). The other expectations are exact (e^a is log-normal; E log Γ(e^a)
is an integral over one number, by quadrature). So the bound is a true lower bound, and formulas can be compared by it.
A logistic-normal prior of θ_d would need a covariance of topics in each document, and another form of q(θ_d).

Hierarchical Dirichlet process: an endless supply of topics, of which the documents use as many as they need,

    v_k ~ Beta(1, γ)   π_k = v_k Π_{j<k} (1 − v_j)   θ_d ~ Dirichlet(c π)   β_k ~ Dirichlet(η)

(Teh, Jordan, Beal and Blei, 2006), cut off at `n_topics`. π is the block "document_prior" (`families/sticks.py`); all
else is LDA with α = c π, and uses LDA's engines, also for minibatches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..._arguments import check_count, number
from ...data import Corpus
from ...data.documents import Documents, corpus_of, find_rows
from ...data.formula import Design, Formula, complete_design, parse_formula
from ...errors import InvalidData, InvalidParameter, UnsupportedMethod
from ...families._family import Family
from ...families.concentration import ConcentrationVector
from ...families.dirichlet import Dirichlet, DirichletVector
from ...families.normal import Normal, NormalVector
from ...families.point import Point
from ...families.sticks import Sticks
from ...numerics.special import digamma, log_gamma
from .._about import Symmetry, Units, Words, one_set
from .._answers import Explaining, Mergeable
from .._blocks import Tempering, prior_terms
from .._data import Data
from .._model import Conditional, Means, Posterior
from . import LDA
from .heat import WithoutNormaliser
from .report import topic_weights
from .walk import Local

if TYPE_CHECKING:
    from ...inference.monte_carlo.effects import Effects


_INTERCEPT = 2.0  # prior standard deviation of the intercepts
_START = 1e-2  # variance of coefficients at the start of a search
_FEW, _MOST = 2**18, 20_000  # documents × words below which noise is as good a start; documents that a sampler sees


class StructuralTopics(LDA, Explaining):
    """`n_topics` topics whose shares in a document depend on its covariates.

    `n_topics` is the number of topics. `formula` says how the shares depend on covariates, in the notation of R:
    "~ party * year". The data are a pair of documents (whatever `tp.LDA`
    takes) and a frame or dictionary of columns, or a corpus with covariates (`corpus.with_covariates(columns)`).
    Coefficients are those of log α: their prior is N(log `document_prior`, 2²) for the intercept and N(0, `spread`²)
    for the others, numbers in units of their spread; the other `options` are those of `tp.LDA`.
    """

    formula: Formula = eqx.field(static=True, default=Formula("~ 1", ((),)))
    coding: Design | None = eqx.field(static=True, default=None)
    spread: float = eqx.field(static=True, default=1.0)

    def __init__(self, n_topics: int, formula: str, n_words: int | None = None, *, spread: float = 1.0, **options: Any):
        if options.get("learn"):
            raise InvalidParameter("learn is for tp.LDA: the coefficients of tp.StructuralTopics are always learned")
        number("a number above 0", lambda value: value > 0)("spread", spread)
        self.formula, self.coding, self.spread = parse_formula(formula), None, float(spread)
        super().__init__(n_topics, n_words, **options)

    def _prior(self, n_words: int) -> dict[str, Any]:
        prior = super()._prior(n_words)
        if self.coding is None:
            return prior
        names = self.coding.names
        sd = np.array([_INTERCEPT if name == "intercept" else self.spread for name in names])
        mean = np.zeros((self.n_topics, len(names)))
        mean[:, [name == "intercept" for name in names]] = np.log(np.asarray(self.alpha))[:, None]
        precision = np.broadcast_to(np.diag(1.0 / sd**2), (self.n_topics, len(names), len(names)))
        return prior | {"coefficients": Normal(mean, precision=precision)}

    # ---- the model --------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        return (("topics", "coefficients"),)

    @property
    def unconjugate(self) -> dict[str, bool]:
        return {"coefficients": True}

    def local_prior(self, x: Documents) -> dict[str, Any]:
        return {"proportions": Regressed(("coefficients",), self._design(x))}

    def concentration(self, m: Means, x: Documents | None = None) -> Float[Array, "*n k"]:
        """E α of each document of x; without x, E α of the average fitted document."""
        if x is not None:
            return Regressed(("coefficients",), self._design(x)).expected(m)
        return Regressed(("coefficients",), jnp.asarray(self._average())[None]).expected(m)[0]

    def document_part(self, m: Means, x: Documents, weights: Array, found: Local) -> tuple[Array, Means]:
        gamma, prior = found.gamma, self.local_prior(x)["proportions"]
        log_theta = digamma(gamma) - digamma(jnp.sum(gamma, axis=1))[:, None]
        theta = {"proportions": DirichletVector(log_theta)}

        def total(coefficients: NormalVector) -> tuple[Array, Array]:
            terms = prior_terms(prior, theta | {"coefficients": coefficients}, "proportions")
            return jnp.sum(weights * terms), terms

        (_, terms), message = jax.value_and_grad(total, has_aux=True)(m["coefficients"])
        entropy = Dirichlet.from_natural(DirichletVector(gamma - 1.0)).entropy()
        return found.evidence + terms + entropy, {"coefficients": message}

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Topics where a sampler of LDA leaves them, on the CPU; from noise if there are few words, or elsewhere."""
        start, x, n = super().initial(key, data), data.values, data.size
        many = n * x.width >= _FEW and self._engine() != "autodiff"
        if not many or jax.default_backend() != "cpu":
            return start
        eta = self.eta if self.eta.ndim == 2 else jnp.broadcast_to(self.eta, (1, self.n_words or 1))
        documents = (x.words[:n], x.counts[:n]) if x.rows is None else (x.rows[:n],)
        shape = jax.ShapeDtypeStruct((self.n_topics, self.n_words or 1), jnp.float64)
        given = (jax.random.key_data(key), self.alpha, eta, data.weights[:n], documents)
        topics = jax.pure_callback(_first_topics, shape, *given, vmap_method="sequential")
        blocks = start.blocks | {"topics": Dirichlet.from_natural(DirichletVector(topics - 1.0))}
        return Posterior(blocks, start.locals)

    def starting_priors(self) -> dict[str, Any]:
        """The start of the coefficients: close to the mean of their prior."""
        p = self.prior["coefficients"]
        precision = jnp.broadcast_to(jnp.eye(p.location.shape[-1]) / _START, p.precision.shape)
        return {"coefficients": p.with_natural(NormalVector(p.location / _START, precision))}

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Documents:
        """Documents with average covariates, because the model does not describe covariates."""
        design = jnp.broadcast_to(jnp.asarray(self._average())[None], (n, len(self._coding().names)))
        key_theta, key_rest = jax.random.split(key)
        theta = draws.get("proportions")
        if theta is None:
            theta = jax.random.dirichlet(key_theta, jnp.exp(design @ draws["coefficients"].T))
        return dataclasses.replace(super().simulate(key_rest, draws | {"proportions": theta}, n), design=design)

    @property
    def symmetry(self) -> Symmetry | None:
        axes = {"topics": (0,), "coefficients": (0,), "proportions": (1,)}
        known = {"topics": self.eta if self.eta.ndim == 2 else None, "coefficients": self.alpha}
        return one_set(self.n_topics, axes, known, compared=("topics",))

    # ---- data in, answers out ---------------------------------------------------------------------------

    def new_corpus(self, data: Any) -> Corpus:
        """Documents with their covariates, if any are given."""
        if isinstance(data, tuple) and len(data) == 2 and _are_columns(data[1]):
            return super().new_corpus(data[0]).with_covariates(data[1])
        return super().new_corpus(data)

    def complete(self, corpus: Any) -> Self:
        if corpus.covariates is None:
            raise InvalidData(
                "the documents have no covariates: give a pair of documents and a frame or dictionary of columns, "
                "or corpus.with_covariates(columns)"
            )
        known = self if self.coding is not None else self._with(coding=complete_design(self.formula, corpus.covariates))
        return super(StructuralTopics, known).complete(corpus)

    def documents(self, corpus: Corpus, host: bool, width: int, padded: bool | None = None) -> Documents:
        """The corpus for compiled code; documents without covariates are treated as average ones."""
        given = corpus.covariates
        if given is None:
            given = np.broadcast_to(self._average(), (len(corpus), len(self._coding().names)))
        design = given if isinstance(given, np.ndarray) else self._coding().matrix(given)
        # Columns of words cannot be saved with a fit, and the design holds what is needed of them.
        documents = super().documents(dataclasses.replace(corpus, covariates=None), host, width, padded)
        return dataclasses.replace(documents, design=np.ascontiguousarray(design))  # type: ignore[arg-type]

    def fitted_documents(self, data: Data) -> Corpus:
        corpus = corpus_of(data.values, data.size, self.n_words or 1)
        return dataclasses.replace(corpus, covariates=np.asarray(data.values.design)[: data.size])

    def as_collapsed(self) -> Self:
        raise UnsupportedMethod("collapsed updates are for tp.LDA, not for StructuralTopics; use tp.VB() or tp.SVI()")

    @property
    def tempering(self) -> Tempering:
        return WithoutNormaliser(self)

    def effects(self, q: Posterior, data: Data, **options: Any) -> Effects:
        from ...inference.monte_carlo.effects import topic_effects

        return topic_effects(self, q, data, **options)

    @property
    def units(self) -> Units:
        return Coded(self._coding().to_user, self.n_topics)

    @property
    def words(self) -> Words:
        inherited = super().words
        axes = {**inherited.axes, "coefficients": ("topic", "coefficient")}
        coding = {} if self.coding is None else {"coefficient": self.coding.names}
        return inherited._replace(axes=axes, labels={**inherited.labels, **coding})

    def _coding(self) -> Design:
        assert self.coding is not None, "prepare completes the model"
        return self.coding

    def _design(self, x: Documents) -> Float[Array, "n p"]:
        assert x.design is not None
        return x.design

    def _average(self) -> np.ndarray:
        """The row of a document with every number at its mean and every category at its most frequent level."""
        coding = self._coding()
        return coding.matrix({covariate.name: [covariate.usual] for covariate in coding.covariates} or [()])[0]


def _first_topics(seed: Array, alpha: Array, eta: Array, weights: Array, documents: tuple[Array, ...]) -> np.ndarray:
    """From documents at equal distances, if there are many."""
    from ...kernels.topics_entries import padded_rows, rows_of_corpus
    from ...kernels.topics_start import first_topics

    some = np.linspace(0, len(weights) - 1, min(len(weights), _MOST)).astype(np.int64)
    own, (words, *counts) = np.asarray(weights)[some], [np.asarray(part)[some] for part in documents]
    find = (padded_rows, (words, *counts)) if counts else (rows_of_corpus, find_rows(words))
    return first_topics(find[0](*find[1], own, own, own), np.asarray(alpha), np.asarray(eta), np.asarray(seed))


def _are_columns(value: Any) -> bool:
    """Whether `value` is a frame or a dictionary of columns (and not a dictionary from words to numbers)."""
    if isinstance(value, Mapping):
        return not any(isinstance(column, int | np.integer) for column in value.values())
    return hasattr(value, "columns") and not hasattr(value, "tocsr")


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LEAST = 1e-8  # least variance of a, because derivatives of sums over nodes need one
_LARGEST = 50.0  # largest exponent


class Coded(Units):
    """Units of coefficients for columns that were centred, scaled and made orthogonal."""

    matrix: np.ndarray  # from the model's coefficients to those of the given columns
    n_topics: int = eqx.field(static=True)

    def to_user(self, blocks: dict[str, Family]) -> dict[str, Family]:
        q, matrix = blocks["coefficients"], jnp.asarray(self.matrix)
        inner = q.inner if isinstance(q, Point) else q
        if not isinstance(inner, Normal):
            return blocks
        moved = Normal(inner.location @ matrix.T, matrix @ inner.covariance @ matrix.T)
        return blocks | {"coefficients": Point(moved) if isinstance(q, Point) else moved}

    def draws_to_user(self, draws: dict[str, Any]) -> dict[str, Any]:
        return draws | {"coefficients": draws["coefficients"] @ jnp.asarray(self.matrix).T}

    @property
    def log_stretch(self) -> float:
        return self.n_topics * float(np.linalg.slogdet(self.matrix)[1])


class Regressed(Conditional):
    """p(θ_d | λ) = Dirichlet(exp(λ x_d)), a row for each document."""

    parents: tuple[str, ...] = eqx.field(static=True)
    design: Float[Array, "n p"]

    def moments(self, m: Means) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """Mean and variance of a = x · λ_k, for each document and topic."""
        coefficients = m[self.parents[0]]
        mean = self.design @ coefficients.linear.T
        # `precision` of a Normal's statistics is −½ E[λ λᵀ].
        square = -2.0 * jnp.einsum("np,kpq,nq->nk", self.design, coefficients.precision, self.design)
        return mean, jnp.maximum(square - jnp.square(mean), _LEAST)

    def expected(self, m: Means) -> Float[Array, "n k"]:
        """E α of each document and topic."""
        mean, variance = self.moments(m)
        return jnp.exp(jnp.minimum(mean + 0.5 * variance, _LARGEST))

    def natural(self, m: Means) -> DirichletVector:
        return DirichletVector(self.expected(m) - 1.0)

    def log_normaliser(self, m: Means) -> Float[Array, " n"]:
        """An upper bound on the expected log normaliser."""
        mean, variance = self.moments(m)

        def node(total: Array, here: tuple[Array, Array]) -> tuple[Array, None]:
            place, weight = here
            alpha = jnp.exp(jnp.minimum(mean + jnp.sqrt(variance) * place, _LARGEST))
            return total + weight * jnp.sum(log_gamma(alpha), axis=1), None

        start = jnp.zeros(mean.shape[0])
        each = jax.lax.scan(node, start, (jnp.asarray(_NODES), jnp.asarray(_WEIGHTS)))[0]
        return each - log_gamma(jnp.sum(self.expected(m), axis=1))

    def family(self, natural: DirichletVector) -> Dirichlet:
        return Dirichlet.from_natural(natural)


# ---- a hierarchical Dirichlet process ----------------------------------------------------------------------


_TOPIC_PRIOR = 0.1  # equal for every truncation, so that topics beyond those in use change nothing
_EMPTY = 0.01  # n · α of an empty topic with n documents; sweeps alone would reach it slowly
_EQUAL = 1e6  # documents with equal shares that a start counts as


class HDP(LDA, Mergeable):
    """LDA that chooses its number of topics, up to `n_topics`.

    `n_topics` is the largest number of topics: give more than you expect. `concentration` is γ: if it is large, many
    topics share the documents. `document_concentration` is c: if it is large, documents are more alike. `topic_prior`
    is η, by default 0.1. The other `options` are those of `tp.LDA`.
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
        """The start of the shares: all equal."""
        equal = ConcentrationVector(jnp.zeros(self.n_topics), jnp.asarray(_EQUAL))
        return {"document_prior": self.prior["document_prior"].with_natural(equal)}

    @property
    def symmetry(self) -> None:
        """None: pieces are broken off one after the other, so their order matters."""
        return None

    def merged(self, q: Posterior, data: Data, share: float) -> Posterior | None:
        """The posterior after merging pairs of topics with the most similar words, each topic with at most one
        other."""
        from scipy.special import psi

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
        log_theta = psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
        shares = ConcentrationVector(jnp.asarray(weights @ log_theta), jnp.asarray(weights.sum()))
        blocks = {
            "topics": Dirichlet.from_natural(DirichletVector(jnp.asarray(lam - 1.0))),
            "document_prior": q.blocks["document_prior"].with_natural(shares),
        }
        return Posterior(blocks, {"proportions": Dirichlet.from_natural(DirichletVector(jnp.asarray(gamma - 1.0)))})

    def used(self, q: Posterior) -> np.ndarray:
        """Which topics hold at least one expected token."""
        tokens = (topic_weights(q) - np.asarray(self.eta)).sum(axis=1)
        return (tokens >= 1.0) | (tokens == tokens.max())

    def as_collapsed(self) -> LDA:  # type: ignore[override]
        raise UnsupportedMethod("collapsed updates are for tp.LDA, not for HDP; use tp.VB() or tp.SVI()")

    @property
    def tempering(self) -> Tempering:
        return WithoutNormaliser(self)
