"""Latent Dirichlet allocation: documents as mixtures of topics, topics as distributions over words.

    β_k ~ Dirichlet(η)   θ_d ~ Dirichlet(α)   z_dn ~ θ_d   w_dn ~ β_{z_dn}

A datum is a document, a bag of words. The topics β are the global block, the proportions θ_d a local block, and the
topics z of the tokens are summed out. Temperature acts on p(w | z) and p(z | θ), never on p(θ_d). The evidence is that
of the tokens in their order, without a multinomial coefficient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...data import Corpus, as_corpus, as_weights
from ...data.documents import Documents, as_documents, corpus_of, given_documents
from ...data.grouping import Grouping
from ...data.memory import require_memory
from ...data.seeds import Seeds, parse_seeds, seeded_prior
from ...data.tokenise import Tokeniser
from ...errors import InvalidData, InvalidParameter
from ...families.concentration import Concentration, ConcentrationVector
from ...families.dirichlet import Dirichlet, DirichletVector
from ...families.point import Point
from ...numerics.engines import default_engine
from ...numerics.place import on_device
from .._about import TOPIC, Symmetry, Words, one_set
from .._answers import Collapsible, Holding, Predicting, Topical, Transforming
from .._blocks import Tempering
from .._data import Data, RowAccess, Stochastic, bucket, make_data
from .._derive import OwnLocals
from .._model import Conditional, Means, Posterior, Powers
from .heat import TopicTempering
from .report import LEAST, TopicsBy, by_number, mean_topics, names, proportions, shares_by, top_words, topic_weights
from .walk import Local, document_terms, local_step

_LONG = 10_000  # tokens of a document above which its counts are drawn instead of its tokens
_LEARNED = ("document_prior", "topic_prior")


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words, how texts are read into them, and what was left out; static in compiled code, and so made quick to
    compare."""

    words: tuple[str, ...]
    tokeniser: Tokeniser | None = None
    report: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return False
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("words", "tokeniser", "report"))
        return all(mine is theirs or mine == theirs for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash((len(self.words), self.words[:1], self.words[-1:]))


class LDA(Topical, Holding, Transforming, Predicting, OwnLocals, Collapsible):
    """Latent Dirichlet allocation with `n_topics` topics over `n_words` words (by default the words of the data).

    `n_topics` is the number of topics. `n_words` is the size of the vocabulary. `document_prior` is the concentration α
    of a document's proportions (a scalar, or one value per topic), `topic_prior` that of a topic's words, η (a scalar,
    or one value per word); both are 1/n_topics unless given.
    Those named in `learn` are learned, starting from these values: α becomes one number per topic, η one for all words.
    `seeds` are words that topics should or should not have: {0: ["war", "army", "-tax"], 1: {"tax": 50}}. `vocabulary`
    is the words as strings, by default the corpus's own. `fractional` allows counts that are not whole numbers;
    `precision="single"` makes the local step in float32. `length` is the number of words of a simulated document.

    The local step of a document ends after the method's number of iterations, or when its concentrations change by less
    than `local_tol` on average. `engine` chooses its implementation: "host" (Numba, for the CPU), "device" (JAX, padded
    documents; on an NVIDIA GPU a kernel), "autodiff" (derived from `log_evidence`), or "auto".
    """

    prior: dict[str, Any]
    alpha: Float[Array, " k"]
    eta: Float[Array, "..."]
    n_topics: int = eqx.field(static=True)
    n_words: int | None = eqx.field(static=True)
    vocabulary: Vocabulary | None = eqx.field(static=True, repr=False)
    learn: tuple[str, ...] = eqx.field(static=True)
    fractional: bool = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    local_tol: float = eqx.field(static=True)
    engine: str = eqx.field(static=True)
    length: int = eqx.field(static=True)  # tokens of a simulated document
    collapsed: bool = eqx.field(static=True)  # whether documents are inferred by collapsed updates
    seeds: Seeds = eqx.field(static=True, default=())  # included in η once there are data

    def __init__(
        self,
        n_topics: int,
        n_words: int | None = None,
        *,
        document_prior: ArrayLike | None = None,
        topic_prior: ArrayLike | None = None,
        learn: str | Sequence[str] = (),
        vocabulary: Sequence[str] | None = None,
        seeds: Any = None,
        fractional: bool = False,
        local_tol: float = 1e-3,
        precision: str = "double",
        engine: str = "auto",
        length: int = 100,
    ):
        self.n_topics = check_count("n_topics", n_topics)
        self.vocabulary = None if vocabulary is None else Vocabulary(tuple(vocabulary))
        if n_words is None and vocabulary is not None:
            n_words = len(tuple(vocabulary))
        self.n_words = None if n_words is None else check_count("n_words", n_words)
        default = 1.0 / self.n_topics
        alpha = _concentration("document_prior", default if document_prior is None else document_prior)
        if alpha.shape not in ((), (self.n_topics,)):
            raise InvalidParameter(
                f"document_prior must be one number or {self.n_topics} of them, got shape {alpha.shape}"
            )
        self.alpha = on_device(np.broadcast_to(np.asarray(alpha), (self.n_topics,)))
        self.eta = _concentration("topic_prior", default if topic_prior is None else topic_prior)
        self.learn = (learn,) if isinstance(learn, str) else tuple(learn)
        for name in self.learn:
            check_choice("learn", name, dict.fromkeys(_LEARNED))
        if "topic_prior" in self.learn and self.eta.ndim > 0:
            raise InvalidParameter("topic_prior must be one number to be learned")
        self.seeds = parse_seeds(seeds, self.n_topics)
        if self.seeds and (self.eta.ndim == 2 or "topic_prior" in self.learn):
            raise InvalidParameter("seeds need a topic_prior that is one number or one for each word, and not learned")
        self.fractional = fractional
        self.single = check_choice("precision", precision, {"double": False, "single": True})
        if not local_tol >= 0:
            raise InvalidParameter(f"local_tol must be at least 0, got {local_tol!r}")
        self.local_tol = float(local_tol)
        self.engine = check_choice("engine", engine, {name: name for name in _ENGINES})
        self.length = check_count("length", length)
        self.collapsed = False
        self.prior = {} if self.n_words is None else self._prior(self.n_words)

    def _prior(self, n_words: int) -> dict[str, Any]:
        shape = (self.n_topics, n_words)
        if self.eta.ndim > 0 and self.eta.shape not in ((n_words,), shape):
            raise InvalidParameter(f"topic_prior must be one number or {n_words} of them, got shape {self.eta.shape}")
        prior: dict[str, Any] = {"topics": Dirichlet(np.broadcast_to(np.asarray(self.eta), shape))}
        if "document_prior" in self.learn:
            prior["document_prior"] = Point(Concentration(self.alpha))
        if "topic_prior" in self.learn:
            prior["topics"] = Symmetric(("topic_prior",), shape)
            prior["topic_prior"] = Point(Concentration(self.eta[None], size=n_words))
        return prior

    # ---- the model --------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        # α depends on the topics only through θ, which is held fixed; η depends on them directly.
        together = tuple(name for name in ("topics", "document_prior") if name in self.prior)
        return (together, ("topic_prior",)) if "topic_prior" in self.prior else (together,)

    @property
    def apart(self) -> tuple[str, ...]:
        return ("topic_prior",)

    @property
    def local_groups(self) -> tuple[tuple[str, ...], ...]:
        return (("proportions",),)

    def local_prior(self, x: Documents) -> dict[str, Any]:
        shape = (x.lengths.shape[0], self.n_topics)
        if "document_prior" in self.prior:
            return {"proportions": Symmetric(("document_prior",), shape)}
        natural = DirichletVector(jnp.broadcast_to((self.alpha - 1.0)[None], shape))
        return {"proportions": Dirichlet.from_natural(natural)}

    def start_local(self, m: Means, x: Documents) -> dict[str, Any]:
        """Proportions as if each token were shared equally by all topics."""
        gamma = jnp.atleast_2d(self.concentration(m, x)) + x.lengths[:, None] / self.n_topics
        return {"proportions": Dirichlet.from_natural(DirichletVector(gamma - 1.0))}

    def concentration(self, m: Means, x: Documents | None = None) -> Float[Array, "*n k"]:
        """α, given or learned: one row for all documents, or a row for each document of x."""
        return m["document_prior"].concentration if "document_prior" in m else self.alpha

    def log_evidence(
        self, m: Means, x: Documents, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        """Σ_v n_dv log Σ_k exp{E log θ_dk + E log β_kv}; with a key, one multinomial draw of each n_dv."""
        log_theta, log_beta = m["proportions"].log, m["topics"].log
        words, counts = x.padded()
        logits = _each(powers.latent) * log_theta[:, None] + _each(powers.observation) * log_beta.T[words]
        value = jnp.sum(counts * jax.nn.logsumexp(logits, axis=-1), axis=-1)
        if key is None:
            return value
        fixed = jax.lax.stop_gradient(logits)
        drawn = jax.random.multinomial(key, counts, jax.nn.softmax(fixed, axis=-1))
        return jax.lax.stop_gradient(value) + jnp.sum(drawn * (logits - fixed), axis=(1, 2))

    def document_part(self, m: Means, x: Documents, weights: Array, found: Local) -> tuple[Array, Means]:
        """The bound of each document after its local step, and messages to the blocks on which its proportions
        depend."""
        if (prior := m.get("document_prior")) is None:
            return document_terms(found, self.alpha)[0], {}
        value, log_theta = document_terms(found, prior.concentration, prior.minus_log_normaliser)
        return value, {"document_prior": ConcentrationVector(weights @ log_theta, jnp.sum(weights))}

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Documents:
        """n documents of `length` tokens; with draws of "proportions", documents that have these."""
        key_theta, key_z, key_w = jax.random.split(key, 3)
        theta = draws.get("proportions")
        if theta is None:
            theta = jax.random.dirichlet(key_theta, draws.get("document_prior", self.alpha), (n,))
        if self.length > _LONG:  # memory may not hold its tokens one by one
            shares = theta @ draws["topics"]
            counts = jax.random.multinomial(key_w, jnp.full(n, float(self.length)), shares)
            return given_documents(jnp.broadcast_to(jnp.arange(shares.shape[1], dtype=jnp.int32), shares.shape), counts)
        z = jax.random.categorical(key_z, jnp.log(theta)[:, None], shape=(n, self.length))
        words = jax.random.categorical(key_w, jnp.log(draws["topics"])[z])
        return given_documents(words.astype(jnp.int32), jnp.ones((n, self.length)))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """Topics as if each had seen every word about once, with noise of one tenth."""
        assert self.n_words is not None
        noise = 1.0 + 0.1 * jnp.clip(jax.random.normal(key, (self.n_topics, self.n_words)), -5.0, 5.0)
        if self.seeds:
            noise = noise * self.eta / jnp.median(self.eta, axis=0, keepdims=True)
        blocks: dict[str, Any] = {"topics": Dirichlet.from_natural(DirichletVector(noise - 1.0))}
        blocks |= self.starting_priors()
        m = {name: blocks[name].mean() for name in blocks if name != "topics"}
        return Posterior(blocks, self.initial_local(m, data.values))

    def starting_priors(self) -> dict[str, Any]:
        """The start of the blocks on which α or η depends."""
        return {name: self.prior[name] for name in _LEARNED if name in self.prior}

    @property
    def words(self) -> Words:
        labels = {"word": self.vocabulary.words} if self.vocabulary is not None else {}
        return TOPIC.of(self.n_topics, {"topics": ("topic", "word"), "x": ("document", "word")}, labels)

    # ---- exchangeable topics ----------------------------------------------------------------------------

    @property
    def symmetry(self) -> Symmetry | None:
        axes = {"topics": (0,), "document_prior": (0,), "proportions": (1,)}
        # If α is learned, only its start may distinguish topics.
        known = {"topics": self.eta if self.eta.ndim == 2 else None}
        known |= {} if "document_prior" in self.learn else {"document_prior": self.alpha}
        return one_set(self.n_topics, axes, known, compared=("topics",))

    def held(self, q: Posterior, data: Data) -> tuple[np.ndarray, ...]:
        """The expected number of tokens of each topic."""
        topics = np.asarray(q.blocks["topics"].concentration)  # type: ignore[attr-defined]
        return ((topics - np.asarray(self.eta)).sum(axis=1),)

    def used(self, q: Posterior) -> np.ndarray:
        """Which topics are reported."""
        return np.ones(self.n_topics, bool)

    def order(self, q: Posterior, data: Data) -> np.ndarray:
        """The topics in use; those with seeds come first, in the user's numbering."""
        return by_number(self, q)

    # ---- parts and engines ------------------------------------------------------------------------------

    @property
    def tempering(self) -> Tempering:
        return TopicTempering(self)

    @property
    def rows(self) -> RowAccess:
        return DocumentRows(self)

    @property
    def on_host(self) -> bool:
        """Whether the local step is made by the host's kernel, which uses all cores by itself, so that one device is
        enough."""
        return self._engine() == "host"

    def _engine(self) -> str:
        if self.engine != "auto":
            return self.engine
        if default_engine() == "plain":
            return "autodiff"
        return "host" if jax.default_backend() == "cpu" else "device"

    # ---- data in, answers out ---------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        corpus = self.new_corpus(data)
        if corpus.n_tokens == 0:
            raise InvalidData(f"all {len(corpus)} documents are empty")
        require_memory(32 * self.n_topics * corpus.n_words, f"{self.n_topics} topics over {corpus.n_words} words")
        model = self.complete(corpus)
        width = int(corpus.entries.max(initial=1))
        if self._engine() == "host" and self.engine == "auto" and _is_small(corpus, width, self.n_topics):
            # Padded documents are done before the kernels would have been compiled. Few widths mean few programs.
            model, width = model._with(engine="device"), -(-bucket(width) // 8) * 8
        documents = model.documents(corpus, model.on_host, width)
        if model.on_host:  # arrays of the results are rows × topics, and the kernel sorts the entries of the rows
            entries = max(1, int(corpus.entries.sum()) // len(corpus))
            block = max(_ROWS_ON_HOST, min(2**23 // (self.n_topics * 8), 2**21 // entries))
        else:  # blocks that stay in a processor's cache; an accelerator needs one large block
            room = 2**26 if jax.default_backend() == "cpu" else 2**33
            block = max(16, room // (width * self.n_topics * 8))
        return model, make_data(documents, as_weights(weights, len(corpus)), block, spread=not model.on_host)

    def complete(self, corpus: Any) -> Self:
        """The model with the sizes, words and document length of a corpus."""
        vocabulary = self.vocabulary
        if vocabulary is None and corpus.vocabulary is not None:
            read = (getattr(corpus, "tokeniser", None), getattr(corpus, "report", ()))  # a corpus in shards has neither
            vocabulary = Vocabulary(corpus.vocabulary, *read)
        length = max(1, round(corpus.n_tokens / len(corpus)))
        known = with_seeds(self, corpus, None if vocabulary is None else vocabulary.words)
        prior = known._prior(corpus.n_words)
        return known._with(n_words=corpus.n_words, vocabulary=vocabulary, length=length, prior=prior)

    def as_collapsed(self) -> Self:
        """The model in the form that CVB0 uses."""
        return self._with(collapsed=True)

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments with which `as_corpus` reads documents for this model."""
        words = None if self.vocabulary is None else self.vocabulary.words
        tokeniser = None if self.vocabulary is None else self.vocabulary.tokeniser
        return {"vocabulary": words, "n_words": self.n_words, "fractional": self.fractional, "tokeniser": tokeniser}

    def new_corpus(self, data: Any) -> Corpus:
        """Documents over the words of the model, if it has words already."""
        return as_corpus(data, **self.reading)

    def new_rows(self, data: Any) -> Documents:
        corpus = self.new_corpus(data)
        # Widths are powers of two, because few shapes mean few compilations.
        width = 1 << (int(corpus.entries.max(initial=1)) - 1).bit_length()
        host = self._engine() == "host"
        return self.documents(corpus, host, width, not host)

    def documents(self, corpus: Corpus, host: bool, width: int, padded: bool | None = None) -> Documents:
        return as_documents(corpus, host, width, padded)

    def log_predictive(self, q: Posterior, x: Documents) -> Float[Array, " n"]:
        """A lower bound on log p(document | mean topics), because exact integrals over the proportions do not exist."""
        topics: Any = q.blocks["topics"]
        if isinstance(topics, Point):
            log_beta = jnp.log(jnp.maximum(topics.mode(), LEAST))
        else:
            lam = topics.concentration
            log_beta = jnp.log(lam) - jnp.log(jnp.sum(lam, axis=1, keepdims=True))
        found, m = self.infer(q.blocks, x, log_beta)
        return self.document_part(m, x, jnp.ones_like(x.lengths), found)[0]

    def infer(self, blocks: dict[str, Any], x: Documents, log_beta: Float[Array, "k v"]) -> tuple[Local, Means]:
        """The proportions of new documents, iterated to convergence, and the statistics of the blocks on which they
        depend."""
        m = {name: blocks[name].mean() for name in blocks if name != "topics"}
        alpha, weights = self.concentration(m, x), jnp.ones(x.lengths.shape[0])
        gamma = self.initial_local(m, x)["proportions"].concentration
        engine = "device" if self._engine() == "autodiff" else self._engine()
        return local_step(log_beta, x, weights, alpha, gamma, (1.0, 1.0), 200, 1e-4, engine, self.single), m

    def topics(self, q: Posterior, n_words: int = 10, relevance: float = 1.0) -> list[list[tuple[str | int, float]]]:
        """The most telling words of each topic with their probabilities; with `relevance` 1 the most probable."""
        return top_words(self, q, n_words, relevance)

    def distributions(self, q: Posterior) -> Float[np.ndarray, "k v"]:
        return mean_topics(q)

    def shares_by(self, q: Posterior, documents: Any, groups: Grouping, level: float) -> TopicsBy:
        return shares_by(self, q, documents, groups, level)

    def fitted_documents(self, data: Data) -> Corpus:
        return corpus_of(data.values, data.size, self.n_words or 1)

    def transform(self, q: Posterior, documents: Any) -> Float[np.ndarray, "n k"]:
        """The expected proportions of topics in each document; an empty one has those of the prior."""
        return proportions(self, q, self.new_corpus(documents))

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The topics in use, by their numbers."""
        weight, order, words = topic_weights(q).sum(axis=1), self.order(q, data), names(self, q, 6)
        return {
            "topic": [self.words.label(place) for place in range(len(order))],
            "share": list(weight[order] / weight.sum()),
            "words": [words[k] for k in order],
        }

    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        """n documents of the data's mean length, as counts (n, words)."""

        def one(key: Key[Array, ""]) -> Array:
            key_draw, key_document = jax.random.split(key)
            draws = {name: block.sample(key_draw) for name, block in q.blocks.items()}
            document = self.simulate(key_document, draws, 1)
            words, counts = document.padded()
            return jnp.zeros(self.n_words).at[words[0]].add(counts[0])

        return jax.lax.map(one, jax.random.split(key, n))

    def notes(self, data: Data) -> list[str]:
        notes = [] if self.vocabulary is None else list(self.vocabulary.report)
        empty = int(np.sum(np.asarray(data.values.lengths)[: data.size] == 0))
        verb = "document is" if empty == 1 else "documents are"
        said = not empty or any(" empty: " in note for note in notes)
        return notes if said else [*notes, f"{empty} {verb} empty: their topics are those of the prior"]

    @property
    def rounding(self) -> float:
        return 1e-5 if self.single else 1e-9


class DocumentRows(RowAccess):
    """Access to rows that are documents, with the usual batches and step sizes of topic models; few local steps are
    better than many."""

    stochastic: ClassVar[Stochastic] = Stochastic(batch_size=256, passes=10.0, step_size=(10.0, 0.7), local_steps=20)
    uses_all_cores: ClassVar[bool] = True


_ENGINES = ("auto", "host", "device", "autodiff")
_ROWS_ON_HOST = 2**14  # fewest documents per call of the kernel, because each call exponentiates the topics
_SMALL = 2**20  # documents × width × topics up to which padded documents take no longer than the kernels


def _is_small(corpus: Any, width: int, topics: int) -> bool:
    from ...kernels.topics_small import is_small

    entries = int(corpus.entries.sum())
    return is_small(entries, topics) and len(corpus) * width * topics <= _SMALL


def _each(power: ArrayLike) -> ArrayLike:
    """A power shaped so that it can multiply an array (document, word, topic)."""
    return power[:, None, None] if jnp.ndim(power) == 1 else power  # type: ignore[index]


def _concentration(name: str, value: ArrayLike) -> Float[Array, "..."]:
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidParameter(f"{name} must be finite and positive, got {value!r}")
    # The natural parameter is the concentration minus one. In double precision a concentration below 1e-12 would
    # vanish in that difference, and one above 1e12 would swallow the counts that are added to it.
    if not ((array >= 1e-12) & (array <= 1e12)).all():
        raise InvalidParameter(f"{name} must be between 1e-12 and 1e12, got {value!r}")
    return on_device(array)


class Symmetric(Conditional):
    """p(θ | α) = Dirichlet(α), with α a learned block; `shape` is that of all the θ."""

    parents: tuple[str, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def natural(self, m: Means) -> DirichletVector:
        alpha = m[self.parents[0]].concentration
        return DirichletVector(jnp.broadcast_to((alpha - 1.0)[None], self.shape))

    def log_normaliser(self, m: Means) -> Float[Array, " n"]:
        return jnp.broadcast_to(-m[self.parents[0]].minus_log_normaliser, self.shape[:1])

    def family(self, natural: DirichletVector) -> Dirichlet:
        return Dirichlet.from_natural(natural)


def with_seeds(model: LDA, corpus: Any, words: tuple[str, ...] | None) -> Any:
    """The model with its seeds in η, unless they are there already."""
    if not model.seeds or model.eta.ndim == 2:
        return model
    return model._with(eta=on_device(seeded_prior(model.seeds, np.asarray(model.eta), model.n_topics, corpus, words)))
