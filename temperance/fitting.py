"""The steps of a fit: prepare model and data for the method, run it, conclude, and try another method if it failed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from ._arguments import given
from .data.memory import require_memory, within_memory
from .data.stream import Stream
from .errors import InvalidParameter, NumericalFailure, UnsupportedMethod
from .inference._method import Method, Run
from .inference.checkpoint import Checkpoint
from .inference.progress import Progress, as_progress
from .inference.run import run as here
from .inference.streamed import Streamed, on_one_device, prepare_stream
from .models import Model
from .numerics.keys import fold_in, make_key

if TYPE_CHECKING:
    from .fit import Fit


@within_memory()
def prepare(model: Model, data: Any, method: Method, weights: Any, seed: Any) -> tuple[Model, Any]:
    """The model in the form that the method uses, and the data as arrays."""
    arrays: Any
    if isinstance(data, Stream):
        model, arrays = prepare_stream(model, data, method, weights, fold_in(as_key(seed), 2))
    else:
        model, arrays = model.prepare(data, weights)
    if method.row_by_row:
        arrays = on_one_device(arrays)
    if method.needs_unknowns and not model.prior:
        raise UnsupportedMethod(
            f"{method.name} infers parameters, and all those of this {type(model).__name__} are known; "
            "use tp.VB(), whose log evidence is exact where the latents can be integrated out"
        )
    _require_room(model, method)
    return method.prepare(model), arrays


def _require_room(model: Model, method: Method) -> None:
    """Refuse more restarts, particles or draws than memory can hold even at the least that each takes."""
    inner = getattr(method, "method", method)
    whole = 8 * sum(np.size(leaf) for leaf in jax.tree.leaves(model.prior))
    for name, size in (("restarts", whole), ("particles", whole), ("chains", whole), ("draws", 8)):
        count = getattr(inner, name, None)
        if isinstance(count, int):
            require_memory(count * size, f"{name}={count:,}")


def arrange(model: Model, arrays: Any, method: Method, seed: Any) -> tuple[Method, Any]:
    """The method with all defaults filled in, and the data in the form that it uses."""
    complete = method.complete(model, arrays)
    return complete, complete.arrange(fold_in(as_key(seed), 0), model, arrays)


def fit_arrays(
    model: Model,
    arrays: Any,
    method: Method,
    seed: int | Key[Array, ""],
    progress: bool | Progress | None,
    checkpoint: Callable[..., Checkpoint] | None = None,
    run: Callable[..., Run] = here,
) -> Fit:
    """Run the method on a model and data that are prepared for it, and conclude."""
    from .fit import Fit

    started = time.perf_counter()
    complete, arrays = arrange(model, arrays, method, seed)
    ahead = complete.foreseen(model, arrays) if checkpoint is None and run is here else ()
    closer = _closer(ahead, model, arrays, seed, progress, needed=False)
    if closer is not None:
        note = (
            f"the path from the prior is long, so in place of {method.name} this is {closer.method.name} from the "
            "best fits of VB; reference='prior' insists on the path"
        )
        return _in_place(closer, method, note, started)
    keep = None if checkpoint is None else checkpoint(model, method, arrays, as_key(seed))
    done = run(complete, model, arrays, as_key(seed), as_progress(progress), checkpoint=keep)
    began = time.perf_counter()
    result, interrupted, failure = _concluded(complete, model, arrays, seed, done, alone=run is here)
    others = () if interrupted or run is not here else complete.instead(model, result)
    others = tuple(other for other in others if other not in ahead)
    closer = _closer(others, model, arrays, seed, progress, needed=failure is not None)
    if closer is not None:
        note = f"{method.name} {method.replaced.format(closer.method.name)}"
        return _in_place(closer, method, note, started)
    if failure is not None:
        raise failure
    kept = arrays.sample if isinstance(arrays, Streamed) else arrays
    return Fit(
        model=model,
        method=method,
        log_evidence=result.log_evidence,
        bracket=result.bracket,
        history=result.history,
        converged=result.converged and not interrupted,
        seconds=done.seconds + time.perf_counter() - began,
        seed=seed,
        state=result.state,
        data=kept,
        details={"engine": done.engine} | dict(result.details),
        notes=(*model.notes(kept), *result.notes, *((keep.failure,) if keep is not None and keep.failure else ())),
        interrupted=interrupted,
    )


def _concluded(
    method: Method, model: Model, arrays: Any, seed: Any, done: Run, alone: bool
) -> tuple[Any, bool, NumericalFailure | None]:
    """The method's result, improved if possible; whether Ctrl-C cut the run short; and the error if there is no
    result."""
    interrupted = done.interrupted

    def again(states: Any, steps: int) -> Run:
        nonlocal interrupted
        shorter = dataclasses.replace(method, max_iter=steps)  # type: ignore[call-arg]
        more = here(shorter, model, arrays, as_key(seed), Progress(False), states)
        interrupted = interrupted or more.interrupted
        return more

    result: Any = None
    try:
        result = method.result(model, arrays, done)
        result = method.improve(fold_in(as_key(seed), 1), model, arrays, result, again)
    except KeyboardInterrupt:
        if result is None:
            raise
        interrupted = True
    except NumericalFailure as error:
        if result is not None or interrupted or not alone:
            raise
        return None, interrupted, error
    if result.log_evidence is not None and not np.isfinite(result.log_evidence):
        raise NumericalFailure(
            f"{method.name} ended with a log evidence of {result.log_evidence}; try a less extreme prior"
        )
    for name, block in result.state.blocks.items():
        if any(_has_nan(leaf) for leaf in jax.tree.leaves(block)):
            raise NumericalFailure(
                f"{method.name} ended with values of {name!r} that are not numbers: the data or the prior are beyond "
                "what floating point can hold; rescale the data, or try a less extreme prior"
            )
    return result, interrupted, None


def _has_nan(leaf: Any) -> bool:
    values = np.asarray(leaf)
    if values.dtype.kind != "f" or np.isfinite(np.sum(values)):  # the sum needs no memory
        return False
    return bool(np.isnan(values).any())


def _closer(
    others: tuple[Method, ...], model: Model, arrays: Any, seed: Any, progress: Any, needed: bool
) -> Fit | None:
    """The fit of the first of these methods that converges; if none does, None, or the last fit if one is `needed`."""
    found = None
    for other in others:
        try:
            found = fit_arrays(other.prepare(model), arrays, other, seed, progress)
        except (NumericalFailure, UnsupportedMethod):  # VB, from whose optima they begin, is not for every model
            continue
        if found.converged:
            return found
    return found if needed else None


def _in_place(fit: Fit, method: Method, note: str, started: float) -> Fit:
    """The fit by another method, presented as the answer to a call that asked for `method`."""
    return dataclasses.replace(fit, method=method, seconds=time.perf_counter() - started, notes=(*fit.notes, note))


def refit(fit: Fit, method: Method, seed: Any, model: Model | None = None) -> Fit:
    """A fit by any method to the arrays of another fit, with its model or a model of equal structure."""
    return fit_arrays(method.prepare(fit.model if model is None else model), fit.data, method, seed, False)


def as_key(seed: Any) -> Key[Array, ""]:
    """A JAX key from an integer or a key."""
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        if seed.shape or seed.is_deleted():
            found = "one that was deleted" if seed.is_deleted() else f"keys of shape {seed.shape}"
            raise InvalidParameter(f"seed must be one JAX key, got {found}")
        return seed
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and -(2**63) <= seed < 2**63:
        return make_key(int(seed))
    raise InvalidParameter(f"seed must be a whole number (of 64 bits) or a JAX key, got {given(seed)}")
