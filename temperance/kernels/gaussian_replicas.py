"""Sweeps of tempered replicas of a Gaussian mixture on a CPU, through the kernel of `gaussian_replicas_kernel.py`.

`Path` serves every model, but for a Gaussian mixture it spends nearly all of its time on single exponentials, random
bits and small array operations. A call from JAX to the host costs as much as a sweep of a thousand data, so one call
makes many sweeps, and swaps between them the pairs that `ParallelTempering` has chosen beforehand. Everything else
about the ladder is left to `ParallelTempering`.
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt64

from ..families import Dirichlet, Gaussian, NormalWishart
from ..families.normal_wishart import BeforeRounding, MeanAndPrecision
from ..models import Data, Model
from ..models.mixture import Mixture
from ..models.mixture.variants import GaussianMixture
from ..numerics.threads import in_threads, thread_count
from ._at_hand import at_hand

if TYPE_CHECKING:
    from .gaussian_replicas_kernel import Ensemble, Problem, Record

MOST_SWEEPS = 32  # sweeps in one call
_EXPONENTIALS = 4 * 10**7  # exponentials per call: about a tenth of a second
_COMPILATION = 4.0  # seconds: less than compilation takes, since later runs and processes reuse it
_WORTH_SHARING = 5 * 10**4  # exponentials per sweep from which threads pay


class Sweeps(NamedTuple):
    """Measurements of the sweeps of one call, taken before swaps; the leading axis is s, the sweep."""

    targets: Float[Array, "s j w"]  # the last replica
    energies: Float[Array, "s k 4"]  # of each replica at the β below, at its own β and at the β above; then the slope
    tables: Float[Array, "s k k"] | None  # energies of each replica at every β
    identity: Int[Array, "s k"]


class Standing(NamedTuple):
    """The replicas between two calls, in the order of the ladder."""

    generators: UInt64[Array, "k+1 4"]  # the random bits of each replica, and those of the swaps
    rows: Float[Array, "k j w"]  # the draws, packed
    identity: Int[Array, " k"]


def when(model: Model, data: Data, method: Any) -> bool:
    """Whether the kernel draws from the same distributions as `Path.sweep`, and saves more time than it costs."""
    return (
        data.engine != "plain"
        and isinstance(model, Mixture)
        and type(model) in (GaussianMixture, Mixture)
        and type(model.pair) is Gaussian
        and isinstance(model.prior["components"], NormalWishart)
        and isinstance(model.prior.get("weights", None), Dirichlet | None)
        and not method.path.reference
        and method.path.pinned is None
        and jax.tree.leaves(data.values)[0].dtype == jnp.float64
        and jax.default_backend() == "cpu"
        and not data.is_spread  # several devices already share the work
        and find_spec("numba") is not None
        and (saving(model, data, method) > _COMPILATION or at_hand("gaussian_replicas_kernel", "advance"))
    )


def exponentials(model: Mixture, data: Data, method: Any) -> int:
    """The number of exponentials in one sweep of an ensemble, energies included."""
    betas = method.replicas if method.multistate else 3
    return data.values.shape[0] * model.n_components * method.replicas * (method.thin + betas)


def saving(model: Mixture, data: Data, method: Any) -> float:
    """Roughly the seconds by which the kernel is faster than `Path.sweep`, as measured on one core."""
    sweeps = method.warmup + method.draws
    return sweeps * (3e-4 * method.thin + 4e-9 * method.chains * exponentials(model, data, method))


def sweeps_a_call(model: Mixture, data: Data, method: Any) -> int:
    """The sweeps of a call: many if they are short, so that an interruption does not wait for long and the measurements
    fit in memory."""
    room = 2**15 // method.replicas**2 if method.multistate else MOST_SWEEPS
    return int(np.clip(min(_EXPONENTIALS // exponentials(model, data, method), room), 1, MOST_SWEEPS))


def generators(key: Key[Array, ""], replicas: int) -> UInt64[Array, "k+1 4"]:
    return jax.random.bits(key, ((replicas + 1) * 4,), dtype=jnp.uint64).reshape((replicas + 1, 4))


class Sweeper(NamedTuple):
    """Rounds of `thin` Gibbs sweeps of all replicas; with `every`, each replica is measured at every temperature."""

    fixed: Float[Array, " f"]  # the prior and the data
    n: int
    dirichlet: bool
    thin: int
    every: bool

    def __call__(
        self,
        betas: Float[Array, " k"],
        standing: Standing,
        offered: Bool[Array, "s k-1"],
        span: Int[Array, "2"],
    ) -> tuple[Standing, Sweeps]:
        """The replicas after rounds `span[0]` to `span[1]`, and the measurements, one row per round. After each round
        the pairs of neighbours that are `offered` a swap accept or refuse it.
        """
        sweeps, (k, size, width) = offered.shape[0], standing.rows.shape
        # Few arguments, because each costs a conversion in every call.
        whole = jnp.concatenate([standing.identity, span, offered.ravel().astype(span.dtype)])
        number = jnp.float64
        shapes = [
            jax.ShapeDtypeStruct(shape, dtype)
            for shape, dtype in (
                ((k + 1, 4), jnp.uint64),
                ((k, size, width), number),
                ((k,), whole.dtype),
                ((sweeps, size, width), number),
                ((sweeps, k, 4), number),
                ((sweeps if self.every else 0, k, k), number),
                ((sweeps, k), whole.dtype),
            )
        ]
        given = self.fixed, standing.generators, betas, whole, standing.rows
        call = functools.partial(_call, *self[1:])
        found = jax.pure_callback(call, shapes, *given, vmap_method="expand_dims")
        targets, energies, tables, identity = found[3:]
        return Standing(*found[:3]), Sweeps(targets, energies, tables if self.every else None, identity)


def sweeper(model: Mixture, data: Data, method: Any) -> Sweeper:
    """The kernel for this problem."""
    fixed = jnp.concatenate([_pack_prior(model).ravel(), data.weights, data.values.T.ravel()])
    return Sweeper(fixed, data.values.shape[0], "weights" in model.prior, method.thin, method.multistate)


def _call(n: int, dirichlet: bool, thin: int, every: bool, *given: Any) -> list[np.ndarray]:
    """Run all ensembles on the host; under `vmap` they are the leading axes of the arrays."""
    from .gaussian_replicas_kernel import Ensemble, Problem, Record

    axes = (1, 2, 1, 1, 3)
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - own] for a, own in zip(given, axes, strict=True)))
    ensembles = int(np.prod(batch))

    def own(array: Any, axes: int) -> np.ndarray:
        """A writable copy per ensemble."""
        shape = array.shape[array.ndim - axes :]
        return np.array(np.broadcast_to(np.asarray(array), (*batch, *shape)), order="C").reshape((ensembles, *shape))

    generators, betas, whole, rows = (own(array, axis) for array, axis in zip(given[1:], axes[1:], strict=True))
    k, size, width = rows.shape[1:]
    d = int(np.sqrt(width - 2)) - 1  # width = d² + 2d + 3
    identity, span, offered = np.split(whole, (k, k + 2), axis=1)
    identity, offered = np.ascontiguousarray(identity), offered.reshape((ensembles, -1, k - 1)) > 0
    sweeps = offered.shape[1]
    shapes = (sweeps, size, width), (sweeps, k, 4), (sweeps if every else 0, k, k)
    record = *(np.empty((ensembles, *shape)) for shape in shapes), np.empty((ensembles, sweeps, k), whole.dtype)
    written = generators, rows, identity, *record
    # A copy, because for Numba a read-only array has another type.
    same = given[0].size == given[0].shape[-1]
    fixed = np.array(given[0]).reshape((1, -1)) if same else own(given[0], 1)
    parts = [_take_apart(one, n, d, size) for one in fixed]

    def sweep(first: int, last: int) -> None:
        for i in range(first, last):
            arrays = [array[i] for array in written]
            problem = Problem(*parts[0 if same else i], dirichlet, thin, betas[i])
            _one(problem, Ensemble(*arrays[:3]), Record(*arrays[3:]), offered[i], span[i], ensembles == 1)

    # Every replica has its own random bits, so the result does not depend on how threads share the work.
    in_threads(sweep, ensembles, -(-ensembles // thread_count()))
    return [array.reshape((*batch, *array.shape[1:])) for array in written]


def _one(
    problem: Problem, ensemble: Ensemble, record: Record, offered: np.ndarray, span: np.ndarray, only: bool
) -> None:
    """Run one ensemble: without returning to Python or, if it is the `only` one, with each sweep shared between
    threads."""
    from .gaussian_replicas_kernel import advance

    given = problem, ensemble, record, offered
    begin, stop = map(int, span)
    k, size = ensemble.states.shape[:2]
    work = problem.x.shape[1] * size * k * (problem.thin + (k if len(record.tables) else 3))
    if not only or thread_count() == 1 or work < _WORTH_SHARING:
        advance(*given, (begin, stop), (0, k), True)
        return
    for number in range(begin, stop):

        def share(first: int, last: int, now: tuple[int, int] = (number, number + 1)) -> None:
            advance(*given, now, (first, last), False)

        in_threads(share, k, -(-k // thread_count()))
        advance(*given, (number, number + 1), (0, 0), True)


def _take_apart(fixed: np.ndarray, n: int, d: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The data without padding, one per column, and the rows of the prior."""
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


def pack(model: Mixture, draws: dict[str, Any]) -> Float[Array, "r k w"]:
    mean, precision, before = draws["components"]
    assert before is not None
    flat = precision.reshape((*before.square.shape, -1))
    weights = draws.get("weights")
    if weights is None:
        weights = jnp.broadcast_to(model.draw_weights(draws)[None], before.square.shape)
    parts = [before.linear, before.square[..., None], before.log_det[..., None], flat, mean, weights[..., None]]
    return jnp.concatenate(parts, axis=-1)


def unpack(model: Mixture, rows: Float[Array, "r k w"]) -> dict[str, Any]:
    d = int(np.sqrt(rows.shape[-1] - 2)) - 1  # the width is d² + 2d + 3
    before = BeforeRounding(rows[..., :d], rows[..., d], rows[..., d + 1])
    precision = rows[..., d + 2 : d + 2 + d * d].reshape((*rows.shape[:-1], d, d))
    draw = MeanAndPrecision(rows[..., d + 2 + d * d : -1], precision, before)
    return {"components": draw} | ({"weights": rows[..., -1]} if "weights" in model.prior else {})
