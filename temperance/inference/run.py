"""The only loop: steps in compiled chunks, convergence, history, progress and interruption between them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from .._heap import keep
from ..errors import BoundDecreased, NumericalFailure
from ..families import Family
from ..models import Data, Model, Way
from ..models._answers import Restarting
from ..numerics.keys import split
from ..numerics.place import on_device
from ..numerics.threads import one_blas_thread
from ..programs import awaiting, program
from ._method import Method, Run
from .checkpoint import Checkpoint, join
from .interruption import Interruption, in_time
from .progress import Progress
from .streamed import Streamed

_ROUNDINGS = 256  # roundings of the largest term by which the bound may fall
CAPACITY = 64  # steps whose history one compiled call can hold


class Carry(NamedTuple):
    """The state of all restarts; with the keys, all that a checkpoint needs."""

    states: PyTree  # leading axis: restarts
    recent: Float[Array, "r 3"]  # the last three bounds
    done: Bool[Array, " r"]
    steps: Int[Array, ""]


class Pace(NamedTuple):
    """When to stop, and how long a chunk may be: in seconds and in steps."""

    budget: int
    tol: Float[Array, ""]
    span: float
    longest: int


@one_blas_thread()
def run(
    method: Method,
    model: Model,
    data: Data | Streamed,
    key: Key[Array, ""],
    progress: Progress,
    start: PyTree = None,
    checkpoint: Checkpoint | None = None,
    which: slice = slice(None),
) -> Run:
    """Run all restarts (or only `which`) side by side until each has converged or the budget is spent.

    On a stream, every step sees another piece. `start` holds the initial states, one for each restart; by default the
    method makes them. With a `checkpoint` the run continues from the state that an earlier run stored.
    """
    from ..kernels import run_engine, walk_engine

    began = time.perf_counter()
    keep()
    engine = run_engine(method, model, data)
    engine = engine if engine is None or start is None or engine.goes_on else None
    steps = _chunk if engine is None else engine.chunk
    if not isinstance(data, Streamed) and not method.counts_rows:
        data = data.uncounted()
    budget = getattr(method, "max_iter", 1)
    tol = on_device(np.float64(getattr(method, "tol", 0.0)))
    compiled = method.compiled()
    keys = split(key, getattr(method, "restarts", 1), which)
    numbers = range(getattr(method, "restarts", 1))[which]
    first = data.sample if isinstance(data, Streamed) else data
    kinds = _kinds_of_restarts(model, first, numbers) if method.varied else ()
    strict = which == slice(None) or not method.may_fail  # a part of the restarts may all fail, if others do not
    # Chunks of a fifth of a second: smooth progress, prompt interruption, no visible cost.
    pace = Pace(budget, tol, 1.0 if progress.silent else 0.2, 1 if isinstance(data, Streamed) else CAPACITY)
    history: list[dict[str, np.ndarray]] = []
    with progress.task(method.name, budget * method.sweeps) as report:
        carry = _first_carry(engine, compiled, model, first, keys, start, kinds, tol if first is data else None)
        if checkpoint is not None:
            carry, history = _resume(checkpoint, compiled, model, data, keys, carry, tol)
        pieces = data.pieces(int(carry.steps)) if isinstance(data, Streamed) else itertools.repeat(data)
        with _closing(pieces), Interruption() as interruption:
            for moved, part in _chunks(steps, (compiled, model, keys), pieces, carry, pace, interruption):
                carry = moved
                history.append(part)
                if strict:
                    taken = len(jax.tree.leaves(part)[0])
                    check(method, model, part, [None, *history][-2], int(carry.steps) - taken, first)
                if checkpoint is not None:
                    checkpoint.save(carry, history)
                report(int(carry.steps) * method.sweeps, part)
    if checkpoint is not None:
        checkpoint.save(carry, history, now=True)
    if method.exact and not np.asarray(carry.done).all():
        carry, last = _last_look(steps, (compiled, model, first, keys), carry, tol)
        if strict:
            check(method, model, last, history[-1] if history else None, int(carry.steps) - 1, first)
    bounds = np.asarray(carry.recent)[:, -1]
    converged = np.asarray(carry.done) & ~np.isnan(bounds)
    name = walk_engine(model, first, Way()).name if engine is None else engine.name
    return Run(carry.states, bounds, join(history), converged, time.perf_counter() - began, interruption.asked, name)


def _chunks(
    steps: Any,
    fixed: tuple[Method, Model, Key[Array, " r"]],
    pieces: Iterator[Data],
    carry: Carry,
    pace: Pace,
    interruption: Interruption,
) -> Iterator[tuple[Carry, dict[str, np.ndarray]]]:
    """Yield the carry and the history of one chunk after another, until all restarts are done, the budget is spent or
    Ctrl-C comes."""
    method, model, keys = fixed
    chunk = min(4, pace.longest)
    while int(carry.steps) < pace.budget and not np.asarray(carry.done).all() and not interruption.asked:
        in_time()
        clock = time.perf_counter()
        before = int(carry.steps)
        limit = on_device(np.int64(min(before + chunk, pace.budget)))
        try:
            carry, infos = steps(method, model, next(pieces), keys, carry, limit, pace.tol, on_device(np.False_))
            taken = int(carry.steps) - before
        except KeyboardInterrupt:
            interruption.asked = True
            return
        yield carry, jax.tree.map(lambda value, taken=taken: np.asarray(value)[:taken], infos)
        rate = taken / max(time.perf_counter() - clock, 1e-6)
        chunk = int(np.clip(pace.span * rate, 1, pace.longest))


def _last_look(steps: Any, fixed: tuple[Any, ...], carry: Carry, tol: Float[Array, ""]) -> tuple[Carry, Any]:
    """The bound of each restart when the budget runs out, by one more step that changes nothing."""
    after = on_device(np.int64(int(carry.steps) + 1))
    carry, infos = steps(*fixed, carry, after, tol, on_device(np.True_))
    return carry, jax.tree.map(lambda value: np.asarray(value)[:1], infos)


def _first_carry(
    engine: Any,
    method: Method,
    model: Model,
    data: Data,
    keys: Key[Array, " r"],
    start: PyTree,
    kinds: tuple[str, ...],
    tol: Float[Array, ""] | None,
) -> Carry:
    """The initial states of all restarts: the given ones, or those of the method (from compiled code or an engine)."""
    if engine is not None:
        begun = engine.start(method, model, data, keys, kinds) if start is None else start
        return _host_carry(begun, len(keys))
    if start is not None:
        return _carry(start, len(keys))
    if tol is None:  # pieces of a stream differ in shape from its sample
        return _start(method, model, data, keys, kinds)

    def ahead(carry: Carry) -> None:
        """Compile the steps while the start is compiled."""
        _chunk.ahead(method, model, data, keys, carry, on_device(np.int64(0)), tol, on_device(np.False_))

    with awaiting(ahead):
        return _start(method, model, data, keys, kinds)


def _resume(
    checkpoint: Checkpoint,
    method: Method,
    model: Model,
    data: Data | Streamed,
    keys: Key[Array, " r"],
    carry: Carry,
    tol: Float[Array, ""],
) -> tuple[Carry, list[dict[str, np.ndarray]]]:
    """The carry and the history that an earlier run stored, or the initial carry, which is then stored."""
    piece = data.piece_shapes() if isinstance(data, Streamed) else data
    no = jnp.asarray(False)
    _, infos = eqx.filter_eval_shape(_chunk, method, model, piece, keys, carry, carry.steps, tol, no)
    kept = checkpoint.read(carry, infos)
    if kept is None:
        checkpoint.begin(carry)
        return carry, []
    return kept[0], [] if kept[1] is None else [kept[1]]


@contextlib.contextmanager
def _closing(pieces: Any) -> Iterator[None]:
    """End the thread that reads ahead, if there is one."""
    try:
        yield
    finally:
        getattr(pieces, "close", lambda: None)()


def _kinds_of_restarts(model: Model, data: Data, numbers: range) -> tuple[str, ...]:
    """How each restart begins, for models whose restarts differ in kind."""
    if not isinstance(model, Restarting):
        return ()
    return tuple(filter(None, (model.kind_of_restart(number, data) for number in numbers)))


@program
def _start(method: Method, model: Model, data: Data, keys: Key[Array, " r"], kinds: tuple[str, ...] = ()) -> Carry:
    """The initial states; with `kinds`, one per restart, restarts of a kind are made side by side."""
    if not kinds:
        return _carry(jax.vmap(lambda key: method.init(key, model, data))(keys), keys.shape[0])
    parts, places = [], []
    for kind in dict.fromkeys(kinds):
        places.append(np.flatnonzero(np.array(kinds) == kind))
        assert isinstance(model, Restarting)
        begin = functools.partial(method.init, model=model.starting(kind), data=data)
        parts.append(jax.vmap(begin)(keys[places[-1]]))
    back = np.argsort(np.concatenate(places))
    states = jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[back], *parts)
    return _carry(states, keys.shape[0])


def _carry(states: PyTree, restarts: int) -> Carry:
    # With explicit dtypes: weak ones would become strong in the first chunk, and the second would compile again.
    recent = jnp.full((restarts, 3), -jnp.inf, dtype=jnp.float64)
    return Carry(states, recent, jnp.zeros(restarts, dtype=bool), jnp.asarray(0))


def _host_carry(states: PyTree, restarts: int) -> Any:
    return Carry(states, np.full((restarts, 3), -np.inf), np.zeros(restarts, dtype=bool), np.asarray(0))  # type: ignore[arg-type]


@program
def _chunk(
    method: Method,
    model: Model,
    data: Data,
    keys: Key[Array, " r"],
    carry: Carry,
    limit: Int[Array, ""],
    tol: Float[Array, ""],
    hold: Bool[Array, ""],
) -> tuple[Carry, dict[str, Array]]:
    """Take steps until `limit`, or until every restart is done; a restart that is done no longer changes.

    A step reports the bound of the state from which it starts, so a restart keeps the state at which it was found to be
    done, and its bound is exact. With `hold` the steps only report, and no state moves.
    """

    def advance(key: Key[Array, ""], state: PyTree, recent: Array, done: Array, step: Array) -> Any:
        fresh, info = method.step(jax.random.fold_in(key, step), model, state, data)
        finished = done
        if "elbo" in info:
            recent = jnp.where(done, recent, jnp.append(recent[1:], info["elbo"]))
            # A run never ends in a phase before the last one.
            finished = done | (method.finished(recent + unit, tol) & info.pop("final", jnp.asarray(True)) & ~hold)
            if method.may_fail:
                finished = finished | jnp.isnan(recent[-1])
            info = info | {"elbo": recent[-1]}
        kept = jax.tree.map(lambda old, new: jnp.where(finished | hold, old, new), state, fresh)
        if "done" in info:
            # A step that is known to be the last one is taken.
            finished = finished | (info.pop("done") & ~hold)
        return kept, recent, finished, info

    unit = model.units.log_unit(data)
    # Under its own jit the step is traced once, although its shapes are needed first.
    every = jax.jit(jax.vmap(advance, in_axes=(0, 0, 0, 0, None)))
    shapes = jax.eval_shape(every, keys, carry.states, carry.recent, carry.done, carry.steps)[3]
    empty = jax.tree.map(lambda leaf: jnp.zeros((CAPACITY, *leaf.shape), leaf.dtype), shapes)
    first = carry.steps

    def unfinished(loop: tuple[Carry, dict[str, Array]]) -> Array:
        return (loop[0].steps < limit) & ~jnp.all(loop[0].done)

    def body(loop: tuple[Carry, dict[str, Array]]) -> tuple[Carry, dict[str, Array]]:
        carry, infos = loop
        states, recent, done, info = every(keys, carry.states, carry.recent, carry.done, carry.steps)
        infos = jax.tree.map(lambda buffer, value: buffer.at[carry.steps - first].set(value), infos, info)
        return Carry(states, recent, done, carry.steps + 1), infos

    return jax.lax.while_loop(unfinished, body, (carry, empty))


def check(
    method: Method,
    model: Model,
    part: dict[str, np.ndarray],
    before: dict[str, np.ndarray] | None,
    first: int,
    data: Data | None = None,
) -> None:
    """Raise if a bound is NaN, or if a bound that must rise falls by more than the rounding of its largest terms."""
    bounds = part.get("elbo", part.get("batch_elbo"))
    if bounds is None:
        return
    failed = ~np.isfinite(bounds) if method.monotone else np.isnan(bounds)
    if failed[-1].all() if method.may_fail else failed.any():
        step, restart = np.argwhere(failed)[0]
        here = jax.tree.map(lambda values: values[step, restart], part)
        raise NumericalFailure(
            f"{method.name} met an impossible state at step {first + step} of restart {restart}: {method.failure(here)}"
        )
    if not method.monotone:
        return
    joined = bounds if before is None else np.concatenate([before["elbo"][-1:], bounds])
    fall = joined[:-1] - joined[1:]
    allowed = model.rounding * (1.0 + np.abs(joined[:-1]))
    if (fall > allowed).any():
        allowed = allowed + _ROUNDINGS * np.finfo(float).eps * largest_term(model, data)
    if (fall > allowed).any():
        step, restart = np.argwhere(fall > allowed)[0]
        raise BoundDecreased(
            f"the bound fell by {fall[step, restart]:.3g} at step {first + step} of restart {restart}; "
            f"coordinate ascent never does that, so the model's groups or its log_evidence are wrong"
        )


def largest_term(model: Model, data: Data | None) -> float:
    """The size of the largest terms that cancel in the bound: log normalisers of the prior, and log n! for counts.

    The log normaliser of Gamma(10¹²) is 3 · 10¹³; sums of such terms keep only two or three digits after the point.
    """
    priors = [np.asarray(p.log_normaliser()) for p in model.prior.values() if isinstance(p, Family)]
    size = sum(float(np.abs(value[np.isfinite(value)]).sum()) for value in priors)
    for leaf in jax.tree.leaves(data.values) if data is not None else ():
        values = np.asarray(leaf)
        if values.dtype.kind == "f" and values.size and (values >= 0).all() and (values == np.round(values)).all():
            size += float((values * np.log1p(values)).sum())
    return size
