"""What a hidden Markov fit says about states and about the future, from a posterior or from draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ...errors import InvalidData
from ...numerics.chains import best_path, filter_states, smooth_states
from .._model import Means, Posterior, means
from ..linear import Forecast
from .steps import Steps

if TYPE_CHECKING:
    from .model import HMM


def by_sequence(rows: Any, x: Steps) -> Any:
    """One array for one sequence, a list of them for several; without what was filled up."""
    rows = np.asarray(rows)
    parts = [rows[begin : begin + length] for begin, length in zip(x.offsets, x.lengths, strict=True)]
    return parts[0] if len(parts) == 1 else parts


@eqx.filter_jit
def smoothed(model: HMM, state: Any, x: Steps) -> Float[Array, "t k"]:
    return _average(model, state, lambda m: smooth_states(model.chain(m, x), model.recursion(x)))


@eqx.filter_jit
def filtered(model: HMM, state: Any, x: Steps) -> Float[Array, "t k"]:
    return _average(model, state, lambda m: jnp.exp(filter_states(model.chain(m, x), model.recursion(x))[1]))


@eqx.filter_jit
def decoded(model: HMM, q: Posterior, x: Steps) -> Int[Array, " t"]:
    return best_path(model.chain(means(q.blocks), x))


def expected_steps(model: HMM, shares: Any, q: Posterior, x: Steps) -> tuple[np.ndarray, np.ndarray]:
    """The steps of the first sequence, and what the probabilities of their states lead to expect of each."""
    steps = model.steps_to_user(x, 0)
    shares = np.asarray(shares)[int(x.offsets[0]) :][: len(steps)]
    columns = model.to_user(q.blocks)["emissions"].described()
    means = np.asarray(columns.get("mean", columns.get("probability", np.full((shares.shape[1], 1), np.nan))))
    means = means.reshape(shares.shape[1], -1)
    return steps, shares @ means if means.shape[1] == steps.shape[1] else np.full(steps.shape, np.nan)


def _average(model: HMM, state: Any, one: Any) -> Any:
    if isinstance(state, Posterior):
        return one(means(state.blocks))
    return state.average(lambda draw: one(model.statistics(draw)))


def forecast(model: HMM, state: Any, key: Key[Array, ""], x: Steps, n: int, draws: int) -> Forecast:
    """The next steps of one sequence: its last state is drawn given a draw of the parameters, then both go on."""
    if x.sequences != 1:
        raise InvalidData(f"a forecast goes on with one sequence, but there are {x.sequences}; give one of them")
    key_q, key_x = jax.random.split(key)
    if isinstance(state, Posterior):
        parameters = _draw(state, jax.random.split(key_q, draws))
    else:
        parameters = jax.tree.map(lambda leaf: leaf[0], state.resampled(key_q, draws).blocks)
    paths, states = map(np.asarray, _go_on(model, parameters, jax.random.split(key_x, draws), x, n))
    if model.shift is not None:
        paths = paths + np.asarray(model.shift)
    shares = np.eye(model.n_states)[states].mean(axis=0)
    return Forecast(paths.mean(axis=0), paths.var(axis=0), paths, shares)


@eqx.filter_jit
def _draw(q: Posterior, keys: Key[Array, " s"]) -> dict[str, Any]:
    def one(key: Key[Array, ""]) -> dict[str, Any]:
        each = enumerate(q.blocks.items())
        return {name: block.sample(jax.random.fold_in(key, number)) for number, (name, block) in each}

    return jax.vmap(one)(keys)


@eqx.filter_jit
def _go_on(model: HMM, draws: Any, keys: Key[Array, " s"], x: Steps, n: int) -> tuple[Array, Array]:
    last = x.lengths[0] - 1

    def one(part: Any) -> tuple[Array, Array]:
        draw, key = part
        key_last, key_states, key_x = jax.random.split(key, 3)
        m: Means = model.statistics(draw)
        known = filter_states(model.chain(m, x), model.recursion(x))[1][last]
        before = jax.random.categorical(key_last, known)
        states = model.simulate_states(key_states, draw, n, before)
        return model.simulate_emissions(key_x, draw, states), states

    return jax.lax.map(one, (draws, keys), batch_size=16)
