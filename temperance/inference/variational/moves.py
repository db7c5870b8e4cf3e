"""Moves out of bad optima of a mixture: empty a component, merge two, split one, each kept only if the bound rises.

The number of components is fixed, so nothing changes shape and nothing compiles again: a component that is
emptied goes back to its prior and is free, and a split fills a free one. Where none is free, a merge and a split
are proposed together (Ueda et al., 2000). A move is a change of the responsibilities, followed by a few ordinary
sweeps; the exact bound of the whole data decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...models import Data, Model, Posterior
from ...models._answers import Mergeable, Movable
from ...models._data import over_blocks
from ...models._model import Means, add, means
from .._method import Again, Result, state_of

KINDS = ("delete", "merge", "split")

_SWEEPS = 20  # sweeps after a proposal, before it is judged
_TRIES = 5  # proposals of each kind in a round, the most promising first
_ROUNDS = 100  # limit of accepted moves, far more than any mixture should need
_HELD = 0.5  # a component with fewer data than this is free


class Move(NamedTuple):
    """A change of responsibilities r: columns left out, then r @ fold, then one side of `source` to `target`."""

    keep: Float[Array, " k"]
    fold: Float[Array, "k k"]
    source: Int[Array, ""]
    target: Int[Array, ""]


class Study(NamedTuple):
    """The quantities by which proposals are chosen."""

    held: Float[Array, " k"]  # data in each component
    overlap: Float[Array, "k k"]  # the cosine between two components' responsibilities
    axis: Float[Array, "k c"]  # a direction in which each component is long, in the data's coordinates
    centre: Float[Array, " k"]  # the position of its mean on that axis


class Search(NamedTuple):
    """The kinds of moves to try, the share of the bound that a move must gain, the number of sweeps, and the number of
    proposals side by side."""

    kinds: tuple[str, ...]
    threshold: float
    budget: int
    restarts: int


def improve(
    key: Key[Array, ""],
    model: Movable,
    data: Data,
    result: Result,
    again: Again,
    search: Search,
) -> Result:
    """Make moves from the best restart until none raises the bound; `again(states, sweeps)` continues the method."""
    best, bound, converged = result.state, result.log_evidence, result.converged
    assert bound is not None
    accepted: list[str] = []
    bounds: list[float] = []
    for number in range(_ROUNDS):
        study = _study(jax.random.fold_in(key, number), model, best, data)
        found = _first_better(model, data, best, bound + search.threshold * (1.0 + abs(bound)), study, again, search)
        if found is None:
            break
        name, state = found
        run = again(_repeat(state, search.restarts), search.budget)
        best, bound = state_of(run.states, 0), float(run.bounds[0])
        converged = bool(run.converged[0]) and not run.interrupted
        accepted.append(name)
        bounds.append(bound)
        if run.interrupted:
            break
    history = result.history | {
        "elbo": np.append(result.history["elbo"], bounds),
        "moves": np.asarray(accepted, dtype=np.str_),
    }
    return result._replace(state=best, log_evidence=bound, history=history, converged=converged)


def _first_better(
    model: Movable,
    data: Data,
    best: Posterior,
    goal: float,
    study: Study,
    again: Again,
    search: Search,
) -> tuple[str, Posterior] | None:
    """The first proposal whose bound reaches the goal; one proposal per restart is tried side by side."""
    proposals = list(_proposals(model, study, search.kinds))
    for first in range(0, len(proposals), search.restarts):
        names, changes = zip(*proposals[first : first + search.restarts], strict=True)
        padded = [*changes, *itertools.repeat(changes[-1], search.restarts - len(changes))]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded)
        run = again(_apply(model, best, data, study, stacked), _SWEEPS)
        if run.interrupted:
            return None
        winner = int(np.argmax(np.where(np.isnan(run.bounds), -np.inf, run.bounds)[: len(names)]))
        if run.bounds[winner] > goal:
            return names[winner], state_of(run.states, winner)
    return None


def merge_alike(
    model: Model, data: Data, result: Result, again: Again, gain: float, budget: int, restarts: int
) -> Result:
    """Merge parts that are alike: all pairs, half of them, a quarter, …, whichever raises the bound most; repeat while
    the bound gains at least the share `gain`."""
    merged = False
    while proposals := _mergers(model, result.state, data):
        tried: list[tuple[float, Posterior]] = []
        for first in range(0, len(proposals), restarts):
            some = [*proposals[first : first + restarts], *itertools.repeat(proposals[-1], restarts)][:restarts]
            run = again(jax.tree.map(lambda *leaves: jnp.stack(leaves), *some), _SWEEPS)
            if run.interrupted:
                return result
            winner = int(np.nanargmax(run.bounds))
            tried.append((float(run.bounds[winner]), state_of(run.states, winner)))
        bound, state = max(tried, key=lambda pair: pair[0])
        assert result.log_evidence is not None
        if bound <= result.log_evidence + gain * (1.0 + abs(result.log_evidence)):
            break
        result, merged = result._replace(state=state, log_evidence=bound), True
    if not merged:
        return result
    run = again(_repeat(result.state, restarts), budget)
    return result._replace(
        state=state_of(run.states, 0),
        log_evidence=float(run.bounds[0]),
        history=result.history | {"elbo": np.append(result.history["elbo"], run.bounds[0])},
        converged=bool(run.converged[0]) and not run.interrupted,
    )


def _mergers(model: Model, q: Posterior, data: Data) -> list[Posterior]:
    if not isinstance(model, Mergeable):
        return []
    found, share = [], 1.0
    while (proposal := model.merged(q, data, share)) is not None:
        found.append(proposal)
        share *= 0.5
    return found


def _repeat(state: Posterior, restarts: int) -> Posterior:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (restarts, *leaf.shape)), state)


# ---- what to propose -------------------------------------------------------------------------------------


def _proposals(model: Movable, study: Study, kinds: tuple[str, ...]) -> Iterator[tuple[str, Move]]:
    held, k = np.asarray(study.held), model.parts
    full = [int(i) for i in np.argsort(held) if held[i] >= _HELD]  # the smallest first
    free = [i for i in range(k) if held[i] < _HELD]
    pairs = sorted(itertools.combinations(sorted(full), 2), key=lambda pair: -float(study.overlap[pair]))[:_TRIES]
    largest = full[::-1][:_TRIES]
    if "weights" not in model.prior and np.any(np.diff(held) > 0):
        # Stick-breaking weights expect the components in order of size.
        yield "sort", _move(k, fold=np.eye(k)[:, np.argsort(-held, kind="stable")])
    if "delete" in kinds and len(full) > 1:
        for i in full[:_TRIES]:
            yield f"delete {i}", _move(k, without=i)
    if "merge" in kinds:
        for i, j in pairs:
            yield f"merge {j} into {i}", _move(k, fold=_merge(k, i, j))
    if "split" not in kinds:
        return
    if free:
        for i in largest:
            yield f"split {i} into {free[0]}", _move(k, source=i, target=free[0])
        return
    for (i, j), source in itertools.product(pairs[:3] if "merge" in kinds else [], largest):
        if source not in (i, j):
            yield f"merge {j} into {i}, split {source}", _move(k, fold=_merge(k, i, j), source=source, target=j)
    if "delete" in kinds:
        for i, source in itertools.product(full[:2], largest):
            if source != i:
                yield f"delete {i}, split {source}", _move(k, without=i, source=source, target=i)


def _move(k: int, without: int | None = None, fold: np.ndarray | None = None, source: int = 0, target: int = 0) -> Move:
    keep = np.ones(k)
    if without is not None:
        keep[without] = 0.0
    return Move(
        jnp.asarray(keep), jnp.asarray(np.eye(k) if fold is None else fold), jnp.asarray(source), jnp.asarray(target)
    )


def _merge(k: int, i: int, j: int) -> np.ndarray:
    fold = np.eye(k)
    fold[j] = fold[i]
    return fold


@eqx.filter_jit
def _study(key: Key[Array, ""], model: Movable, q: Posterior, data: Data) -> Study:
    m = means(q.blocks)
    rows = (data.values, data.weights)

    def gather(function: Callable[[Array, Array, Array], Any]) -> Any:
        def block(part: Any, _: Array) -> tuple[Any, tuple[()]]:
            x, weights = part
            return function(model.coordinates(x), weights, _share(model, m, x)), ()

        return over_blocks(block, rows, *data.cuts)[0]

    def moments(x: Array, weights: Array, share: Array) -> Any:
        weighted = weights[:, None] * share
        return jnp.sum(weighted, axis=0), weighted.T @ share, weighted.T @ x, weights @ x, weights @ jnp.square(x)

    held, products, first, whole, second = gather(moments)
    centre = first / jnp.maximum(held, 1e-300)[:, None]
    total = data.total_weight
    spread = jnp.sqrt(jnp.maximum(second / total - jnp.square(whole / total), 0.0))
    unit = jnp.where(spread > 0, spread, 1.0)[None]

    def stretch(_: Array, axis: Array) -> Array:
        """One power iteration on every component's covariance, in units of the columns' spread."""

        def push(x: Array, weights: Array, share: Array) -> Array:
            along = x @ (axis / unit).T - jnp.sum(centre * axis / unit, axis=1)[None]
            pull = weights[:, None] * share * along
            return (pull.T @ x - jnp.sum(pull, axis=0)[:, None] * centre) / unit

        longer = gather(push)
        size = jnp.linalg.norm(longer, axis=1, keepdims=True)
        return jnp.where(size > 0, longer / jnp.where(size > 0, size, 1.0), axis)

    # Only one iteration, from a random direction, so that another round may try another cut.
    axis = jax.lax.fori_loop(0, 4, stretch, jax.random.normal(key, centre.shape)) / unit
    norm = jnp.sqrt(jnp.maximum(jnp.diagonal(products), 1e-300))
    return Study(held, products / (norm[:, None] * norm[None, :]), axis, jnp.sum(centre * axis, axis=1))


def _share(model: Movable, m: Means, x: Any) -> Float[Array, "n k"]:
    return jax.nn.softmax(model.log_joint_z(m, x), axis=-1)


# ---- what a move does ------------------------------------------------------------------------------------


@eqx.filter_jit
def _apply(model: Movable, q: Posterior, data: Data, study: Study, moves: Move) -> Posterior:
    """The posteriors that the changed responsibilities give, for a stack of moves."""
    m = means(q.blocks)
    prior, direct = jax.grad(model.log_prior)(m), model.groups[0]

    def one(move: Move) -> Posterior:
        def block(part: Any, _: Array) -> tuple[Means, tuple[()]]:
            x, weights = part
            share = _changed(model, m, x, study, move)

            def total(m: Means) -> Float[Array, ""]:
                return jnp.sum(weights[:, None] * share * model.log_joint_z(m, x))

            return jax.grad(total)(m), ()

        messages = over_blocks(block, (data.values, data.weights), *data.cuts)[0]
        natural = add(prior, messages)
        # Blocks on which data do not depend directly (a concentration) stay unchanged.
        fresh = {name: block.with_natural(natural[name]) for name, block in q.blocks.items() if name in direct}
        return Posterior(q.blocks | fresh, q.locals)

    return jax.lax.map(one, moves)


def _changed(model: Movable, m: Means, x: Any, study: Study, move: Move) -> Float[Array, "n k"]:
    logits = jnp.where(move.keep[None] > 0, model.log_joint_z(m, x), -jnp.inf)
    share = jax.nn.softmax(logits, axis=-1) @ move.fold
    along = model.coordinates(x) @ study.axis[move.source] - study.centre[move.source]
    moved = jnp.where(along > 0, share[:, move.source], 0.0)
    # With source = target nothing moves.
    return share.at[:, move.source].add(-moved).at[:, move.target].add(moved)
