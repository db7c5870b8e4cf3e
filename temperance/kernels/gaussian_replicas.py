"""Sweeps of tempered replicas of a Gaussian mixture on a CPU, through the kernel of `gaussian_replicas_kernel.py`.

`Path` serves every model; here nearly all of its time would go into exponentials one by one, random bits and small
array operations. Swaps and the ladder's adaptation belong to the kernel too, so that one call makes many sweeps: a
call from JAX to the host costs as much as a sweep of a thousand data.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ..families import Dirichlet, Gaussian, NormalWishart
from ..families.normal_wishart import BeforeRounding, MeanAndPrecision
from ..inference.monte_carlo.gibbs import State
from ..inference.monte_carlo.path import Path
from ..inference.monte_carlo.replicas import Replicas
from ..models import Data, Mixture, Model
from ..numerics.threads import in_threads, thread_count

MOST_SWEEPS = 32  # in one call
_EXPONENTIALS = 4 * 10**7  # in one call: about a tenth of a second
_WORTH_SHARING = 5 * 10**4  # exponentials of one sweep from which threads gain more than they cost


class Sweeps(NamedTuple):
    """What the sweeps of one call have measured; leading axis: the sweeps."""

    target: State
    potential: Float[Array, " s"]  # of the target
    forward: Float[Array, "s k-1"]
    backward: Float[Array, "s k-1"]
    slopes: Float[Array, "s k"]
    betas: Float[Array, "s k"]
    identity: Int[Array, "s k"]
    energies: Float[Array, "s k k"] | None


class Rules(NamedTuple):
    """What a call does: so many rounds of `thin` sweeps and a swap."""

    sweeps: int
    thin: int
    at_random: bool
    ends: tuple[int, ...]  # sweeps after which the ladder moves
    every: bool  # energies at all temperatures


def has_kernel(model: Model, data: Data, path: Path) -> bool:
    """Whether the kernel draws from the same distributions as `Path.sweep`, here and now."""
    return (
        isinstance(model, Mixture)
        and type(model).log_evidence is Mixture.log_evidence
        and type(model).log_weights is Mixture.log_weights
        and type(model.pair) is Gaussian
        and isinstance(model.prior["components"], NormalWishart)
        and isinstance(model.prior.get("weights", None), Dirichlet | None)
        and set(model.prior) <= {"components", "weights"}
        and not path.reference
        and path.pinned is None
        and jax.tree.leaves(data.values)[0].dtype == jnp.float64
        and jax.default_backend() == "cpu"
        and not data.is_spread  # several devices share the work already
        and find_spec("numba") is not None
    )


def sweeps_a_call(model: Mixture, data: Data, replicas: int, thin: int, every: bool) -> int:
    """Many where they are short; an interruption does not wait for long, and what they measure fits in memory."""
    work = data.values.shape[0] * model.n_components * replicas * (thin + (replicas if every else 3))
    room = 2**15 // replicas**2 if every else MOST_SWEEPS
    return int(np.clip(min(_EXPONENTIALS // max(work, 1), room), 1, MOST_SWEEPS))


def sweep_replicas(
    key: Key[Array, ""], model: Mixture, data: Data, replicas: Replicas, rules: Rules
) -> tuple[Replicas, Sweeps]:
    """The replicas after `rules.sweeps` rounds of sweeps and swaps, and what was measured on the way."""
    k, (n, d), size = replicas.betas.shape[0], data.values.shape, model.n_components
    # Few arguments: each costs a conversion for every call.
    fixed = jnp.concatenate([_pack_prior(model).ravel(), data.weights, data.values.T.ravel()])
    bits = jax.random.bits(key, ((k + 1) * 4,), dtype=jnp.uint64).reshape((k + 1, 4))
    ladder = jnp.concatenate([replicas.betas, replicas.rejection])
    counts = jnp.concatenate([replicas.identity, replicas.step[None], replicas.began[None]])
    rows = _pack(model, replicas.states.draws)
    dirichlet = "weights" in model.prior

    def call(*given: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return _call(rules, dirichlet, n, *given)

    tables = rules.sweeps if rules.every else 0
    floats = (2 * k - 1,), rows.shape, (rules.sweeps, size, rows.shape[2]), (rules.sweeps, 4 * k - 1), (tables, k, k)
    whole = (k + 2,), (rules.sweeps, k)
    shapes = (
        [jax.ShapeDtypeStruct(shape, rows.dtype) for shape in floats],
        [jax.ShapeDtypeStruct(shape, counts.dtype) for shape in whole],
    )
    given = fixed, bits, ladder, counts, rows
    found = jax.pure_callback(call, shapes, *given, vmap_method="expand_dims")
    (ladder, rows, targets, measured, energies), (counts, identity) = found
    after = Replicas(
        State(_unpack(rows, d, dirichlet), {}), ladder[:k], ladder[k:], counts[:k], counts[k], counts[k + 1]
    )
    forward, backward, slopes, potential, betas = jnp.split(measured, (k - 1, 2 * k - 2, 3 * k - 2, 3 * k - 1), axis=1)
    target = State(_unpack(targets, d, dirichlet), {})
    return after, Sweeps(
        target, potential[:, 0], forward, backward, slopes, betas, identity, energies if rules.every else None
    )


def _call(rules: Rules, dirichlet: bool, n: int, *given: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """All ensembles (under `vmap`, leading axes): what is a number, and what is a whole number."""
    fixed, bits, ladder, counts, rows = map(np.asarray, given)
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - axes] for a, axes in zip(given, (1, 2, 1, 1, 3), strict=True)))
    ensembles, k, (size, width) = int(np.prod(batch)), rows.shape[-3], rows.shape[-2:]
    d = int(np.sqrt(width - 2)) - 1  # width = d² + 2d + 3

    def own(array: np.ndarray, axes: int) -> np.ndarray:
        """A copy for each ensemble, to write to."""
        shape = array.shape[array.ndim - axes :]
        return np.array(np.broadcast_to(array, (*batch, *shape)), order="C").reshape((ensembles, *shape))

    bits, ladder, counts, rows = own(bits, 2), own(ladder, 1), own(counts, 1), own(rows, 3)
    targets = np.empty((ensembles, rules.sweeps, size, width))
    measured = np.empty((ensembles, rules.sweeps, 4 * k - 1))
    identities = np.empty((ensembles, rules.sweeps, k), dtype=counts.dtype)
    tables = np.empty((ensembles, rules.sweeps if rules.every else 0, k, k))
    same = fixed.size == fixed.shape[-1]
    every = fixed.reshape((1, -1)) if same else own(fixed, 1)
    # A copy: what cannot be written to is another type.
    parts = [_take_apart(np.array(one), n, d, size) for one in every]

    written = ladder, counts, rows, targets, measured, identities, tables

    def sweep(first: int, last: int) -> None:
        for i in range(first, last):
            given = bits[i], *parts[0 if same else i]
            _one(rules, dirichlet, ensembles == 1, *given, *(array[i] for array in written))

    # Every replica has random bits of its own: how the work is shared between threads changes nothing.
    in_threads(sweep, ensembles, -(-ensembles // thread_count()))
    shaped = [array.reshape((*batch, *array.shape[1:])) for array in written]
    return [array for array in shaped if array.dtype == rows.dtype], [
        array for array in shaped if array.dtype == counts.dtype
    ]


def _one(
    rules: Rules,
    dirichlet: bool,
    only: bool,
    bits: np.ndarray,
    x: np.ndarray,
    prior: np.ndarray,
    ladder: np.ndarray,
    counts: np.ndarray,
    rows: np.ndarray,
    *written: np.ndarray,
) -> None:
    """One ensemble without a return to Python or, if it is the only one, each sweep shared between threads."""
    from .gaussian_replicas_kernel import advance

    k, size = rows.shape[:2]
    energies = np.zeros((k, k + 1 if rules.every else 4))
    ends = np.asarray(rules.ends, dtype=np.int64)
    given = bits, rules.thin, rules.at_random, ends, x, prior, dirichlet, ladder, counts, rows, energies
    work = x.shape[1] * size * k * (rules.thin + (k if rules.every else 3))
    if not only or thread_count() == 1 or work < _WORTH_SHARING:
        advance(0, k, rules.sweeps, True, *given, *written)
        return

    def share(first: int, last: int) -> None:
        advance(first, last, 1, False, *given, *written)

    for number in range(rules.sweeps):
        in_threads(share, k, -(-k // thread_count()))
        advance(0, 0, 1, True, *given, *(array[number : number + 1] for array in written))


def _take_apart(fixed: np.ndarray, n: int, d: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The data that are there, a column each, and the prior's rows."""
    head = size * (d * d + d + 3)
    prior, weights = fixed[:head].reshape((size, -1)), fixed[head : head + n]
    columns = fixed[head + n :].reshape((d, n))
    return columns if weights.all() else np.ascontiguousarray(columns[:, weights > 0]), prior


def _pack_prior(model: Mixture) -> Float[Array, "k w"]:
    components, size = model.prior["components"], model.n_components
    assert isinstance(components, NormalWishart)
    natural = components.natural
    weights = model.prior.get("weights")
    delta = weights.concentration if isinstance(weights, Dirichlet) else jnp.zeros(size)
    second = natural.second.reshape((size, -1))
    return jnp.concatenate(
        [natural.first, natural.count[:, None], second, natural.dof[:, None], delta[:, None]], axis=1
    )


def _pack(model: Mixture, draws: dict[str, Any]) -> Float[Array, "r k w"]:
    mean, precision, before = draws["components"]
    assert before is not None
    flat = precision.reshape((*before.square.shape, -1))
    weights = draws.get("weights")
    if weights is None:
        weights = jnp.broadcast_to(model.draw_weights(draws)[None], before.square.shape)
    parts = [before.linear, before.square[..., None], before.log_det[..., None], flat, mean, weights[..., None]]
    return jnp.concatenate(parts, axis=-1)


def _unpack(rows: Float[Array, "r k w"], d: int, dirichlet: bool) -> dict[str, Any]:
    before = BeforeRounding(rows[..., :d], rows[..., d], rows[..., d + 1])
    precision = rows[..., d + 2 : d + 2 + d * d].reshape((*rows.shape[:-1], d, d))
    draw = MeanAndPrecision(rows[..., d + 2 + d * d : -1], precision, before)
    return {"components": draw} | ({"weights": rows[..., -1]} if dirichlet else {})
