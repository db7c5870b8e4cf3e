"""Gibbs sampling, parallel tempering and annealed importance sampling of small Gaussian mixtures in NumPy: the start
and the steps of each method use the sweeps of `kernels/small_tempered.py` and replace compiled programs
(`RunEngine`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ...kernels import RunEngine, small_mixture
from ...kernels.small_mixture import NAME
from ...kernels.small_tempered import Drawn, Levels, Problem, problem
from ...models import Data
from ...models.mixture import Mixture
from ...numerics.keys import hashes, wrap
from ...numerics.streams import Streams, seeds
from ...numerics.threads import in_threads
from ..schedules import equal_rejection, power_ladder
from .gibbs import State
from .replicas import Replicas

if TYPE_CHECKING:
    from .annealed_importance import AIS, Particle
    from .gibbs import Gibbs
    from .parallel_tempering import ParallelTempering

_CACHED = 2**18  # largest table (numbers) of one block: of less, a thread spends more time in Python than in NumPy
_START, _UP, _DOWN = 0, 1, 2  # purposes of a run's random streams


def _streams(keys: Any, purpose: int, first: int, last: int) -> np.ndarray:
    return seeds(hashes(np.asarray(jax.random.key_data(keys)), [purpose])[:, 0], first, last)


# ---- Gibbs sampling ----------------------------------------------------------------------------------------------


def start_chains(method: Gibbs, model: Mixture, data: Data, keys: Any, kinds: Any = ()) -> State:
    """`Gibbs.init` of every chain."""
    here = problem(model, data)
    with np.errstate(all="ignore"):
        starts = small_mixture.start(method, model, data, keys)
        drawn = here.started(Streams(_streams(keys, _START, 0, 1)[0]), starts.blocks)
    return State(here.to_draws(drawn), {})


def step_chains(
    method: Gibbs, model: Mixture, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, Any]]:
    """`_chunk` of `inference/run.py`, with `Gibbs.step` of all chains."""
    here, last = problem(model, data), int(limit)
    drawn = here.from_draws(jax.tree.map(np.asarray, carry.states.draws))
    kept, log_joint = swept(here, drawn, _streams(keys, _UP, int(carry.steps), last), method.thin)
    states = carry.states._replace(draws=here.to_draws(kept.at(-1)))
    return carry._replace(states=states, steps=np.asarray(last)), {"draws": here.to_draws(kept), "log_joint": log_joint}


def swept(here: Problem, drawn: Drawn, own: np.ndarray, thin: int = 1) -> tuple[Drawn, np.ndarray]:
    """The states of all chains after each step of `thin` sweeps, and log p(x, θ); `own` seeds them, (step, chain)."""
    kept = Drawn(*(np.empty((len(own), *leaf.shape)) for leaf in drawn))
    log_joint = np.empty(own.shape)

    def block(begin: int, end: int) -> None:
        now, ones, powers = drawn.at(slice(begin, end)), np.ones(end - begin), None
        with np.errstate(all="ignore"):
            levels = here.levels(now)
            for number, row in enumerate(own[:, begin:end]):
                streams = Streams(row)
                for _ in range(thin):
                    now, powers = here.sweep(streams, now, levels, ones, powers), None
                    levels = here.levels(now)
                potential, powers, _ = here.potential_and_powers(now, levels, ones)
                log_joint[number, begin:end] = potential + here.log_prior(now)
                for leaf, fresh in zip(kept, now, strict=True):
                    leaf[number, begin:end] = fresh

    in_threads(block, own.shape[1], _grain(here))
    return kept, log_joint


def log_likelihood(here: Problem, drawn: Drawn) -> np.ndarray:
    """log p(x | θ) of each draw."""
    found = np.empty(len(drawn.mean))

    def block(begin: int, end: int) -> None:
        some = drawn.at(slice(begin, end))
        with np.errstate(all="ignore"):
            found[begin:end] = here.potential(some, here.levels(some), np.ones(end - begin))

    in_threads(block, len(found), _grain(here))
    return found


def _grain(here: Problem) -> int:
    """How many draws a block takes at a time."""
    return max(1, _CACHED // (len(here.natural.count) * here.features.shape[1]))


CHAINS = RunEngine(NAME, start_chains, step_chains, goes_on=True)


# ---- parallel tempering ------------------------------------------------------------------------------------------


def start_replicas(method: ParallelTempering, model: Mixture, data: Data, keys: Any, kinds: Any = ()) -> Replicas:
    """`ParallelTempering.init` of every ensemble."""
    r, k = len(keys), method.replicas
    with np.errstate(all="ignore"):
        every = hashes(np.asarray(jax.random.key_data(keys)), 3 + np.arange(k)).reshape((r * k, 2))
        starts = small_mixture.start(method, model, data, wrap(every))
        drawn = problem(model, data).started(Streams(_streams(keys, _START, 0, 1)[0]), starts.blocks)
    betas = np.asarray(power_ladder(k) if method.ladder is None else method.ladder)
    whole = np.zeros(r, dtype=np.int64)
    places = np.broadcast_to(np.arange(k), (r, k)).copy()
    states = _unflatten(State(problem(model, data).to_draws(drawn), {}), r)
    return Replicas(states, np.broadcast_to(betas, (r, k)).copy(), np.zeros((r, k - 1)), places, whole, whole.copy())  # type: ignore[arg-type]


def step_replicas(
    method: ParallelTempering, model: Mixture, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, Any]]:
    """`_chunk` of `inference/run.py`, with `ParallelTempering.step` of all ensembles at once."""
    here = problem(model, data)
    first, last = int(carry.steps), int(limit)
    state = jax.tree.map(np.asarray, carry.states)
    drawn = here.from_draws(jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), state.states.draws))
    infos = []
    with np.errstate(all="ignore"):
        levels = here.levels(drawn)
        for own in _streams(keys, _UP, first, last):
            state, drawn, levels, info = _sweep_and_swap(method, here, state, drawn, levels, Streams(own))
            infos.append(info)
        found = {name: np.stack([info[name] for info in infos]) for name in infos[0] if name != "target"}
        targets = Drawn(*(np.stack(leaves) for leaves in zip(*(info["target"] for info in infos), strict=True)))
        every = Drawn(*(leaf.reshape((-1, *leaf.shape[2:])) for leaf in targets))
        found["log_joint"] = found["log_joint"] + here.log_prior(every).reshape(found["log_joint"].shape)
    state = state._replace(states=_unflatten(State(here.to_draws(drawn), {}), len(keys)))
    return carry._replace(states=state, steps=np.asarray(last)), {"draws": here.to_draws(targets)} | found


def _sweep_and_swap(
    method: ParallelTempering, here: Problem, state: Replicas, drawn: Drawn, levels: Levels, streams: Streams
) -> tuple[Replicas, Drawn, Levels, dict[str, Any]]:
    betas = np.asarray(state.betas)
    r, k = betas.shape
    for _ in range(method.thin):
        drawn = here.sweep(streams, drawn, levels, betas.ravel())
        levels = here.levels(drawn)
    below, above = np.column_stack([betas[:, :1], betas[:, :-1]]), np.column_stack([betas[:, 1:], betas[:, -1:]])
    energy, slopes = (part.reshape((r, k)) for part in here.potential_and_slope(drawn, levels, betas.ravel()))
    lower, higher = (here.potential(drawn, levels, part.ravel()).reshape((r, k)) for part in (below, above))
    forward, backward = (higher - energy)[:, :-1], (energy - lower)[:, 1:]
    acceptance = np.exp(np.minimum(forward - backward, 0.0))
    info = {
        "target": drawn.at(slice(k - 1, None, k)), "log_joint": energy[:, -1], "forward": forward, "backward": backward,
        "slopes": slopes, "acceptance": acceptance, "betas": betas, "identity": state.identity,
    }  # fmt: skip
    pairs = np.arange(k - 1)
    if method.swaps == "even-odd":
        offered = pairs % 2 == np.asarray(state.step)[:, None] % 2
    else:
        offered = pairs == np.floor(streams.uniform(1) * (k - 1))
    swap = offered & (streams.uniform(k - 1) < acceptance)
    order = np.broadcast_to(np.arange(k), (r, k)).copy()
    order[:, :-1] += swap
    order[:, 1:] -= swap
    index = (order + k * np.arange(r)[:, None]).ravel()
    state = _next_round(method, state, acceptance, np.take_along_axis(np.asarray(state.identity), order, axis=1))
    return state, drawn.at(index), Levels(*(part[index] for part in levels)), info


def _next_round(method: ParallelTempering, state: Replicas, acceptance: np.ndarray, identity: np.ndarray) -> Replicas:
    """`ParallelTempering._next_round`; all ensembles have made the same number of steps."""
    step = np.asarray(state.step) + 1
    rejection = state.rejection + (1.0 - acceptance - state.rejection) / (step - state.began)[:, None]
    state = state._replace(rejection=rejection, identity=identity, step=step)  # type: ignore[arg-type]
    if step[0] not in method._round_ends():
        return state
    betas = np.stack([equal_rejection(*both, np) for both in zip(state.betas, rejection, strict=True)])
    return state._replace(betas=betas, rejection=np.zeros_like(rejection), began=step)  # type: ignore[arg-type]


def _unflatten(tree: Any, rows: int) -> Any:
    return jax.tree.map(lambda leaf: leaf.reshape((rows, -1, *leaf.shape[1:])), tree)


REPLICAS = RunEngine(NAME, start_replicas, step_replicas)


# ---- annealed importance sampling --------------------------------------------------------------------------------


def start_particles(method: AIS, model: Mixture, data: Data, keys: Any, kinds: Any = ()) -> Particle:
    """`AIS.init` of every particle."""
    from .annealed_importance import Particle

    here, size = problem(model, data), len(keys)
    with np.errstate(all="ignore"):
        drawn = here.prior_draws(Streams(_streams(keys, _START, 0, 1)[0]), 1)
        both = [here.potential(drawn, here.levels(drawn), np.full(size, beta)) for beta in method.betas[:2]]
    up = np.ones(size, dtype=np.int64)
    return Particle(State(here.to_draws(drawn), {}), both[1] - both[0], up, up.copy())  # type: ignore[arg-type]


def step_particles(
    method: AIS, model: Mixture, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, Any]]:
    """`_chunk` of `inference/run.py`, with `AIS.step` of a block of particles after the other."""
    here = problem(model, data)
    first, last = int(carry.steps), int(limit)
    state = jax.tree.map(np.array, carry.states)
    drawn, size = here.from_draws(state.state.draws), len(state.rung)
    own = _streams(keys, _UP if state.move[0] > 0 else _DOWN, first, last)
    history = np.empty((last - first, size))
    written = Drawn(*(np.array(leaf) for leaf in drawn))

    def block(begin: int, end: int) -> None:
        some = slice(begin, end)
        with np.errstate(all="ignore"):
            _walk(method, here, state, some, written, own[:, some], history[:, some])

    in_threads(block, size, _grain(here))
    state = state._replace(state=State(here.to_draws(written), {}))
    return carry._replace(states=state, steps=np.asarray(last)), {"log_weight": history}


def _walk(
    method: AIS, here: Problem, state: Any, some: slice, written: Drawn, own: np.ndarray, history: np.ndarray
) -> None:
    """Make the steps of some particles; overwrites their parts of `state`, `written` and `history`."""
    betas, drawn = method.betas, written.at(some)
    levels = here.levels(drawn)
    for number, row in enumerate(own):
        streams, rung = Streams(row), state.rung[some]
        for _ in range(method.sweeps):
            drawn = here.sweep(streams, drawn, levels, betas[rung])
            levels = here.levels(drawn)
        there = np.clip(rung + state.move[some], 0, len(betas) - 1)
        before, after = (here.potential(drawn, levels, betas[at]) for at in (rung, there))
        history[number] = state.log_weight[some]
        state.log_weight[some] += state.move[some] * np.where(there == rung, 0.0, after - before)
        state.rung[some] = there
    for leaf, fresh in zip(written, drawn, strict=True):
        leaf[some] = fresh


PARTICLES = RunEngine(NAME, start_particles, step_particles, goes_on=True)
