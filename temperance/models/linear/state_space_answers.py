"""What a state-space fit says about states, missing entries and the future, from a posterior or from draws."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...families import Gamma
from ...numerics.linalg import cholesky
from .._model import Means, Posterior, draw_posterior, means
from .prediction import Forecast
from .series import Series
from .state_space import StateSpace

_MOST = 500  # draws that an average looks at

Moments = tuple[Array, Array]  # mean and variance


def smooth(model: StateSpace, q: Any, x: Series) -> Moments:
    """Of the states (series, step, state)."""
    return _average(model, q, x, _states)


def filtered(model: StateSpace, q: Any, x: Series) -> Moments:
    """Of the states given what came before and is here."""
    return _average(model, q, x, _states_so_far)


def impute(model: StateSpace, q: Any, x: Series) -> Moments:
    """Of every entry (series, step, column)."""
    return _average(model, q, x, _entries)


def _average(model: StateSpace, q: Any, x: Series, what: Any) -> Moments:
    if isinstance(q, Posterior):
        return _of_posterior(model, q, x, what)
    draws, log_weights = q.thinned(_MOST).flat()
    return _of_draws(model, draws, log_weights, x, what)


@eqx.filter_jit
def _of_posterior(model: StateSpace, q: Posterior, x: Series, what: Any) -> Moments:
    m = means(q.blocks)
    noise = q.blocks.get("noise")
    if isinstance(noise, Gamma):
        variance = jnp.where(noise.shape > 1.0, noise.rate / jnp.maximum(noise.shape - 1.0, 1e-300), jnp.inf)
    else:
        variance = 1.0 / model._precisions(m, "noise").value
    return what(model, m, variance, x)


@eqx.filter_jit
def _of_draws(model: StateSpace, draws: Any, log_weights: Any, x: Series, what: Any) -> Moments:
    def one(draw: dict[str, Any]) -> Moments:
        m = model.statistics(draw)
        return what(model, m, 1.0 / model._precisions(m, "noise").value, x)

    def step(total: Moments, part: Any) -> tuple[Moments, None]:
        draw, log_weight = part
        mean, variance = one(draw)
        share = jnp.exp(log_weight)
        return (total[0] + share * mean, total[1] + share * (variance + jnp.square(mean))), None

    draws = jax.tree.map(jnp.asarray, draws)
    shapes = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], draws))
    zero = jax.tree.map(lambda shape: jnp.zeros(shape.shape), shapes)
    (mean, square), _ = jax.lax.scan(step, zero, (draws, log_weights))
    return mean, square - jnp.square(mean)


def _states(model: StateSpace, m: Means, noise: Array, x: Series) -> Moments:
    z = model.potentials(m, x).moments()
    return z.mean, jnp.diagonal(z.covariance, axis1=2, axis2=3)


def _states_so_far(model: StateSpace, m: Means, noise: Array, x: Series) -> Moments:
    z = model.potentials(m, x).filtered()
    return z.mean, jnp.diagonal(z.covariance, axis1=2, axis2=3)


def _entries(model: StateSpace, m: Means, noise: Float[Array, " d"], x: Series) -> Moments:
    k = model.n_states
    z = model.potentials(m, x).moments()
    first, second = model._matrix(m, "observation")
    v = jnp.concatenate([x.controls, jnp.ones((*x.real.shape, 1))], axis=2)[..., : first.shape[1] - k]
    whole = jnp.concatenate([z.mean, v], axis=2)
    mean = whole @ first.T
    square = jnp.einsum("nti,dij,ntj->ntd", whole, second, whole)
    square = square + jnp.einsum("ntij,dij->ntd", z.covariance, second[:, :k, :k])
    return mean, jnp.maximum(square - jnp.square(mean), 0.0) + noise[None, None]


def forecast(model: StateSpace, q: Any, key: Key[Array, ""], x: Series, controls: np.ndarray, draws: int) -> Forecast:
    """The next steps of one series: the last state is drawn given a draw of the parameters, then both go on."""
    key_q, key_x = jax.random.split(key)
    if isinstance(q, Posterior):
        parameters = jax.vmap(lambda key: draw_posterior(key, q))(jax.random.split(key_q, draws))
    else:
        parameters = jax.tree.map(lambda leaf: leaf[0], q.resampled(key_q, draws).blocks)
    paths = np.asarray(_go_on(model, parameters, jax.random.split(key_x, draws), x, jnp.asarray(controls)))
    paths = paths + np.asarray(model.centre)
    return Forecast(paths.mean(axis=0), paths.var(axis=0), paths)


@eqx.filter_jit
def _go_on(model: StateSpace, draws: Any, keys: Any, x: Series, controls: Float[Array, "n u"]) -> Float[Array, "s n d"]:
    last = x.real.shape[1] - 1

    def one(part: Any) -> Float[Array, "n d"]:
        draw, key = part
        key_last, key_noise, key_x = jax.random.split(key, 3)
        z = model.potentials(model.statistics(draw), x).moments()
        here = z.mean[0, last]
        here = here + cholesky(z.covariance[0, last]) @ jax.random.normal(key_last, here.shape)
        a, deviation = model._dynamics_of(draw)
        noise = jax.random.normal(key_noise, (controls.shape[0], model.n_states)) * deviation[None]

        def step(z: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
            u, noise = here
            z = a @ jnp.concatenate([z, u]) + noise
            return z, z

        _, path = jax.lax.scan(step, here, (controls[:, : a.shape[1] - model.n_states], noise))
        return model.observe(key_x, draw, path, controls)

    return jax.lax.map(one, (draws, keys), batch_size=16)
