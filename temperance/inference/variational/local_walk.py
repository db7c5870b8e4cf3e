"""A walk over data of which each has its own temperature, and finds a new one once its latents are known.

The messages have the new powers. What a power costs a datum is the integral of its tempered density: for Gaussian
noise a volume, for words a sum over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import gammaln, softmax

from ...families import IndependentPair, KnownCovarianceGaussian, SphericalGaussian
from ...models import LDA, Data, FactorialMixture, Mixture, Model, Powers, Way
from ...models._blocks import rows_sum
from ...models._data import over_blocks
from ...models._model import Means, means
from ...models.topics.local import Heat
from ...numerics.linalg import cholesky, log_det
from .tempered_sweep import Walked, document_energies

_ENTRIES = 8192  # of a table of concentrations
_PLACES, _MIDDLE = 8192, 8.0  # and of one of distances, with the one (for each number) in the middle of it
_FARTHEST = 1e15  # distance that is told from infinity
_NODES = 9  # powers at which a sum over all words is worked out
_LAMBDAS = (1e-8, 1e10)  # concentrations that a table holds
_STEP = np.log(_LAMBDAS[1] / _LAMBDAS[0]) / (_ENTRIES - 1)  # of their logarithms


class LocalGrid(eqx.Module):
    """Powers that each datum may have."""

    powers: Float[Array, " m"]
    table: Float[Array, " e"]  # E[s] of a Gaussian by its distance; or Γ(λ + s)/Γ(λ + 1) at nodes
    nodes: Float[Array, "j m"] | None = None  # from values at a few powers to all of them


def make_grid(model: Model, data: Data, powers: np.ndarray) -> LocalGrid:
    if isinstance(model, LDA):
        # In log s: Γ(λ + s) has its pole at s = −λ, close to small powers.
        half = 0.5 * -np.log(min(float(powers.min()), 0.5))
        nodes = np.exp(half * (np.cos(np.linspace(0.0, np.pi, _NODES)) - 1.0))
        fit, here = (np.polynomial.chebyshev.chebvander(np.log(s) / half + 1.0, _NODES - 1) for s in (nodes, powers))
        spread = np.linalg.solve(fit.T, here.T)
        lam = np.geomspace(*_LAMBDAS, _ENTRIES)[:, None]
        # The pole at 0 is that of 1/λ, which a power takes away: log Γ(λ + s) − log Γ(λ + 1), smooth in log λ.
        table = np.exp(gammaln(lam + nodes) - gammaln(lam + 1.0))
        return LocalGrid(jnp.asarray(powers), jnp.asarray(table), jnp.asarray(spread))
    width = data.values.shape[1]
    # Equal steps of t/(8 + t), with t the distance for each number: far out E[s] is as 1/t, a straight line there.
    place = np.linspace(0.0, 1.0, _PLACES)[:-1]
    distance = _MIDDLE * width * place / (1.0 - place)
    # r_m ∝ s_m^(d/2) exp{−s_m M/2}, the tempered density: E[s] is a function of the distance M/2 alone.
    logits = 0.5 * width * np.log(powers) - distance[:, None] * powers
    table = np.append(softmax(logits, axis=1) @ powers, powers.min())
    return LocalGrid(jnp.asarray(powers), jnp.asarray(table))


def respond(grid: LocalGrid, distance: Float[Array, " n"], width: int) -> Float[Array, " n"]:
    """E[s] between the entries of the table."""
    distance = jnp.clip(distance, 0.0, _FARTHEST)
    place = (_PLACES - 1) * (distance / (distance + _MIDDLE * width))
    low = jnp.minimum(place.astype(jnp.int32), _PLACES - 2)
    below, above = (grid.table.at[low + i].get(mode="promise_in_bounds") for i in (0, 1))
    return below + (place - low) * (above - below)


class Given(NamedTuple):
    """Data with the powers they have, and those they may have."""

    data: Data
    powers: Float[Array, " n"]
    hot: Bool[Array, ""]  # whether they find new ones
    local: dict[str, Any]
    local_steps: int
    grid: LocalGrid


@singledispatch
def walk_locally(model: Any, blocks: dict[str, Any], given: Given) -> Walked:
    raise AssertionError


@walk_locally.register
def _(model: Mixture, blocks: dict[str, Any], given: Given) -> Walked:
    """Powers multiply what each component says of a datum, so one evaluation serves all of them."""
    m, data = means(blocks), given.data
    width = data.values.shape[1]
    rests = 0.5 * (_log_precisions(model, m, width) - width * jnp.log(2.0 * jnp.pi)) + model.log_weights(m)
    ready, unpack = jax.vjp(model.packed, m)

    def block(part: Any, _: Array) -> tuple[Any, Any]:
        x, weights, here = part
        each, back = jax.vjp(lambda m: model.log_joint_z(m, x), ready)
        # Components first, as in `sum_out`.
        logits = here[None] * each.T
        top = jnp.max(logits, axis=0)
        # One exponential, behind a barrier (sums would take it again), and one walk over components for all sums.
        parts = jax.lax.optimization_barrier(jnp.exp(logits - top[None]))
        norm, joint, rest = _sums(parts, parts * each.T, parts * rests[:, None])
        joint, rest = joint / norm, rest / norm
        fresh = jnp.where(given.hot, respond(given.grid, rest - joint, width), here)
        messages = back(((weights * fresh / norm)[None] * parts).T)[0]
        return (jnp.sum(weights * (top + jnp.log(norm))), messages), (weights * joint, fresh)

    (value, messages), (energy, fresh) = over_blocks(block, (data.values, data.weights, given.powers), *data.cuts)
    return Walked(value, unpack(messages)[0], energy, {}, fresh)


def _log_precisions(model: Mixture, m: Means, width: int) -> Float[Array, " k"]:
    """E log|Λ| of each component."""
    pair, components = model.pair, m["components"]
    if isinstance(pair, KnownCovarianceGaussian):
        each = -log_det(cholesky(pair.covariance))
    elif isinstance(pair, IndependentPair):
        each = 2.0 * jnp.sum(components.inner.dof, axis=-1)
    else:
        each = (2.0 * width if isinstance(pair, SphericalGaussian) else 2.0) * components.dof
    return jnp.broadcast_to(each, (model.n_components,))


def _sums(*arrays: Float[Array, "k n"]) -> list[Float[Array, " n"]]:
    """Over the leading axis, all at once."""

    def add(sums: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(one + other for one, other in zip(sums, others, strict=True))

    return jax.lax.reduce(arrays, tuple(jnp.zeros((), array.dtype) for array in arrays), add, (0,))


@walk_locally.register
def _(model: FactorialMixture, blocks: dict[str, Any], given: Given) -> Walked:
    m, data = means(blocks), given.data
    width = data.values.shape[1]
    volume = 2.0 * width * model._weights(m).dof

    def block(part: Any, _: Array) -> tuple[Any, Any]:
        x, weights, here, q_local = part
        both = Powers(here, here)
        q_local = model.ascend_local(m, x, both, q_local or model.initial_local(m, x), given.local_steps)
        m_local = means(q_local)

        def rows(m_global: Any, observation: Array, latent: Array) -> Float[Array, " n"]:
            return model._datum(m_global | m_local, x, Powers(observation, latent), None)

        value, back = jax.vjp(rows, m, here, here)
        _, observed, latent = back(jnp.ones_like(value))
        distance = 0.5 * (volume - width * jnp.log(2.0 * jnp.pi)) - observed
        fresh = jnp.where(given.hot, respond(given.grid, distance, width), here)
        # At fixed latents the messages of a datum are proportional to its power.
        messages = back(weights * fresh / here)[0]
        spread = sum((rows_sum(q.entropy()) for q in q_local.values()), start=jnp.zeros(()))
        energy = weights * (observed + latent)
        return (jnp.sum(weights * (value + spread)), messages), (q_local, energy, fresh)

    rows = (data.values, data.weights, given.powers, given.local)
    (value, messages), (kept, energy, fresh) = over_blocks(block, rows, *data.cuts)
    return Walked(value, messages, energy, kept, fresh)


@walk_locally.register
def _(model: LDA, blocks: dict[str, Any], given: Given) -> Walked:
    m, data, powers = means(blocks), given.data, given.powers
    heat = Heat(given.grid.powers, topic_costs(given.grid, blocks["topics"].concentration, model.on_host), given.hot)
    way = Way(Powers(powers, powers), given.local_steps)
    terms, fresh, own = model.walk_with_heat(m, data, way, given.local, heat)
    assert own is not None
    observed, new = own
    joint = observed + document_energies(model, m, fresh, powers)
    return Walked(terms.value, terms.messages, data.weights * joint, fresh, new)


def topic_costs(grid: LocalGrid, concentration: Float[Array, "k v"], on_host: bool) -> Float[Array, "k m"]:
    """c_k(s) = log Σ_v E β_kv^s of each topic at each power, for β ~ Dirichlet(λ):
    E β_v^s = Γ(λ_v + s) Γ(Λ) / (Γ(λ_v) Γ(Λ + s))."""
    assert grid.nodes is not None
    total = jnp.sum(concentration, axis=1)
    if on_host:
        shape = jax.ShapeDtypeStruct((len(total), _NODES), jnp.float64)
        sums = jax.pure_callback(_sums_on_host, shape, concentration, grid.table, vmap_method="sequential")
    else:
        columns = [jnp.sum(concentration * _look_up(grid.table[:, j], concentration), axis=1) for j in range(_NODES)]
        sums = jnp.stack(columns, axis=1)
    whole = jnp.stack([_look_up(grid.table[:, j], total) for j in range(_NODES)], axis=1)
    # The factor λ/Λ of both is what the table leaves out.
    return jnp.log(sums / (total[:, None] * whole)) @ grid.nodes


def _look_up(column: Float[Array, " e"], value: Float[Array, "..."]) -> Float[Array, "..."]:
    place = jnp.clip((jnp.log(value) - np.log(_LAMBDAS[0])) / _STEP, 0.0, _ENTRIES - 1.001)
    low = jnp.floor(place).astype(jnp.int32)
    return column[low] + (place - low) * (column[low + 1] - column[low])


def _sums_on_host(concentration: Array, table: Array) -> np.ndarray:
    from ...kernels.topics_powers import weighted_sums

    return weighted_sums(np.asarray(concentration), np.asarray(table), _LAMBDAS[0], _STEP)
