"""A chain of Normal vectors along a plate of time, integrated out exactly with all its steps.

    z_1 ~ N(m, Λ₁⁻¹),   z_t ~ N(A z_{t−1}, Λ⁻¹)

All other factors of the graph are affine in (z_t, −½ z_t z_tᵀ) of each step, so their derivatives at zero are the
potentials of the steps; the factors of the chain itself need E[Λ], E[Λ A] and E[Aᵀ Λ A].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..families import NormalVector
from ..models._model import Means, Powers
from ..numerics.gaussian_chains import ChainMoments, chain_integral, chain_moments
from ..numerics.linalg import cholesky, outer, solve, solve_vector, symmetrise, transposed_solve_vector
from ..numerics.special import LOG_2PI
from . import factors, values
from .scope import Scope
from .spec import Quantity, Spec
from .tables import Axes, I, J, Table, contract, spread

if TYPE_CHECKING:
    from .compiled import GraphModel

_L = 10_002  # a third name for an axis of events


class Potentials(NamedTuple):
    """exp{E log p(x, z | θ)} as chains of Gaussian potentials; the plates of the chain but time are `*b`."""

    constant: Float[Array, " n"]
    linear: Float[Array, "*b t k"]
    precision: Float[Array, "*b t k k"]
    coupling: Float[Array, "*b k k"]
    links: Float[Array, "*b t"]


class Transition(NamedTuple):
    """E log p(z_t | z_{t−1}) = c − ½ z_tᵀ L z_t + z_tᵀ G z_{t−1} − ½ z_{t−1}ᵀ Q z_{t−1}."""

    constant: Float[Array, "*b"]
    own: Float[Array, "*b k k"]
    across: Float[Array, "*b k k"]
    before: Float[Array, "*b k k"]


def chain_of(spec: Spec) -> Quantity | None:
    return spec[spec.integrated] if spec.integrated and spec[spec.integrated].kind == "gaussian_chain" else None


def chain_evidence(
    model: GraphModel, m: Means, x: Any, powers: Powers, key: Key[Array, ""] | None
) -> Float[Array, " n"]:
    p = potentials(model, m, x, powers)
    lead = p.links.shape[:-1]
    linear, precision, coupling, links = (part.reshape((-1, *part.shape[len(lead) :])) for part in p[1:])
    keys = None if key is None else jax.random.split(key, links.shape[0])
    value = jax.vmap(chain_integral)(linear, precision, coupling, links, keys)
    return p.constant + jnp.sum(value.reshape((lead[0], -1)), axis=1)


def potentials(model: GraphModel, m: Means, x: Any, powers: Powers = Powers(), whole: bool = False) -> Potentials:
    """The potentials of a chain. Steps after the last observed one are left out, unless the `whole` chain is asked
    for."""
    spec = model.spec
    q = spec[spec.integrated]
    scope = model.scope(m, x)
    shape, k = tuple(scope.sizes[a] for a in _batch(scope, q)), q.size

    def seen(own: NormalVector) -> Float[Array, " n"]:
        return model.evaluate(model.scope({**m, q.name: own}, x), powers)

    zero = scope.zero(q.name)
    constant, pull = jax.vjp(lambda linear: seen(NormalVector(linear, None)), zero.linear)  # type: ignore[arg-type]
    (linear,) = pull(jnp.ones_like(constant))
    precision = jax.grad(lambda p: jnp.sum(seen(NormalVector(zero.linear, p))))(zero.precision)
    linear, precision = _time_last(scope, q, linear), _time_last(scope, q, precision)

    length = scope.sizes[spec.axis(q.time)]
    going = jnp.ones((*shape, length)) if whole or not model.masked else _going_on(scope, q, shape, length)
    moves = going.at[..., 0].set(0.0)
    starts = going - moves
    follows = jnp.concatenate([moves[..., 1:], jnp.zeros((*shape, 1))], axis=-1)
    c, first = first_step(scope, q)
    step = transition(scope, q)
    latent = jnp.asarray(powers.latent)
    latent = jnp.broadcast_to(latent.reshape((-1, *(1,) * (len(shape) - 1))), shape)[..., None]
    padding = 1.0 - going
    own_constant = latent * (starts * c[..., None] + moves * step.constant[..., None]) - 0.5 * k * LOG_2PI * padding
    chain = _spread(starts, first.precision) + _spread(moves, step.own) + _spread(follows, step.before)
    return Potentials(
        constant + jnp.sum(own_constant.reshape((shape[0], -1)), axis=1),
        linear + (latent * starts)[..., None] * first.linear[..., None, :],
        symmetrise(precision + latent[..., None, None] * chain)
        + _spread(padding, jnp.broadcast_to(jnp.eye(k), (*shape, k, k))),
        latent[..., None] * step.across,
        moves,
    )


def first_step(scope: Scope, q: Quantity) -> tuple[Float[Array, "*b"], NormalVector]:
    """E log p(z_1) = c + hᵀz − ½ zᵀPz."""
    batch = _batch(scope, q)
    shape = tuple(scope.sizes[a] for a in batch)
    parents = {"mean": scope.value(q.parent("initial")), "precision": scope.value(q.parent("initial_precision"))}

    def factor(own: NormalVector) -> Float[Array, "*b"]:
        table = factors.normal(values.of_statistics("real", own, batch), parents, q.size)
        return jnp.broadcast_to(spread(table.array, table.axes, batch), shape)

    zero = NormalVector(jnp.zeros((*shape, q.size)), jnp.zeros((*shape, q.size, q.size)))
    constant, pull = jax.vjp(factor, zero)
    return constant, pull(jnp.ones_like(constant))[0]


def transition(scope: Scope, q: Quantity) -> Transition:
    k, batch = q.size, _batch(scope, q)
    shape = tuple(scope.sizes[a] for a in batch)
    axes, mean, second = _rows(scope, q)
    precision = scope.value(q.parent("precision"))
    value = precision.fields["value"]
    if value.ndim - len(precision.axes) == 2:
        log_det = precision.table("log_det")
        own = Table(precision.axes, value)
        across = contract((precision.axes, value, (I, J)), (axes, mean, (J, _L)), keep=(I, _L))
        before = contract((axes, mean, (I, J)), (across.axes, across.array, (I, _L)), keep=(J, _L))
    else:
        if "log_det" in precision.fields:
            log_det = precision.table("log_det")
        else:
            log_det = Table(precision.axes, k * precision.fields["log"])
            value = jnp.broadcast_to(value[..., None], (*value.shape, k))
        own = Table(precision.axes, value[..., None] * jnp.eye(k).reshape((1,) * (value.ndim - 1) + (k, k)))
        across = contract((precision.axes, value, (I,)), (axes, mean, (I, J)), keep=(I, J))
        before = contract((precision.axes, value, (I,)), (axes, second, (I, J, _L)), keep=(J, _L))
    constant = 0.5 * (spread(log_det.array, log_det.axes, batch) - k * LOG_2PI)
    return Transition(
        jnp.broadcast_to(constant, shape),
        *(jnp.broadcast_to(spread(t.array, t.axes, batch), (*shape, k, k)) for t in (own, across, before)),
    )


def _rows(scope: Scope, q: Quantity) -> tuple[Axes, Float[Array, "*a k k"], Float[Array, "*a k k k"]]:
    """E[a] and E[a aᵀ] for the rows a of the dynamics; the axis of the rows follows those of the plates."""
    name = q.parent("dynamics")
    a = scope.value(name)
    mean, second = a.fields["mean"], values.second(a)
    rows = [scope.spec.axis(p) for p in scope.spec[name].plates if p not in q.plates]
    if not rows:  # a chain of numbers
        return a.axes, mean[..., None, :], second[..., None, :, :]
    place = a.axes.index(rows[0])
    axes = tuple(axis for axis in a.axes if axis != rows[0])
    return axes, jnp.moveaxis(mean, place, -2), jnp.moveaxis(second, place, -3)


# ---- answers ------------------------------------------------------------------------------------------------


def moments(model: GraphModel, m: Means, x: Any, whole: bool = True) -> ChainMoments:
    """Moments of every step given the whole series: (plates of the chain, time last, …)."""
    p = potentials(model, m, x, whole=whole)
    lead = p.links.shape[:-1]
    flat = [part.reshape((-1, *part.shape[len(lead) :])) for part in p[1:]]
    found = jax.vmap(chain_moments)(*flat)
    return ChainMoments(*(part.reshape((*lead, *part.shape[1:])) for part in found))


def expected_steps(model: GraphModel, m: Means, x: Any, whole: bool = True) -> NormalVector:
    """The chain's expected statistics, in the form that the other variables of a graph have."""
    found = moments(model, m, x, whole)
    second = found.covariance + outer(found.mean, found.mean)
    return _as_steps(Scope(model.spec, model.constants, m, x), found.mean, second)


def draw_steps(key: Key[Array, ""], scope: Scope, q: Quantity) -> NormalVector:
    """The statistics of a path drawn given the parents."""
    shape = tuple(scope.sizes[a] for a in _batch(scope, q))
    _, first = first_step(scope, q)
    step = transition(scope, q)
    key_first, key_rest = jax.random.split(key)
    noise = jax.random.normal(key_rest, (scope.sizes[scope.spec.axis(q.time)] - 1, *shape, q.size))
    factor = cholesky(first.precision)
    start = solve_vector(factor, first.linear) + transposed_solve_vector(
        factor, jax.random.normal(key_first, (*shape, q.size))
    )
    factor = cholesky(step.own)
    move = solve(factor, step.across)

    def advance(z: Array, noise: Array) -> tuple[Array, Array]:
        z = (move @ z[..., None])[..., 0] + transposed_solve_vector(factor, noise)
        return z, z

    _, rest = jax.lax.scan(advance, start, noise)
    path = jnp.moveaxis(jnp.concatenate([start[None], rest]), 0, -2)
    return _as_steps(scope, path, outer(path, path), q)


# ---- pieces -------------------------------------------------------------------------------------------------


def _as_steps(scope: Scope, mean: Array, second: Array, q: Quantity | None = None) -> NormalVector:
    q = scope.spec[scope.spec.integrated] if q is None else q
    place = scope.axes(q).index(scope.spec.axis(q.time))
    last = len(scope.axes(q)) - 1
    return NormalVector(jnp.moveaxis(mean, last, place), -0.5 * jnp.moveaxis(second, last, place))


def _going_on(scope: Scope, q: Quantity, shape: tuple[int, ...], length: int) -> Float[Array, "*b t"]:
    """1 if anything is observed at this step or later, else 0."""
    spec, axes, time = scope.spec, scope.axes(q), scope.spec.axis(q.time)
    found = jnp.zeros((*shape, length), dtype=int)
    for child in spec.observed:
        if q.name in spec.factor_blocks(child.name):
            missing = scope.missing(child)
            gone = tuple(i for i, axis in enumerate(missing.axes) if axis not in axes)
            here = Table(tuple(a for a in missing.axes if a in axes), jnp.any(~missing.array, axis=gone))
            found = found | spread(here.array, here.axes, (*_batch(scope, q), time)).astype(int)
    return jnp.flip(jax.lax.cummax(jnp.flip(found, -1), axis=found.ndim - 1), -1).astype(float)


def _batch(scope: Scope, q: Quantity) -> Axes:
    return tuple(a for a in scope.axes(q) if a != scope.spec.axis(q.time))


def _time_last(scope: Scope, q: Quantity, leaf: Array) -> Array:
    axes = scope.axes(q)
    return jnp.moveaxis(leaf, axes.index(scope.spec.axis(q.time)), len(axes) - 1)


def _spread(where: Float[Array, "*b t"], matrix: Float[Array, "*b k k"]) -> Float[Array, "*b t k k"]:
    return where[..., None, None] * matrix[..., None, :, :]
