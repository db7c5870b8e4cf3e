"""Effects of covariates on topics: coefficients and shares, with intervals from the joint posterior of all unknowns.

Intervals of a variational fit are too short, because it treats the proportions of documents as independent of the
coefficients. So a collapsed Gibbs sampler (`kernels/topics_sampler.py`) starts from the fit and draws the topics of all
tokens and the coefficients of each topic in turn; proportions and topics are integrated out. Coefficients are proposed
by a step of Newton's method (with the squares of documents' gradients for the information) and accepted by the rule of
Metropolis and Hastings, so that the draws are from the posterior itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...data.documents import corpus_of
from ...data.formula import Design
from ...data.schema import shortened
from ...errors import InvalidData, InvalidParameter
from ...models._data import Data
from ...models._model import Posterior
from ...models.topics.report import TopicsBy, mean_topics, names, proportions
from ...numerics.autocorrelation import effective_size

if TYPE_CHECKING:
    from ...models.topics.variants import StructuralTopics


_PLACES = 25  # values of a numeric covariate at which shares are shown
_ENOUGH = 50  # independent draws for an interval


@dataclasses.dataclass(frozen=True)
class Effects:
    """Coefficients of log α, in the units of the columns, with intervals."""

    names: tuple[str, ...]  # of the coefficients
    mean: np.ndarray  # (topics, coefficients)
    sd: np.ndarray  # of the posterior
    low: np.ndarray  # end of the interval
    high: np.ndarray  # end of the interval
    level: float  # of the interval
    words: tuple[str, ...]  # the most telling words of each topic
    draws: np.ndarray  # (draws, topics, coefficients), in the model's coordinates
    effective: float  # the least effective number of independent draws
    accepted: float  # share of the proposals that were accepted
    coding: Design  # of the covariates in columns
    documents: int  # the number that the sampler used
    order: np.ndarray  # the places of topics 1, 2, … (see `fit.order`)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each topic (by their numbers) and coefficient, for a table."""
        return [
            {
                "topic": number, "words": self.words[k], "coefficient": name, "estimate": float(self.mean[k, j]),
                "sd": float(self.sd[k, j]), "low": float(self.low[k, j]), "high": float(self.high[k, j]),
            }
            for number, k in enumerate(self.order, 1)
            for j, name in enumerate(self.names)
        ]  # fmt: skip

    def shares(self, of: str, at: Mapping[str, Any] | None = None) -> TopicsBy:
        """The expected share of each topic, E[θ | x], as one covariate varies, with the other covariates as given in
        `at`, else at their mean or most frequent level; `tp.plot.topics_by` draws it."""
        covariates = {covariate.name: covariate for covariate in self.coding.covariates}
        for name in (of, *(at or {})):
            if name not in covariates:
                raise InvalidParameter(f"{name!r} is not a covariate of this fit, only {shortened(tuple(covariates))}")
        it = covariates[of]
        values: list[Any] = list(it.levels) if it.levels else np.linspace(it.low, it.high, _PLACES).tolist()
        columns = {name: values if name == of else [c.usual] * len(values) for name, c in covariates.items()}
        columns |= {name: [value] * len(values) for name, value in (at or {}).items()}
        alpha = np.exp(np.einsum("np,skp->snk", self.coding.matrix(columns), self.draws))
        share = alpha / alpha.sum(axis=2, keepdims=True)
        low, high = np.quantile(share, [0.5 - self.level / 2, 0.5 + self.level / 2], axis=0)
        labels = tuple(it.levels) if it.levels else tuple(f"{value:g}" for value in values)
        positions = None if it.levels else np.array(values)
        each = np.full(len(values), self.documents)
        mean = share.mean(axis=0)
        return TopicsBy(of, labels, positions, each, mean, low, high, self.level, self.words, self.order, True)

    def __str__(self) -> str:
        rows = [("topic", "coefficient", "estimate", f"{self.level:.0%} interval", "words")]
        rows += [
            (str(row["topic"]), row["coefficient"], f"{row['estimate']:.3g}", f"{row['low']:.3g} to {row['high']:.3g}",
             row["words"])
            for row in self.rows()
        ]  # fmt: skip
        widths = [max(len(row[j]) for row in rows) for j in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        if self.effective < _ENOUGH:
            lines.append(
                f"note: the draws are worth only {self.effective:.0f} independent ones, so that intervals may be too "
                "short: ask for more with draws=… and warmup=…"
            )
        return "\n".join(line.rstrip() for line in lines)


def topic_effects(
    model: StructuralTopics,
    q: Posterior,
    data: Data,
    *,
    level: float = 0.95,
    draws: int = 400,
    warmup: int = 200,
    documents: int = 20_000,
    seed: int = 0,
) -> Effects:
    """Effects from `draws` draws after `warmup` sweeps, using at most `documents` documents, chosen at random."""
    if not 0.0 < level < 1.0:
        raise InvalidParameter(f"level must be between 0 and 1, got {level!r}")
    for name, value, least in (("draws", draws, 10), ("warmup", warmup, 0), ("documents", documents, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidParameter(f"{name} must be a whole number of at least {least}, got {value!r}")
    weights, coding = np.asarray(data.weights)[: data.size], model.coding
    assert coding is not None
    if not np.isin(weights, (0.0, 1.0)).all():
        raise InvalidData("effects need documents of weight 1: repeat the documents instead")
    rows = np.flatnonzero(weights > 0)
    generator = np.random.default_rng(seed)
    if len(rows) > documents:
        rows = np.sort(generator.choice(rows, documents, replace=False))
    found, accepted = _sample(model, q, data, rows, (warmup, draws), generator)
    user = found @ coding.to_user.T
    mean, sd = user.mean(axis=0), user.std(axis=0, ddof=1)
    size = np.apply_along_axis(effective_size, 0, user)
    half = _half_width(size, level) * sd
    return Effects(coding.names, mean, sd, mean - half, mean + half, level, names(model, q, 4), found,
                   float(size.min()), accepted, coding, len(rows), model.order(q, data))  # fmt: skip


def _half_width(size: np.ndarray, level: float) -> np.ndarray:
    """Of an interval, in standard deviations, from so many independent draws: Student's t for a further value, since
    neither mean nor spread is known exactly."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(np.maximum(size - 1.0, 1.0), 0.5 + level / 2) * np.sqrt(1.0 + 1.0 / size))


def _sample(
    model: StructuralTopics, q: Posterior, data: Data, rows: np.ndarray, steps: tuple[int, int], generator: Any
) -> tuple[np.ndarray, float]:
    """Draws of the coefficients (draws, topics, coefficients), and the share of proposals that were accepted."""
    from ...kernels.topics_sampler import start_tokens, sweep_tokens

    warmup, draws = steps
    whole = corpus_of(data.values, data.size, model.n_words or 1)
    corpus = dataclasses.replace(whole.take(rows), covariates=np.asarray(data.values.design)[rows])
    if (corpus.counts != np.round(corpus.counts)).any():
        raise InvalidData("effects need whole counts: fractional counts have no tokens")
    starts = np.concatenate([[0], np.cumsum(corpus.lengths)]).astype(np.int64)
    words = np.repeat(corpus.words, corpus.counts.astype(np.int64)).astype(np.int32)
    design = np.ascontiguousarray(corpus.covariates, dtype=np.float64)
    theta, beta = proportions(model, q, corpus), np.ascontiguousarray(mean_topics(q).T)
    tokens = start_tokens(starts, words, theta, beta, int(generator.integers(2**31)))
    shape = (model.n_words or 1, model.n_topics)
    eta = np.array(model.eta, dtype=np.float64)
    eta = np.ascontiguousarray(eta.T if eta.ndim == 2 else np.broadcast_to(eta, shape[:1])[:, None])
    total = np.broadcast_to(eta.sum(axis=0), (model.n_topics,)).copy()
    chain = _Coefficients(model, q, design, np.diff(starts).astype(np.float64))
    kept, accepted = [], 0
    for step in range(warmup + draws):
        sweep_tokens(tokens, np.ascontiguousarray(chain.alpha.T), eta, total, generator.random(len(words)))
        moved = chain.step(tokens.documents, generator, step < warmup // 2)
        if step >= warmup:
            accepted += moved
            kept.append(chain.value.copy())
    return np.stack(kept), accepted / (draws * model.n_topics)


class _Coefficients:
    """The current coefficients of all topics, with the resulting α of every document."""

    def __init__(self, model: StructuralTopics, q: Posterior, design: np.ndarray, lengths: np.ndarray):
        prior = model.prior["coefficients"]
        self.centre, self.precision = np.array(prior.location), np.array(prior.precision)
        self.value = np.array(q.blocks["coefficients"].mode())
        self.design, self.lengths = design, lengths
        self.alpha = np.exp(self.value @ design.T)  # (topics, documents)

    def step(self, counts: np.ndarray, generator: Any, free: bool) -> int:
        """Make a proposal for each topic, then one that moves all topics alike, because the concentration of documents
        depends on all topics. `free` accepts every proposal, to converge sooner. Returns how many proposals for single
        topics were accepted."""
        counts, taken, every = np.ascontiguousarray(counts.T), 0, slice(0, len(self.value))
        for k in range(len(self.value)):
            taken += self._propose(slice(k, k + 1), counts, generator, free)
        self._propose(every, counts, generator, free)
        return taken

    def _propose(self, some: slice, counts: np.ndarray, generator: Any, free: bool) -> bool:
        rest = self.alpha.sum(axis=0) - self.alpha[some].sum(axis=0)
        here = self._look(some, self.value[some], rest, counts)
        move = here.step + np.linalg.solve(here.factor.T, generator.normal(size=len(here.step)))
        there = self._look(some, self.value[some] + move, rest, counts)
        gain = there.log_density - here.log_density + there.log_proposal(-move) - here.log_proposal(move)
        taken = np.log(generator.random()) < gain or (free and np.isfinite(there.log_density))
        if taken:
            self.value[some], self.alpha[some] = self.value[some] + move, there.alpha
        return bool(taken)

    def _look(self, some: slice, value: np.ndarray, rest: np.ndarray, counts: np.ndarray) -> _Look:
        from ...kernels.topics_sampler import counts_terms

        alpha = np.exp(np.clip(value @ self.design.T, -60.0, 60.0))
        log_density, slope, information = counts_terms(self.design, alpha, rest, counts[some], self.lengths)
        pull = np.einsum("kpq,kq->kp", self.precision[some], value - self.centre[some])
        precision = information + self.precision[some].sum(axis=0)
        step = np.linalg.solve(precision, slope - pull.sum(axis=0))
        log_density -= 0.5 * float(np.sum(pull * (value - self.centre[some])))
        return _Look(log_density, step, np.linalg.cholesky(precision), alpha)


class _Look(NamedTuple):
    """The log density at a point, and the proposal from that point: a step and the factor of its precision."""

    log_density: float
    step: np.ndarray
    factor: np.ndarray
    alpha: np.ndarray

    def log_proposal(self, move: np.ndarray) -> float:
        return float(np.log(np.diagonal(self.factor)).sum() - 0.5 * np.sum((self.factor.T @ (move - self.step)) ** 2))
