"""Bridge sampling between a posterior and the conditionals of its own Gibbs chains (Meng and Wong, 1996;
Frühwirth-Schnatter, 2004): the evidence of small mixtures, where a path from the prior is long.

The proposal is the average of p(θ | z, x) over the labels z that chains have visited, with the prior as a small part of
it. With draws of the proposal and of the posterior, Bennett's ratio is the evidence. No temperature is involved, so
nothing melts on the way; but chains do not cross from mode to mode. They start from the optima that restarts of VB
find, and are resampled by importance weights, so that each mode has as many chains as it has posterior mass. Chains
form independent groups: a mode that some groups miss shows in the spread of their estimates.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np

from ..._arguments import Checks, whole
from ...errors import UnsupportedMethod
from ...evidence.bracket import WIDTH
from ...evidence.tempered import Estimate, few, spread_of
from ...evidence.weights import both_ways, downwards, effective_draws, one_draw, upwards
from ...evidence.witnesses import FAR, ROOM, contradictions
from ...kernels import RunEngine, small_tempered
from ...kernels.small_conditionals import MOST, conditionals
from ...kernels.small_mixture import NAME
from ...kernels.small_tempered import Drawn, Problem, problem
from ...models import Data, Model
from ...models.mixture import Mixture
from ...numerics.host import logsumexp, softmax
from ...numerics.keys import hashes
from ...numerics.streams import Streams, seeds
from ...numerics.threads import one_blas_thread
from .._method import Result, Run
from .draws import Draws
from .gibbs import Gibbs
from .small_runs import log_likelihood, step_chains, swept
from .witness import search

STARTS = 24  # restarts of VB from whose optima chains begin
SETTLING, VISITED, APART = 40, 4, 8  # sweeps before labels are kept, times that they are kept, and sweeps in between
GROUPS = 4  # groups of chains; eight groups of 16 chains would be too small to resample well
WEIGHED = 4  # draws of each conditional by which a group is resampled
ROUNDS, WORTH = 4, 50.0  # most rounds of resampling, and the effective draws at which it ends
DEFENSIVE = 0.05  # share of the prior in a proposal
FEWEST = 20.0  # effective draws of the proposal, or families of chains, below which an error is unreliable
LARGEST = 0.3  # nats: a larger error is not of first order


class Chain(NamedTuple):
    """A chain, the draw from which it descends, the state of its random numbers, and the highest bound of VB."""

    draws: dict[str, Any]
    local: dict[str, Any]
    ancestor: Any
    seed: Any
    lower: Any


@dataclasses.dataclass(frozen=True)
class Bridge(Gibbs):
    """Bridge sampling with `chains` Gibbs chains. The warm-up keeps the labels of `proposal` draws. Two draws from the
    conditional given each of these labels are compared with equally many later draws of the chains."""

    draws: int = 60
    warmup: int = 60
    chains: int = 128
    thin: int = 2
    proposal: int = 1024

    checks: ClassVar[Checks] = {**Gibbs.checks, "proposal": whole(GROUPS)}

    @property
    def name(self) -> str:
        return "bridge sampling"

    def complete(self, model: Model, data: Data) -> Self:
        complete = super().complete(model, data)
        if not small_tempered.when(model, data) or len(np.asarray(model.prior["components"].natural.count)) > MOST:  # type: ignore[union-attr]
            raise UnsupportedMethod(f"{self.name} is for small Gaussian mixtures of at most {MOST} components")
        return complete

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        return RunEngine(NAME, start, step_chains, goes_on=True)

    @one_blas_thread()
    def result(self, model: Model, data: Data, run: Run) -> Result:
        draws, log_joint = run.history["draws"], run.history["log_joint"]
        middle = self.warmup * len(log_joint) // (self.warmup + self.draws)  # in proportion, if the run was stopped
        every = max(1, (len(log_joint) - middle) * self.chains // (2 * self.proposal))
        here = problem(model, data)  # type: ignore[arg-type]
        before, after = _cut(here, draws, slice(None, middle)), _cut(here, draws, slice(middle, None, every))
        groups = min(GROUPS, self.chains)
        with np.errstate(all="ignore"):
            some = _spread_out(len(before.mean), self.chains, self.proposal, groups)
            weigh = _Weigh(model, here, Streams(np.asarray(run.states.seed)[:1]), before.at(some), groups)
            forward, backward = weigh.densities(weigh.propose(2)).parts(), weigh.densities(after)
            alone = _together(backward.parts(vague=0.0)).reshape((-1, self.chains))
            both = Both(forward, backward.parts().reshape((-1, self.chains, groups)), alone, len(some))
        return _judged(
            Draws(jax.tree.map(lambda leaf: np.swapaxes(leaf[middle:], 0, 1), draws)),
            {"log_joint": log_joint[middle:]},
            both,
            np.asarray(run.states.ancestor),
            float(np.asarray(run.states.lower)[0]),
            run.interrupted,
        )


def _groups(chains: int) -> list[np.ndarray]:
    return np.array_split(np.arange(chains), min(GROUPS, chains))


def _spread_out(size: int, chains: int, wanted: int, groups: int) -> np.ndarray:
    """The places of `wanted` draws among those of all chains (step by step): equally many of each group, group by
    group."""
    places = np.arange(size).reshape((-1, chains))
    own = [places[:, group].ravel() for group in _groups(chains)]
    return np.concatenate([of[np.linspace(0, len(of) - 1, wanted // groups).astype(int)] for of in own])


class Both(NamedTuple):
    """log p(x, θ)/q_g(θ), with q_g from the labels of group g, for draws of the proposal and of the chains. Draws of
    the proposal are two of each of `pairs` conditionals, followed by draws from the prior."""

    forward: np.ndarray  # (draw, group)
    backward: np.ndarray  # (step, chain, group)
    alone: np.ndarray  # of the chains' draws, under conditionals alone (step, chain): chains are far from the prior
    pairs: int

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """The log weights under the average of all q_g, for both sets of draws: 1/w is the average of 1/w_g."""
        return _together(self.forward), _together(self.backward)

    def jackknife(self) -> float:
        """The standard error of the estimate, from the estimates that leave out each group in turn."""
        groups, draws = self.forward.shape[1], np.arange(len(self.forward))
        if groups < 2:
            return 0.0
        conditional = draws % self.pairs * groups // self.pairs
        of = np.where(draws < 2 * self.pairs, conditional, draws % groups)
        found = []
        for group, own in enumerate(_groups(self.backward.shape[1])):
            rest = np.delete(np.arange(groups), group)
            up = _together(self.forward[of != group][:, rest])
            down = _together(np.delete(self.backward, own, axis=1)[:, :, rest])
            found.append(both_ways(up, down.ravel()).log_evidence)
        return (groups - 1) * spread_of(found)


def _together(log_weights: np.ndarray) -> np.ndarray:
    return np.log(log_weights.shape[-1]) - logsumexp(-log_weights, axis=-1)


def _cut(here: Problem, draws: dict[str, Any], part: slice) -> Drawn:
    """The draws of some steps, with all chains one after another."""
    return here.from_draws(jax.tree.map(lambda leaf: leaf[part].reshape((-1, *leaf.shape[2:])), draws))


def _judged(
    draws: Draws,
    history: dict[str, Any],
    both: Both,
    ancestors: np.ndarray,
    lower: float,
    interrupted: bool,
) -> Result:
    """The estimate, and a bracket if nothing contradicts it.

    Chains that descend from one draw count as one piece. The error is at least that of the jackknife over groups, and
    at least that of `one_draw`: if nearly all weights are alike, the spread misses rare weights that were not drawn.
    """
    forward, backward = both.weights()
    families, effective = len(np.unique(ancestors)), effective_draws(forward)
    own, alone = np.broadcast_to(ancestors, backward.shape), -1 - np.arange(len(forward))
    pooled = few(both_ways(forward, backward.ravel(), (alone, own.ravel()), both.pairs), families)
    spread = max(pooled.standard_error, both.jackknife())
    best = pooled._replace(standard_error=float(np.hypot(one_draw(forward), spread)))
    up, down = upwards(forward), few(downwards(both.alone.ravel(), own.ravel()), families)
    halves = [both_ways(forward[i::2], backward[:, i::2].ravel(), (alone[i::2], own[:, i::2].ravel())) for i in (0, 1)]
    doubts = _disagreements(best, up, down)
    if min(effective, families) < FEWEST or not best.standard_error < LARGEST:
        doubts.append(
            f"the proposal's draws are worth {effective:.0f} of {len(forward)}, the chains descend from {families} "
            f"draws and the error is {best.standard_error:.2f}: they do not cover the posterior"
        )
    doubts += contradictions(best, halves, [("the bound of VB", lower)])
    ends = best.log_evidence - WIDTH * best.standard_error, best.log_evidence + WIDTH * best.standard_error
    sure = not doubts and not interrupted
    return Result(
        state=draws,
        log_evidence=best.log_evidence,
        history=history,
        converged=sure,
        bracket=ends if sure else None,
        details={
            "standard_error": best.standard_error,
            "estimates": {"both ways": best, "upwards": up, "downwards": down},
            "effective_draws": effective,
            "log_weights": forward,
            "reverse_log_weights": backward.ravel(),
        },
        notes=tuple(f"no bracket: {doubt}" for doubt in doubts),
    )


def _disagreements(best: Estimate, up: Estimate, down: Estimate) -> list[str]:
    found = []
    for name, one in (("the proposal's draws alone", up), ("the chains' draws alone", down)):
        apart = abs(one.log_evidence - best.log_evidence)
        if apart > FAR * np.hypot(one.standard_error, best.standard_error) + ROOM:
            found.append(f"{name} say {one.log_evidence:.2f}, and with both it is {best.log_evidence:.2f}")
    return found


class Densities(NamedTuple):
    """Logs of p(x, θ), of the prior, and of the conditionals of each group (draw, group)."""

    target: np.ndarray
    prior: np.ndarray
    conditionals: np.ndarray

    def parts(self, vague: float = DEFENSIVE) -> np.ndarray:
        """log p(x, θ)/q_g(θ), with this share of the prior in q_g (draw, group)."""
        own = self.conditionals
        if vague:
            own = np.logaddexp(np.log1p(-vague) + own, np.log(vague) + self.prior[:, None])
        weights = self.target[:, None] - own
        return np.where(np.isnan(weights), -np.inf, weights)  # NaN for a draw from the prior that overflows


class _Weigh:
    """log p(x, θ)/q(θ), with q the conditionals of some draws and a part of the prior."""

    def __init__(self, model: Model, here: Problem, streams: Streams, drawn: Drawn, groups: int = 1):
        symmetry = model.symmetry and model.symmetry.alike
        self.here, self.streams, self.groups = here, streams, groups
        self.density = conditionals(here, streams, drawn, here.levels(drawn), symmetry is not None)

    def propose(self, copies: int) -> Drawn:
        """`copies` draws from each conditional, and some from the prior."""
        size = len(self.density.natural[1])
        vague = max(2, round(copies * size * DEFENSIVE / (1.0 - DEFENSIVE)))
        both = (
            self.density.draw(self.streams, np.arange(copies * size) % size),
            self.here.prior_draws(self.streams, vague),
        )
        return Drawn(*(np.concatenate(parts) for parts in zip(*both, strict=True)))

    def weights(self, drawn: Drawn) -> np.ndarray:
        return _together(self.densities(drawn).parts())

    def densities(self, drawn: Drawn) -> Densities:
        log_prior = self.here.log_prior(drawn)
        target = log_likelihood(self.here, drawn) + log_prior
        return Densities(target, log_prior, self.density.log_probs(drawn, self.groups))


def start(method: Bridge, model: Mixture, data: Data, keys: Any, kinds: Any = ()) -> Chain:
    """Chains from the optima of VB, resampled until enough of them differ."""
    here, size = problem(model, data), len(keys)
    found = search(model, data, STARTS)
    order = np.arange(size) % STARTS
    blocks = jax.tree.map(lambda leaf: np.asarray(leaf)[order], found.states.blocks)
    own = seeds(hashes(np.asarray(jax.random.key_data(keys)), [3])[:, 0], 0, 2 + SETTLING + ROUNDS * VISITED * APART)
    with np.errstate(all="ignore"):
        drawn = here.started(Streams(own[0]), blocks)
        drawn = swept(here, drawn, own[2 : 2 + SETTLING])[0].at(-1)
        drawn, ancestors = _resampled(model, here, drawn, own)
    lower = float(np.max(found.bounds[np.isfinite(found.bounds)], initial=-np.inf))
    return Chain(here.to_draws(drawn), {}, ancestors, own[1], np.full(size, lower))


def _resampled(model: Model, here: Problem, drawn: Drawn, own: np.ndarray) -> tuple[Drawn, np.ndarray]:
    """The chains after the resampling of each group by weights, repeated until enough draws of a group differ, and the
    draw that each takes over."""
    groups = _groups(own.shape[1])
    common = [Streams(own[1, group[:1]]) for group in groups]
    chosen, left = np.empty(own.shape[1], dtype=np.int64), list(range(len(groups)))
    for number in range(ROUNDS):
        first = 2 + SETTLING + number * VISITED * APART
        going = np.concatenate([groups[group] for group in left])
        steps = own[first : first + VISITED * APART : APART, going]
        visited, _ = swept(here, drawn.at(going), steps, APART)
        for group in list(left):
            some = np.flatnonzero(np.isin(going, groups[group]))
            seen = Drawn(*(leaf[:, some].reshape((-1, *leaf.shape[2:])) for leaf in visited))
            weigh = _Weigh(model, here, common[group], seen)
            proposed = weigh.propose(WEIGHED)
            log_weights = weigh.weights(proposed)
            places = (np.arange(len(some)) + common[group].uniform(1)[0, 0]) / len(some)
            taken = np.minimum(np.searchsorted(np.cumsum(softmax(log_weights, 0)), places), len(log_weights) - 1)
            for leaf, fresh in zip(drawn, proposed, strict=True):
                leaf[groups[group]] = fresh[taken]
            chosen[groups[group]] = group + len(groups) * taken
            if effective_draws(log_weights) >= WORTH:
                left.remove(group)
        if not left:
            break
    return drawn, chosen
