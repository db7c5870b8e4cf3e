"""Collapsed variational Bayes to zeroth order (CVB0): for topic models proportions and topics are integrated out.

(For mixtures and chains see `collapsed_shares.py`.)

There remain responsibilities φ, one distribution over topics for each word of each document, refreshed in turn from the
counts of all other words (`kernels/topics_collapsed.py`). The stochastic form stores no φ: it takes the steps of SVI
with collapsed responsibilities of a minibatch.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from ...data.documents import find_rows
from ...errors import InvalidParameter, UnsupportedMethod
from ...families.concentration import Concentration
from ...families.dirichlet import Dirichlet, DirichletVector
from ...families.point import Point
from ...kernels import RunEngine
from ...models import Data, Model, Posterior, Way
from ...models._answers import Collapsible, summed
from ...models._model import means
from ...numerics.place import on_device
from ...programs import program
from .._method import Info, Method, Result, Run
from ..collapsed import require_collapsible
from ..streamed import Streamed
from .collapsed_shares import CollapsedShares
from .minibatches import Batches, rows_of_step
from .stochastic import SVI, Walk, global_terms

_TOGETHER = 64  # minibatches per call
_FINAL_LOCAL_STEPS = 20  # local steps for the bound
_FEW, _LAST = 40, 10  # fewest passes with a sampler; passes after the sampler
_TOKENS = 8  # most tokens per entry, on average, for which topics are sampled


class Entries(Data):
    """A corpus in the kernels' layout: the entries of each document sorted by groups of words."""

    bounds: Int[Array, "d g 2"] | None = None
    words: Int[Array, " e"] | None = None
    counts: Float[Array, " e"] | None = None
    plan: Int[Array, " 3"] | None = None  # passes in all, passes per report, and sweeps of the sampler before them
    tol: Float[Array, ""] | None = None


class Assignments(NamedTuple):
    """The state of one restart."""

    phi: Float[Array, "e k"]  # from the first pass on
    document_prior: Float[Array, " k"]
    topic_prior: Float[Array, "_ v"]
    passes: Int[Array, ""]
    score: Float[Array, ""]
    seed: UInt32[Array, " s"]


@dataclasses.dataclass(frozen=True)
class CVB0(Method):
    """At most `passes` (200) over the corpus, for topic models, mixtures, hidden Markov models and discrete graphs.

    `passes` is the budget, including the sweeps of a sampler. For topics all but the last ten passes (a quarter, if
    priors are learned) are made by a collapsed Gibbs sampler, and the collapsed updates start from its last draws.
    Small corpora, fractional counts and runs of fewer than 40 passes use updates alone, until a token's log probability
    given all the others gains less than `tol` nats on average from one report (every `report` passes) to the next. For
    other models data take the role of tokens, and every pass makes a report.

    `batch_size` selects the stochastic form, which stores nothing for a document: `step_size`, `local_steps`,
    `held_out` and `patience` are those of `tp.SVI`, and the corpus may be a stream. `restarts` is the number of random
    starts, of which the best is kept.
    """

    passes: float | None = None
    batch_size: int | None = None
    step_size: Any = None
    local_steps: int | None = None
    held_out: Any = None
    patience: int = 5
    tol: float = 1e-4
    report: int | None = None
    restarts: int = 1
    max_iter: int = dataclasses.field(default=1, repr=False)  # number of reports, filled in by `complete`

    counts_rows: ClassVar[bool] = True
    budget: ClassVar[tuple[str, ...]] = (
        "restarts", "max_iter", "tol", "passes", "step_size", "held_out", "patience", "report",
    )  # fmt: skip

    arranges: ClassVar[bool] = True
    name: ClassVar[str] = "CVB0"

    def __post_init__(self) -> None:
        self._stochastic()  # checks the arguments that both share
        if self.batch_size is None:
            for name in ("step_size", "local_steps", "held_out"):
                if getattr(self, name) is not None:
                    raise InvalidParameter(f"{name} belongs to the stochastic form: give batch_size too")
            if self.passes is not None and (self.passes != int(self.passes) or self.passes < 1):
                raise InvalidParameter(f"passes must be a whole number of at least 1, got {self.passes!r}")

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.batch_size is not None

    def prepare(self, model: Model) -> Model:
        if not isinstance(model, Collapsible):
            model = require_collapsible(self.name, summed(model), "tp.VB")
            if self.batch_size is not None:
                raise UnsupportedMethod("the stochastic form of CVB0 is for topic models; leave batch_size out")
            return model
        if self.batch_size is not None and model.learn:
            raise UnsupportedMethod("the stochastic form of CVB0 learns no priors; leave batch_size out, or learn")
        return model.as_collapsed()

    def complete(self, model: Model, data: Any) -> Any:
        if self.batch_size is not None:
            return self._stochastic().complete(model, data)
        passes = 200 if self.passes is None else int(self.passes)
        if not isinstance(model, Collapsible):
            return CollapsedShares(restarts=self.restarts, max_iter=passes, tol=self.tol)
        report = min(passes, self.report or 10)
        return dataclasses.replace(self, passes=passes, report=report, max_iter=-(-passes // report))

    def _stochastic(self) -> StochasticCVB0:
        names = ("batch_size", "step_size", "local_steps", "held_out", "patience", "tol", "report", "restarts")
        return StochasticCVB0(passes=self.passes, **{name: getattr(self, name) for name in names})

    def arrange(self, key: Key[Array, ""], model: Model, data: Data) -> Data:
        """The entries of all documents, in the order of the kernels."""
        from ...kernels.topics_entries import deal, padded_rows, rows_of_corpus

        assert isinstance(model, Collapsible)
        n, x = data.size, data.values
        if x.rows is not None:
            rows = rows_of_corpus(*find_rows(np.asarray(x.rows)[:n]), *3 * [np.ones(n)])
        else:
            counts = np.asarray(x.counts, dtype=np.float64)
            rows = padded_rows(np.asarray(x.words)[:n], counts[:n], *3 * [np.ones(n)])
        place, bounds = deal(rows.starts, rows.ends, rows.words)
        plan = self._plan(model, rows.counts[place])
        kind = jnp.float32 if model.single else jnp.float64
        return Entries(
            values=data.values,
            weights=data.weights,
            size=data.size,
            blocks=data.blocks,
            devices=data.devices,
            bounds=on_device(bounds),
            words=on_device(rows.words[place]),
            counts=on_device(rows.counts[place], kind),
            plan=on_device(plan),
            tol=on_device(self.tol, np.float64),
        )

    def _plan(self, model: Collapsible, counts: np.ndarray) -> list[int]:
        """The sampler makes most of the passes, unless they are few, the corpus is small, or counts are fractional."""
        from ...kernels.topics_small import is_small

        passes, report = int(self.passes or 1), int(self.report or 1)
        few = passes < _FEW or is_small(len(counts), model.n_topics)
        if few or (counts % 1).any() or counts.sum() > _TOKENS * len(counts):
            return [passes, report, 0]
        last = passes // 4 if model.learn else _LAST
        return [last, min(report, last), passes - last]

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Assignments:
        """The initial state. Documents are added only just before the first pass, because passing large arrays in and
        out is slow."""
        assert isinstance(model, Collapsible) and isinstance(data, Entries) and data.counts is not None
        eta = jnp.broadcast_to(model.eta, (1, model.n_words)) if model.eta.ndim < 2 else model.eta
        phi = jnp.zeros((data.counts.shape[0], model.n_topics), dtype=data.counts.dtype)
        worst = jnp.full((), -jnp.inf, dtype=jnp.float64)
        return Assignments(phi, model.alpha, eta, jnp.zeros((), dtype=jnp.int64), worst, jax.random.key_data(key))

    def step(self, key: Key[Array, ""], model: Model, state: Assignments, data: Data) -> tuple[Assignments, Info]:
        """The passes from one report to the next."""
        assert isinstance(model, Collapsible) and isinstance(data, Entries) and data.plan is not None
        passes = jnp.minimum(data.plan[1], data.plan[0] - state.passes)
        weights = data.weights[: data.size].astype(state.phi.dtype)
        given = (*state[:4], state.seed, passes, data.plan[2], data.bounds, data.words, data.counts, weights)
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (*state[:3], state.score))
        call = partial(_take_passes, model.learn)
        # All restarts in one call, because separating them would copy every φ twice.
        phi, alpha, eta, score = jax.pure_callback(call, shapes, *given, vmap_method="expand_dims")
        fresh = Assignments(phi, alpha, eta, state.passes + passes, score, state.seed)
        done = (score - state.score < data.tol) | ((data.plan[2] > 0) & (fresh.passes >= data.plan[0]))
        return fresh, {"passes": fresh.passes, "log_predictive": score, "done": done}

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        """The engine on the host, where all work is done; compiled code would only pass φ in and out."""
        from ...kernels.topics_small import is_small

        if not isinstance(model, Collapsible) or not isinstance(data, Entries) or data.words is None:
            return None
        small = is_small(data.words.shape[0], model.n_topics)
        name = "collapsed updates (numpy)" if small else "collapsed updates (kernel)"
        return RunEngine(name, _start_on_host, _chunk_on_host)

    def result(self, model: Model, data: Data, run: Run) -> Result:
        assert isinstance(model, Collapsible) and isinstance(data, Entries)
        scores = np.asarray(run.states.score)
        best = int(np.argmax(scores))
        blocks, gamma = _posterior(model, data, jax.tree.map(lambda leaf: np.asarray(leaf)[best], run.states))
        bound = float(_bound(model, blocks, _documents(data), gamma))
        taken = run.history["passes"][:, best] <= np.asarray(run.states.passes)[best]
        history = {name: values[taken, best] for name, values in run.history.items()}
        return Result(
            state=Posterior(blocks, {}),
            log_evidence=bound,
            history=history | {"restarts": scores},
            converged=bool(run.converged[best]) and not run.interrupted,
        )


def _take_passes(learn: tuple[str, ...], *given: Array) -> tuple[np.ndarray, ...]:
    """Passes on the host, of one restart or of several (along the first axis)."""
    arrays = [np.asarray(value) for value in given]
    if arrays[0].ndim == 2:
        return _passes_of_one(learn, *arrays)
    # All restarts share an axis of length one.
    each = (tuple(array[min(r, len(array) - 1)] for array in arrays) for r in range(len(arrays[0])))
    found = [_passes_of_one(learn, *one) for one in each]
    return tuple(values[0][None] if len(found) == 1 else np.stack(values) for values in zip(*found, strict=True))


def _passes_of_one(
    learn: tuple[str, ...],
    phi: np.ndarray,
    alpha: np.ndarray,
    eta: np.ndarray,
    taken: np.ndarray,
    seed: np.ndarray,
    passes: np.ndarray,
    sweeps: np.ndarray,
    *corpus: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """The passes of one restart; the last one is scored, and followed by an update of the learned priors."""
    from ...kernels import topics_small as small
    from ...kernels.topics_entries import Entries

    x, generator = Entries(*corpus), np.random.default_rng(seed)
    if small.is_small(len(x.words), len(alpha)):
        phi = phi if taken else small.add_documents(x, alpha, eta, generator.random(len(phi)))
        phi, alpha, eta, value = small.take_passes(learn, x, phi, alpha, eta, int(passes))
    else:
        first = None if taken else int(sweeps)
        phi, alpha, eta, value = _passes_by_kernel(learn, x, phi, alpha, eta, int(passes), first, generator)
    before = np.concatenate([[0.0], np.cumsum(x.counts, dtype=np.float64)])
    tokens = x.weights @ (before[x.bounds[:, :, 1]] - before[x.bounds[:, :, 0]]).sum(axis=1)
    return phi, alpha, eta, np.asarray(value / max(float(tokens), 1e-300))


def _passes_by_kernel(
    learn: tuple[str, ...],
    x: Any,
    phi: np.ndarray,
    alpha: np.ndarray,
    eta: np.ndarray,
    passes: int,
    sweeps: int | None,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """The passes by the kernels; the first call also adds the documents one by one and makes the sampler's sweeps."""
    from ...kernels import topics_collapsed as kernel
    from ...kernels.topics_start import add_documents, sample_topics

    width = kernel.padded_width(len(alpha))
    prior = kernel.as_prior(eta, width, phi.dtype)
    if sweeps is not None:
        phi = add_documents(x, width, alpha, prior, generator.random(len(phi)))
        phi = sample_topics(x, phi, alpha, eta, sweeps, generator)
    else:
        phi = np.pad(phi, ((0, 0), (0, width - len(alpha))))
    sums, value = kernel.count(x, phi, alpha, eta), 0.0
    for remaining in reversed(range(passes)):
        value = kernel.collapsed_pass(x, phi, sums, prior, scored=remaining == 0)
    if "topic_prior" in learn:
        eta = np.full_like(eta, kernel.learn_topic_prior(x, phi, sums, float(eta[0, 0]), len(alpha)))
    if "document_prior" in learn:
        alpha = kernel.learn_document_prior(x, phi, sums, alpha)
    return phi[:, : len(alpha)], alpha, eta, value


def _start_on_host(
    method: CVB0, model: Collapsible, data: Entries, keys: Any, kinds: tuple[str, ...] = ()
) -> Assignments:
    """`CVB0.init` of every restart, by NumPy."""
    assert data.counts is not None and model.n_words is not None
    count, eta = len(keys), np.asarray(model.eta)
    eta = np.broadcast_to(eta, (1, model.n_words)) if eta.ndim < 2 else eta
    empty = np.zeros((count, data.counts.shape[0], model.n_topics), dtype=data.counts.dtype)
    alpha, eta = (np.broadcast_to(value, (count, *value.shape)) for value in (np.asarray(model.alpha), eta))
    zero, worst = np.zeros(count, dtype=np.int64), np.full(count, -np.inf)
    parts: list[Any] = [empty, alpha, eta, zero, worst, np.asarray(jax.random.key_data(keys))]
    return Assignments(*parts)


def _chunk_on_host(
    method: CVB0, model: Collapsible, data: Entries, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """The passes up to the given report, by NumPy or by the kernels, without copying φ into compiled code and out."""
    assert data.plan is not None and data.tol is not None
    total, every, sweeps = (int(number) for number in np.asarray(data.plan))
    corpus = [np.asarray(part) for part in (data.bounds, data.words, data.counts)]
    weights = np.asarray(data.weights)[: data.size].astype(corpus[2].dtype)
    states: list[Any] = [Assignments(*(np.asarray(leaf)[r] for leaf in carry.states)) for r in range(len(keys))]
    reports: list[list[tuple[int, float]]] = []
    done = np.array(carry.done)
    while int(carry.steps) + len(reports) < int(limit) and not done.all():
        report = []
        for r, state in enumerate(states):
            passes = min(every, total - int(state.passes))
            if done[r]:  # padding: this restart has ended
                report.append((int(state.passes) + max(passes, 1), float(state.score)))
                continue
            given = (*state[:4], state.seed, np.asarray(passes), np.asarray(sweeps), *corpus, weights)
            found: Any = _passes_of_one(model.learn, *given)
            phi, alpha, eta, score = found
            states[r] = Assignments(phi, alpha, eta, state.passes + passes, score, state.seed)
            done[r] = score - state.score < np.asarray(data.tol) or (sweeps > 0 and states[r].passes >= total)
            report.append((int(states[r].passes), float(score)))
        reports.append(report)
    leaves: list[Any] = [leaf[0][None] if len(leaf) == 1 else np.stack(leaf) for leaf in zip(*states, strict=True)]
    told = np.array(reports).reshape((len(reports), len(keys), 2))
    after = carry._replace(states=Assignments(*leaves), done=done, steps=np.asarray(int(carry.steps) + len(reports)))
    return after, {"passes": told[..., 0].astype(np.int64), "log_predictive": told[..., 1]}


def _posterior(model: Collapsible, data: Entries, state: Assignments) -> tuple[dict[str, Any], Float[Array, "n k"]]:
    """The topics, and the proportions of each document, as if the expected counts had been seen."""
    from ...kernels import topics_entries, topics_small

    bounds, words, counts, weights = (np.asarray(p) for p in (data.bounds, data.words, data.counts, data.weights))
    x = topics_entries.Entries(bounds, words, counts, weights[: data.size].astype(counts.dtype))
    kernel: Any = topics_small
    if not topics_small.is_small(len(words), model.n_topics):
        from ...kernels import topics_collapsed as kernel
    sums = kernel.count(x, np.asarray(state.phi), np.asarray(state.document_prior), np.asarray(state.topic_prior))
    expected = sums.words[:, : model.n_topics].T.astype(np.float64)
    topics = np.maximum(expected, 0.0) + state.topic_prior
    blocks: dict[str, Any] = {"topics": Dirichlet.from_natural(DirichletVector(on_device(topics - 1.0)))}
    if "document_prior" in model.prior:
        blocks["document_prior"] = Point(Concentration(state.document_prior))
    if "topic_prior" in model.prior:
        blocks["topic_prior"] = Point(Concentration(state.topic_prior[0, :1], size=model.n_words))
    gamma = np.broadcast_to(state.document_prior, (len(data.weights), model.n_topics)).copy()
    gamma[: data.size] = np.maximum(sums.documents[:, : model.n_topics], gamma[: data.size])
    return blocks, on_device(gamma)


def _documents(data: Entries) -> Data:
    """The documents alone, so that programs compiled for them do not depend on the number of entries."""
    fields = {field.name: getattr(data, field.name) for field in dataclasses.fields(Data)}
    return Data(**fields).uncounted()


@program
def _bound(model: Collapsible, blocks: dict[str, Any], data: Data, gamma: Float[Array, "n k"]) -> Float[Array, ""]:
    """The variational bound, with documents that start where the collapsed updates left them."""
    local = {"proportions": Dirichlet.from_natural(DirichletVector(gamma - 1.0))}
    walked = model.walk(means(blocks), data, Way(local_steps=_FINAL_LOCAL_STEPS), local)
    return global_terms(model, blocks) + walked.value


@dataclasses.dataclass(frozen=True)
class StochasticCVB0(SVI):
    """The steps of SVI, all taken by the model's engine for many steps at once."""

    name: ClassVar[str] = "CVB0"

    def step(self, key: Key[Array, ""], model: Model, state: Walk, data: Data | Streamed) -> tuple[Walk, Info]:
        assert isinstance(data, Batches) and data.plan is not None
        plan = data.plan
        steps = jnp.minimum(state.steps + plan.round, plan.steps)
        blocks = self._minibatches(model, state, steps, data)
        return self._watch(model, state, blocks, steps, data, {"step": steps, "rate": plan.step_size(steps)})

    def _minibatches(self, model: Model, state: Walk, last: Int[Array, ""], data: Batches) -> dict[str, Any]:
        assert isinstance(model, Collapsible) and model.n_words is not None
        assert self.batch_size is not None and data.plan is not None and data.stands_for is not None
        plan, key, size = data.plan, jax.random.wrap_key_data(state.seed), min(self.batch_size, data.size)
        scale, x = data.stands_for / size, data.values
        eta = model.eta if model.eta.ndim == 2 else jnp.broadcast_to(model.eta, (1, model.n_words))
        shape = jax.ShapeDtypeStruct((model.n_topics, model.n_words), jnp.float64)
        local = (jnp.asarray(self.local_steps), jnp.asarray(model.local_tol))

        def some(i: Array, topics: Array) -> Array:
            t = state.steps + _TOGETHER * i + jnp.arange(_TOGETHER)
            rates = jnp.where(t < last, plan.step_size(t + 1), 0.0)
            rows = jax.vmap(lambda step: rows_of_step(key, step, size, data.size, self.replacement))(t)
            weights = scale * jnp.take(data.weights, rows)
            documents = (x.words[rows], x.counts[rows]) if x.rows is None else (jnp.take(x.rows, rows),)
            given = (topics, eta, model.alpha, *local, rates, weights, *documents)
            return jax.pure_callback(_take_steps, shape, *given, vmap_method="sequential")

        start = state.blocks["topics"].concentration  # type: ignore[attr-defined]
        topics = jax.lax.fori_loop(0, -((state.steps - last) // _TOGETHER), some, start)
        return {"topics": Dirichlet.from_natural(DirichletVector(on_device(topics - 1.0)))}


def _take_steps(*given: Array) -> np.ndarray:
    from ...kernels.topics_collapsed import OnlineCollapsed
    from ...kernels.topics_entries import Ascent, padded_rows, rows_of_corpus

    topics, topic_prior, document_prior, local_steps, tolerance, rates, weights, *documents = map(np.asarray, given)
    online = OnlineCollapsed(topics, topic_prior)
    ascent = Ascent(np.array(document_prior), int(local_steps), float(tolerance))
    ones = np.ones(weights.shape[1])
    for rate, weight, *here in zip(rates, weights, *documents, strict=True):
        if rate > 0:
            found = find_rows(here[0]) if len(here) == 1 else here
            rows = (rows_of_corpus if len(here) == 1 else padded_rows)(*found, weight, ones, ones)
            online.step(rows, float(rate), ascent)
    return online.concentrations()
