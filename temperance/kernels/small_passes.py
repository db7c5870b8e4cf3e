"""EP of small Gaussian mixtures: NumPy around the one function that XLA compiles, the pass of `small_messages.py`.

The start, the order of the factors, q after a pass and ln s are those of `inference/messages/`, from the same random
numbers. One compiled program for all of this would take three times as long to compile, or to load where it is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..families import Gaussian
from ..families.dirichlet import DirichletVector
from ..families.normal_wishart import NormalWishartVector
from ..numerics.keys import hashes, is_host, shuffles, uniforms
from ..programs import program
from . import RunEngine, gaussian_messages, run_module, small_messages
from .small_mixture import Flat, _cholesky, _kmeans_plus_plus, flat, statistics, suits

if TYPE_CHECKING:
    from ..models import Data
    from ..models.mixture import Mixture

_FEWEST = 64  # rows that a program has room for
_STARTS = ("mixed", "kmeans++", "random", "uneven", "annealed", "means")


def when(method: Any, model: Any, data: Any) -> bool:
    """Whether the pass can serve this problem, and no faster kernel is compiled already."""
    return (
        method.alpha == 1.0
        and not method.trace
        and data.engine == "auto"
        and run_module(model) == "small_mixture"
        and type(model.pair) is Gaussian
        and suits(model, data)
        and model.start.kind in _STARTS
        and small_messages.when(model, data)
        and not gaussian_messages.when(model, data)
        and is_host()
    )


@program
def _refreshed(
    damping: float,
    q: Float[Array, "r w k"],
    sites: Float[Array, "r m w k"],
    scales: Float[Array, "r m"],
    x: Float[Array, "r m d"],
    count: Int[Array, ""],
    known: Float[Array, " k"] | None,
) -> tuple[Float[Array, "r m w k"], Float[Array, "r m"], Int[Array, " r"]]:
    """(sites, their log scales, factors skipped) after one pass over the first `count` rows, for each restart."""
    refresh = small_messages.refresh(damping, known)

    def one_pass(*start: Array) -> Any:
        *first, x = start

        def body(row: Array, loop: tuple[Array, ...]) -> tuple[Array, ...]:
            q, *before, skipped = loop
            part = (*(jax.lax.dynamic_index_in_dim(leaf, row, keepdims=False) for leaf in (*before, x)), True)
            q, (*after, passed) = refresh(q, part)
            pairs = zip(before, after, strict=True)
            return q, *(jax.lax.dynamic_update_index_in_dim(a, b, row, 0) for a, b in pairs), skipped + passed

        return jax.lax.fori_loop(0, count, body, (*first, jnp.zeros((), dtype=int)))[1:]

    return jax.vmap(one_pass)(q, sites, scales, x)


class _State(NamedTuple):
    """All restarts, natural parameters as flat vectors of the components."""

    eta: np.ndarray  # r k f
    prior: np.ndarray  # r k f: the factor that stands for the prior, deliberately another one at first
    corrected: np.ndarray  # r: whether `prior` is the true prior already
    sites: np.ndarray  # r n k f
    scales: np.ndarray  # r n
    log_evidence: np.ndarray  # r
    value: np.ndarray  # r: A(η)
    mean: np.ndarray  # r k f: ∇A(η)
    before: np.ndarray  # r: A of the prior's factor


def start(method: Any, model: Mixture, data: Data, keys: Any, kinds: tuple[str, ...] = ()) -> Any:
    """`MessagePassing.init` of every restart."""
    problem, own = flat(model, data), hashes(np.asarray(jax.random.key_data(keys)), [0])[:, 0]
    prior = np.repeat(problem.prior[None], len(keys), axis=0)
    seen = prior + _seen(problem, own, np.asarray(data.values, dtype=np.float64), np.asarray(data.weights))
    if model.known is None:  # at the start no datum is a statement about the weights
        seen[..., -1] = prior[..., -1]
    rows = data.weights.shape[0]
    empty, nothing = np.zeros((len(keys), rows, *problem.prior.shape)), np.zeros(len(keys))
    state = _state(problem, seen, seen, np.zeros(len(keys), dtype=bool), empty, np.zeros((len(keys), rows)), nothing)
    return _approximation(problem, state)


def _state(problem: Flat, eta: np.ndarray, prior: np.ndarray, *rest: Any) -> _State:
    corrected, sites, scales, log_evidence = rest
    value, mean = problem.value_and_mean(eta)
    before = problem.value_and_mean(prior)[0]
    return _State(eta, prior, corrected, sites, scales, log_evidence, value, mean, before)


def _seen(problem: Flat, keys: np.ndarray, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """T(x) of the datum that each component begins with, (r, k, f), as in `inference/messages/start.py`."""
    start, size = problem.model.start, problem.model.n_components
    if start.kind == "means":
        return statistics(problem.form, problem.shapes, np.asarray(start.values))[None]
    each = statistics(problem.form, problem.shapes, x)
    if start.kind not in ("mixed", "kmeans++"):
        draws = np.maximum(uniforms(keys, size * len(x)), np.finfo(np.float64).tiny).reshape((len(keys), size, -1))
        with np.errstate(divide="ignore"):
            return each[np.argmax(np.log(weights) - np.log(-np.log(draws)), axis=2)]
    spread = x.std(axis=0)
    scaled = x / np.where(spread > 0, spread, 1.0)
    centres = _kmeans_plus_plus(keys, scaled, weights, size)
    return each[np.square(centres[:, :, None] - scaled).sum(axis=3).argmin(axis=2)]


def chunk(
    method: Any, model: Mixture, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """`_chunk` of `inference/run.py`."""
    problem, done = flat(model, data), np.array(carry.done)
    state = _flattened(problem, carry.states)
    own, infos, step, still = np.asarray(jax.random.key_data(keys)), [], int(carry.steps), bool(hold)
    x, live = np.asarray(data.values, dtype=np.float64), np.asarray(data.weights) > 0
    while step < int(limit) and not done.all():
        fresh, info = _pass(method, problem, state, hashes(own, [step])[:, 0], x, live)
        settled = (info["change"] <= method.tol) & (info["skipped"] == 0) & fresh.corrected & state.corrected
        state = state if still else _advanced(done, state, fresh)
        done = done | (settled & (not still))
        infos.append(info)
        step += 1
    after = carry._replace(states=_approximation(problem, state), done=done, steps=np.asarray(step))
    return after, {name: np.array([info[name] for info in infos]) for name in (infos[0] if infos else ())}


def _advanced(done: np.ndarray, state: _State, fresh: _State) -> _State:
    """The fresh states of the restarts that are not done."""
    if not done.any():
        return fresh
    pairs = zip(state, fresh, strict=True)
    return _State(*(np.where(done.reshape((-1,) + (1,) * (old.ndim - 1)), old, new) for old, new in pairs))


def _pass(
    method: Any, problem: Flat, state: _State, keys: np.ndarray, x: np.ndarray, live: np.ndarray
) -> tuple[_State, dict[str, np.ndarray]]:
    """`MessagePassing._pass`."""
    restarts, n = state.scales.shape
    order = shuffles(keys, n) if method.schedule == "random" else np.tile(np.arange(n), (restarts, 1))
    order = order[live[order]].reshape((restarts, -1))  # without the padding
    count, row, known = order.shape[1], np.arange(restarts)[:, None], problem.model.known
    # Rows for the next power of two, so that few numbers of rows need a program of their own.
    parts = (_rows(state.sites, known), state.scales, np.broadcast_to(x, (restarts, *x.shape)))
    given = [np.zeros((restarts, max(_FEWEST, 1 << (count - 1).bit_length()), *part.shape[2:])) for part in parts]
    for room, part in zip(given, parts, strict=True):
        room[:, :count] = part[row, order]
    log_weights = None if known is None else np.asarray(known)
    found = _refreshed(method.damping or 0.0, _rows(state.eta, known), *given, np.asarray(count), log_weights)
    sites, scales = state.sites.copy(), state.scales.copy()
    sites[row, order] = np.swapaxes(np.asarray(found[0])[:, :count, : state.eta.shape[-1]], -1, -2)
    scales[row, order], skipped = np.asarray(found[1])[:, :count], np.asarray(found[2])
    fresh = _together(problem, state, sites, scales)
    with np.errstate(all="ignore"):
        moved = np.sqrt(np.maximum(((fresh.eta - state.eta) * (fresh.mean - state.mean)).sum(axis=(1, 2)), 0.0))
        change = np.maximum(moved, np.abs(fresh.log_evidence - state.log_evidence))
    info = {"log_evidence": fresh.log_evidence, "change": change, "skipped": skipped, "corrected": fresh.corrected}
    return fresh, info


def _rows(flat: np.ndarray, known: Any) -> np.ndarray:
    """Parameters as rows over the components, with a row of zeros for weights that are known."""
    rows = np.swapaxes(flat, -1, -2)
    return rows if known is None else np.concatenate([rows, np.zeros_like(rows[..., :1, :])], axis=-2)


def _together(problem: Flat, state: _State, sites: np.ndarray, scales: np.ndarray) -> _State:
    """`put_together`: q = prior × sites, with the true prior as soon as that product is proper."""
    total = sites.sum(axis=1)
    correct = _is_proper(problem, problem.prior + total)
    prior = np.where(correct[:, None, None], problem.prior, state.prior)
    with np.errstate(all="ignore"):
        value, mean = problem.value_and_mean(prior + total)
        before = np.where(correct, problem.log_prior, state.before)
    log_s = scales.sum(axis=1) + value - before
    return _State(prior + total, prior, correct, sites, scales, log_s, value, mean, before)


def _is_proper(problem: Flat, eta: np.ndarray) -> np.ndarray:
    first, count, second, dof, *weights = problem.unpack(eta)
    some = np.where(count > 0, count, 1.0)[..., None, None]
    scatter = second - first[..., :, None] * first[..., None, :] / some
    diagonal = np.diagonal(scatter, axis1=-2, axis2=-1)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = scatter * scale[..., :, None] * scale[..., None, :]
    # Relative to scale, so that the units of the columns do not matter.
    definite = (diagonal > 0).all(axis=-1) & np.isfinite(_cholesky(scaled)[..., -1, -1])
    proper = (count > 0) & (dof > -1.0) & definite
    for log in weights:
        proper &= log > -1.0
    return proper.all(axis=-1)


# ---- states of `inference/messages/` as flat vectors, and back ----------------------------------------------------


def _approximation(problem: Flat, state: _State) -> Any:
    from ..inference.messages.alpha_divergence import Approximation
    from ..inference.messages.sweep import Sites

    def natural(eta: np.ndarray) -> dict[str, Any]:
        fields: list[Any] = problem.unpack(eta)
        components = {"components": NormalWishartVector(*fields[:4])}
        return components | ({"weights": DirichletVector(*fields[4:])} if fields[4:] else {})

    blocks, prior = (problem.posterior(eta).blocks for eta in (state.eta, state.prior))
    sites = Sites(natural(state.sites), state.scales)  # type: ignore[arg-type]
    return Approximation(blocks, prior, state.corrected, sites, state.log_evidence, {})  # type: ignore[arg-type]


def _flattened(problem: Flat, states: Any) -> _State:
    def flat(tree: Any, leading: int) -> np.ndarray:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
        return np.concatenate([leaf.reshape((*leaf.shape[:leading], -1)) for leaf in leaves], axis=-1)

    rest = (states.corrected, flat(states.sites.natural, 3), states.sites.log_scale, states.log_evidence)
    return _state(problem, flat(states.blocks, 2), flat(states.prior, 2), *(np.asarray(part) for part in rest))


ENGINE = RunEngine("small mixture (numpy, xla)", start, chunk)
