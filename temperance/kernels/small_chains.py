"""Variational Bayes of short hidden Markov models in NumPy: XLA would compile for longer than these fits run.

Forward–backward (`numerics/chains.py`) goes over blocks of steps side by side. Step t multiplies the filtered
probabilities by M_t(i, j) = A_ij p(x_t | j), or, where a sequence begins, by π_j p(x_t | j) for every i. The product of
a block's matrices carries the probabilities from the block's first step to its last, so a pass over these products
gives what each block begins and ends with.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..families import Dirichlet
from ..families.dirichlet import DirichletVector
from ..models._blocks import Posterior
from ..models.mixture.likelihoods import log_unit
from ..numerics.chains import FIRST, ON
from ..numerics.keys import hashes, is_host
from .small_mixture import _STARTS, Flat, Form, _dirichlet, _form, _pack, _starting_shares, flat

if TYPE_CHECKING:
    from ..models import Data
    from ..models.hidden_markov import HMM

NAME, GOES_ON = "small hidden Markov model (numpy)", True
_LENGTH = 32  # steps of a block: a power of two
_NUMBERS = 10_000  # steps × states: beyond it the compiled sweep is worth its compilation


def when(method: Any, model: HMM, data: Data) -> bool:
    """Whether this engine runs the method: plain coordinate ascent by `tp.VB` on few steps."""
    from ..inference.variational.coordinate import VB

    mixture, x = model.mixture, data.values
    return (
        type(method) is VB
        and data.engine == model.engine == "auto"
        and method.batches is None
        and model.begin is None
        and mixture.start.kind in _STARTS
        and mixture.start.kind != "mixed"
        and not (mixture.missing or mixture.single or data.is_spread)
        and isinstance(_form(mixture), Form)
        and x.starts.shape[0] * model.n_states < _NUMBERS
        and np.asarray(x.starts).max() <= FIRST
        and is_host()
        and jax.default_backend() == "cpu"
    )


def start(method: Any, model: HMM, data: Data, keys: Any, kinds: tuple[str, ...] = ()) -> Posterior:
    """`VB.init` of every restart."""
    problem = _problem(model, data)
    own = hashes(np.asarray(jax.random.key_data(keys)), [0])[:, 0]
    shares = _starting_shares(problem.emissions, own, model.mixture.start.kind)
    shares = np.broadcast_to(shares, (len(own), *shares.shape[1:]))
    pairs = (shares[:, :, :-1] * problem.on[1:]) @ np.swapaxes(shares[:, :, 1:], 1, 2)
    return problem.posterior(problem.updated(shares * problem.emissions.weights, shares @ problem.first, pairs))


def chunk(
    method: Any, model: HMM, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """`_chunk` of `inference/run.py`, but no work for a restart that is done."""
    problem = _problem(model, data)
    q, recent, done = problem.flat(carry.states), np.array(carry.recent), np.array(carry.done)
    small, still, bounds = float(tol), bool(hold), []
    unit = log_unit(model.mixture, np.asarray(data.values.x), np.asarray(data.weights), np)
    with np.errstate(all="ignore"):
        for _ in range(int(carry.steps), int(limit)):
            going = np.flatnonzero(~done)
            if not going.size:
                break
            fresh, bound = problem.sweep(State(*(part[going] for part in q)))
            recent[going] = np.column_stack([recent[going, 1:], bound])
            if not still:
                done[going] = method.finished(recent[going].T + unit, small)
                moved = going[~done[going]]
                for part, new in zip(q, fresh, strict=True):
                    part[moved] = new[~done[going]]
            bounds.append(recent[:, -1].copy())
    after = carry._replace(recent=recent, done=done, steps=np.asarray(int(carry.steps) + len(bounds)))
    return after._replace(states=problem.posterior(q)), {"elbo": np.array(bounds)}


class State(NamedTuple):
    """Natural parameters of the blocks, with a leading axis of restarts."""

    emissions: np.ndarray  # r k f
    initial: np.ndarray  # r k
    transitions: np.ndarray  # r k k


class Problem(NamedTuple):
    model: Any
    emissions: Flat
    log_base: np.ndarray
    begins: np.ndarray  # whether a sequence begins with the step
    first: np.ndarray  # the weight of each step that begins a sequence
    on: np.ndarray  # the weight of each step that follows another
    prior: State
    log_prior: np.ndarray  # A(η⁰)

    def sweep(self, q: State) -> tuple[State, np.ndarray]:
        """The state after a sweep, and the bound before it: `Model.sweep`."""
        values, means = self._values_and_means(q)
        bound = values - self.log_prior
        for eta, prior, mean in zip(q, self.prior, means, strict=True):
            bound = bound + ((prior - eta) * mean).reshape((len(eta), -1)).sum(axis=1)
        likelihood = means.emissions @ self.emissions.features.T + self.log_base
        found = expected(means.initial, means.transitions, likelihood, self.begins, self.on)
        weighted = found.states * self.emissions.weights
        bound = bound + found.increments @ self.emissions.weights
        return self.updated(weighted, found.states @ self.first, found.pairs), bound

    def _values_and_means(self, q: State) -> tuple[np.ndarray, State]:
        """A(η) of all blocks together, and ∇A(η)."""
        value, emissions = self.emissions.value_and_mean(q.emissions)
        of_rows, (rows,) = _dirichlet(np.concatenate([q.initial[:, None], q.transitions], axis=1))
        return value + of_rows.sum(axis=1), State(emissions, rows[:, 0], rows[:, 1:])

    def updated(self, shares: np.ndarray, initial: np.ndarray, pairs: np.ndarray) -> State:
        """The prior plus the expected statistics of the states."""
        prior = self.prior
        emissions = prior.emissions + shares @ self.emissions.features
        return State(emissions, prior.initial + initial, prior.transitions + pairs)

    def posterior(self, q: State) -> Posterior:
        structure = jax.tree.structure(self.model.prior["emissions"])
        blocks = {
            "emissions": jax.tree.unflatten(structure, self.emissions.unpack(q.emissions)),
            "initial": Dirichlet.from_natural(DirichletVector(q.initial)),  # type: ignore[arg-type]
            "transitions": Dirichlet.from_natural(DirichletVector(q.transitions)),  # type: ignore[arg-type]
        }
        return Posterior(blocks, {})

    def flat(self, states: Posterior) -> State:
        blocks = {name: jax.tree.leaves(family) for name, family in states.blocks.items()}
        return State(_pack(blocks["emissions"]), *(np.array(blocks[name][0]) for name in ("initial", "transitions")))


def _problem(model: HMM, data: Data) -> Problem:
    problem = flat(model.mixture, dataclasses.replace(data, values=data.values.x))
    n = len(problem.weights)
    starts = np.asarray(data.values.starts)[:n]
    first, on = (np.where(starts == kind, problem.weights, 0.0) for kind in (FIRST, ON))
    rows = [np.asarray(jax.tree.leaves(model.prior[name])[0])[None] for name in ("initial", "transitions")]
    assert isinstance(problem.form, Form)
    log_base, prior = problem.form.log_base(problem.rows), State(problem.prior[None], *rows)
    found = Problem(model, problem, log_base, starts == FIRST, first, on, prior, np.zeros(1))
    return found._replace(log_prior=found._values_and_means(prior)[0])


# ---- forward–backward ----------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    increments: np.ndarray  # (r, t) log p(x_t | x_1 … x_(t−1))
    states: np.ndarray  # (r, k, t) p(z_t | all x)
    pairs: np.ndarray  # (r, k, k) Σ_t w_t p(z_(t−1), z_t | all x)


def expected(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, begins: np.ndarray, weights: np.ndarray
) -> Expected:
    """Expectations under the posterior of the paths: `expected_statistics` of `numerics/chains.py`.

    All but `begins` (t,) and `weights` (t,) of the steps that follow another are logarithms with a leading axis of
    restarts; `likelihood` is (r, k, t).
    """
    found = in_blocks(initial, transition, likelihood, begins, weights)
    if np.isfinite(found.increments).all() and np.isfinite(found.states).all():
        return found
    return step_by_step(initial, transition, likelihood, begins, weights)  # every path underflowed


def step_by_step(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, begins: np.ndarray, weights: np.ndarray
) -> Expected:
    """The expectations computed in logarithms, one step after the other."""
    t = len(begins)
    seen = np.moveaxis(likelihood, 2, 0)
    forward, ahead, increments = np.empty_like(seen), np.zeros_like(seen), np.empty((t, len(initial)))
    for step in range(t):
        into = initial if begins[step] else _log_sum(forward[step - 1][:, :, None] + transition, 1)
        increments[step] = _log_sum(into + seen[step], 1)
        forward[step] = into + seen[step] - increments[step][:, None]
    for step in range(t - 2, -1, -1):
        if not begins[step + 1]:
            after = (seen[step + 1] + ahead[step + 1] - increments[step + 1][:, None])[:, None]
            ahead[step] = _log_sum(transition + after, 2)
    here = seen + ahead - increments[:, :, None]
    pairs = np.exp(forward[:-1, :, :, None] + transition + here[1:, :, None]) * weights[1:, None, None, None]
    return Expected(increments.T, np.moveaxis(np.exp(forward + ahead), 0, 2), pairs.sum(axis=0))


def _log_sum(terms: np.ndarray, axis: int) -> np.ndarray:
    top = terms.max(axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(terms - top).sum(axis=axis))


def in_blocks(
    initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray, begins: np.ndarray, weights: np.ndarray
) -> Expected:
    """The expectations computed by products of probabilities, with blocks of steps side by side."""
    r, k, t = likelihood.shape
    top = likelihood.max(axis=1)
    length, blocks = _LENGTH, -(-t // _LENGTH)
    seen = np.ones((r, blocks * length, k))
    seen[:, :t] = np.swapaxes(np.exp(likelihood - top[:, None]), 1, 2)
    enters = np.ones(blocks * length, dtype=bool)
    enters[:t] = begins
    rows, start = np.exp(transition), np.exp(initial)
    matrices = np.where(enters[None, :, None, None], start[:, None, None], rows[:, None]) * seen[:, :, None]
    # Step l of all blocks is one array.
    steps = np.ascontiguousarray(np.moveaxis(matrices.reshape((r, blocks, length, k, k)), 2, 0))
    through = _through(steps)
    forward, scale = _forward(steps, through)
    ahead = _ahead(steps, through, scale)
    forward, ahead = (np.moveaxis(part, 0, 2).reshape((r, -1, k))[:, :t] for part in (forward, ahead))
    scale = np.moveaxis(scale, 0, 2).reshape((r, -1))[:, :t]
    both = forward * ahead
    total = both.sum(axis=2)
    here = (seen[:, :t] * ahead * (weights / (scale * total))[..., None])[:, 1:]
    pairs = rows * (np.swapaxes(forward[:, :-1], 1, 2) @ here)
    return Expected(np.log(scale) + top, np.swapaxes(both / total[..., None], 1, 2), pairs)


def _through(steps: np.ndarray) -> np.ndarray:
    """The product of each block's matrices, up to a factor: (r, blocks, k, k)."""
    while len(steps) > 1:
        steps = steps[0::2] @ steps[1::2]
        steps /= steps.max(axis=(-2, -1), keepdims=True)
    return steps[0]


def _forward(steps: np.ndarray, through: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Filtered probabilities (l, r, blocks, k), and their normalisers (l, r, blocks)."""
    r, blocks, k = through.shape[:3]
    row = np.empty((blocks, r, 1, k))
    row[0] = 1.0 / k
    for block, whole in enumerate(np.moveaxis(through, 1, 0)[:-1]):
        following = np.matmul(row[block], whole, out=row[block + 1])
        following /= np.add.reduce(following, axis=2, keepdims=True)
    forward, scale = np.empty((len(steps), r, blocks, 1, k)), np.empty((len(steps), r, blocks, 1, 1))
    here = np.moveaxis(row, 0, 1)
    for number, step in enumerate(steps):
        here = np.matmul(here, step, out=forward[number])
        here /= np.add.reduce(here, axis=3, keepdims=True, out=scale[number])
    return forward[..., 0, :], scale[..., 0, 0]


def _ahead(steps: np.ndarray, through: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The likelihood of all later data given the state of each step, up to a factor: (l, r, blocks, k)."""
    r, blocks, k = through.shape[:3]
    after = np.ones((blocks, r, k, 1))
    for block in range(blocks - 1, 0, -1):
        before = np.matmul(through[:, block], after[block], out=after[block - 1])
        before /= np.maximum.reduce(before, axis=1, keepdims=True)
    ahead = np.empty((len(steps), r, blocks, k, 1))
    ahead[-1] = np.moveaxis(after, 0, 1)
    scaled = steps / scale[..., None, None]
    for number in range(len(steps) - 1, 0, -1):
        np.matmul(scaled[number], ahead[number], out=ahead[number - 1])
    return ahead[..., 0]
