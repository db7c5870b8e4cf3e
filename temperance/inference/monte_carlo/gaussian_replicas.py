"""Sweeps of tempered replicas of a Gaussian mixture on a CPU, through the kernel of `gaussian_replicas_kernel.py`.

`Path` serves every model; here nearly all of its time would go into exponentials one by one, random bits and small
array operations. Replicas are independent within a sweep: threads share them.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...families import Dirichlet, Gaussian, NormalWishart
from ...families.normal_wishart import BeforeRounding, MeanAndPrecision
from ...models import Data, Mixture, Model
from ...numerics.threads import in_threads, thread_count
from .gibbs import State
from .path import Path


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


def sweep_replicas(
    key: Key[Array, ""],
    model: Mixture,
    data: Data,
    states: State,
    betas: Float[Array, "r m"],
    own: Int[Array, " r"],
    sweeps: int,
) -> tuple[State, Float[Array, "r m"], Float[Array, " r"]]:
    """The states after `sweeps` sweeps, each at its `own` one of its betas, their energies at all, and slopes."""
    # Few arguments: each costs a conversion for every call.
    fixed = jnp.concatenate([_pack_prior(model).ravel(), data.weights, data.values.T.ravel()])
    rows = _pack(model, states.draws)
    bits = jax.random.bits(key, (rows.shape[0] * 4,), dtype=jnp.uint64).reshape((rows.shape[0], 4))
    dirichlet, (n, d) = "weights" in model.prior, data.values.shape

    def call(*given: Any) -> tuple[np.ndarray, np.ndarray]:
        return _call(sweeps, dirichlet, n, *given)

    shapes = (
        jax.ShapeDtypeStruct(rows.shape, rows.dtype),
        jax.ShapeDtypeStruct((rows.shape[0], betas.shape[1] + 1), rows.dtype),
    )
    rows, energies = jax.pure_callback(call, shapes, fixed, bits, betas, own, rows, vmap_method="expand_dims")
    return State(_unpack(rows, d, dirichlet), {}), energies[:, :-1], energies[:, -1]


def _call(sweeps: int, dirichlet: bool, n: int, *given: Any) -> tuple[np.ndarray, np.ndarray]:
    from .gaussian_replicas_kernel import advance

    fixed, bits, betas, own, rows = map(np.asarray, given)
    batch = np.broadcast_shapes(fixed.shape[:-1], bits.shape[:-2], betas.shape[:-2], own.shape[:-1], rows.shape[:-3])
    replicas, size, width = rows.shape[-3:]
    temperatures, ensembles = betas.shape[-1], int(np.prod(batch))
    d = int(np.sqrt(width - 2)) - 1  # width = d² + 2d + 3
    count = ensembles * replicas
    bits = np.array(np.broadcast_to(bits, (*batch, replicas, 4))).reshape((count, 4))
    ladder = np.array(np.broadcast_to(betas, (*batch, replicas, temperatures))).reshape((count, temperatures))
    own = np.array(np.broadcast_to(own, (*batch, replicas))).reshape(count)
    rows = np.array(np.broadcast_to(rows, (*batch, replicas, size, width))).reshape((count, size, width))
    energies = np.empty((count, temperatures + 1))

    def sweep(first: int, last: int, one: np.ndarray) -> None:
        """The replicas from `first` to `last`, which see the same data."""
        prior, columns = _take_apart(np.array(one), n, d, size)  # a copy: what cannot be written to is another type

        def work(start: int, stop: int) -> None:
            part = slice(first + start, first + stop)
            given = columns, prior, dirichlet, rows[part], energies[part]
            advance(bits[part], sweeps, ladder[part], own[part], *given)

        # Every replica has random bits of its own: how they are shared between threads changes nothing.
        in_threads(work, last - first, -(-(last - first) // thread_count()))

    if fixed.size == fixed.shape[-1]:
        sweep(0, count, fixed.reshape(-1))
    else:  # data of its own for each ensemble
        every = np.broadcast_to(fixed, (*batch, fixed.shape[-1])).reshape((ensembles, -1))
        for i, one in enumerate(every):
            sweep(i * replicas, (i + 1) * replicas, one)
    return rows.reshape((*batch, replicas, size, width)), energies.reshape((*batch, replicas, -1))


def _take_apart(fixed: np.ndarray, n: int, d: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The prior's rows and the data that are there, a column each."""
    head = size * (d * d + d + 3)
    prior, weights = fixed[:head].reshape((size, -1)), fixed[head : head + n]
    columns = fixed[head + n :].reshape((d, n))
    return prior, columns if weights.all() else np.ascontiguousarray(columns[:, weights > 0])


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
