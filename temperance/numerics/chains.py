"""Hidden Markov chains: sums over all paths of states, whose derivative is an expectation, or with a key one draw.

Steps of all sequences stand one behind the other; `starts` says what happens before a step: `ON` from the step
before it, `FIRST` of a sequence (from the initial distribution), or a `CUT`, where a window was taken out of the middle
of a sequence and nothing is known (every state alike). With "host" the recursions are Numba kernels
(`chains_kernel.py`, imported only when used), with "device" scans in log space, with "parallel" products in a tree
(`chains_parallel.py`); tests hold them equal.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Int8, Key

from .chains_parallel import filtered, forward_backward

ON, FIRST, CUT = 0, 1, 2

_LONG = 512  # steps from which the cost of a call to the host is small beside the work


class Chain(NamedTuple):
    """log p(z_first), log p(z_t | z_(t−1)) (rows: from), and log p(x_t | z_t); none needs to be normalised."""

    initial: Float[Array, " k"]
    transition: Float[Array, "k k"]
    likelihood: Float[Array, "t k"]
    starts: Int8[Array, " t"]


class Expected(NamedTuple):
    """What the posterior of the paths says, each step weighted: Σ_t w_t (increment, transitions), and each state."""

    increments: Float[Array, " t"]
    states: Float[Array, "t k"]  # p(z_t | all x), not weighted
    transitions: Float[Array, "k k"]  # Σ_t w_t p(z_(t−1), z_t | all x)


def choose_engine(engine: str, steps: int) -> str:
    """Unless the user has said which: for long sequences the host on a CPU, and on an accelerator, where a scan waits
    for one small kernel after another, products in a tree (on an H200 3.9 ms instead of 1,660 for 100,000 steps)."""
    if engine != "auto" or steps < _LONG:
        return "device" if engine == "auto" else engine
    return "host" if jax.default_backend() == "cpu" else "parallel"


# ---- values and derivatives ---------------------------------------------------------------------------------


def sum_paths(chain: Chain, key: Key[Array, ""] | None = None, engine: str = "device") -> Float[Array, " t"]:
    """log p(x_t | x_1 … x_(t−1)) for each step: over a sequence they add up to the log of the sum over all its paths.

    The derivative of that sum is the posterior of its states and transitions, or with a key a path drawn from it. The
    derivative given for a single step is its share in that of the sum, the smoothed statistics of that step: with
    weights that are the same all along a sequence it is exact, and a step of weight zero is only a context for others.
    """
    return _sum(*chain, engine) if key is None else _drawn(chain, key, engine)


def _drawn(chain: Chain, key: Key[Array, ""], engine: str) -> Float[Array, " t"]:
    """By forward filtering and backward sampling."""
    uniform = jax.random.uniform(key, chain.starts.shape)
    value, path = draw_paths(Chain(*map(stop_gradient, chain)), uniform, engine)
    size = chain.initial.shape[0]
    here = jax.nn.one_hot(path, size, dtype=jnp.float64)
    before = jnp.concatenate([jnp.zeros((1, size)), here[:-1]])
    term = jnp.sum(here * chain.likelihood, axis=1)
    term += jnp.where(chain.starts == FIRST, here @ chain.initial, 0.0)
    term += jnp.where(chain.starts == ON, jnp.sum((before @ chain.transition) * here, axis=1), 0.0)
    return value + (term - stop_gradient(term))


def _sum_value(initial: Array, transition: Array, likelihood: Array, starts: Array, engine: str) -> Float[Array, " t"]:
    return filter_states(Chain(initial, transition, likelihood, starts), engine)[0]


_sum = jax.custom_jvp(_sum_value, nondiff_argnums=(4,))


@_sum.defjvp
def _(engine, primals, tangents):  # type: ignore[no-untyped-def]
    chain = Chain(*primals)
    d_initial, d_transition, d_likelihood, _ = tangents
    forward, value = _forward(chain)
    ahead, joint = _backward(chain)
    here = jax.nn.softmax(forward + ahead, axis=1)
    tangent = jnp.sum(here * d_likelihood, axis=1)
    tangent += jnp.where(chain.starts == FIRST, here @ d_initial, 0.0)
    pairs = _pairs(chain, forward, joint)
    return value, tangent + jnp.sum(pairs * d_transition[None], axis=(1, 2))


def expected_statistics(chain: Chain, weights: Float[Array, " t"], engine: str) -> Expected:
    """The same as the derivatives of `sum_paths`, in one go."""
    return _expect_on_host(chain, weights) if engine == "host" else _expect_on_device(chain, weights, engine)


@jax.custom_jvp
def _expect_on_host(chain: Chain, weights: Float[Array, " t"]) -> Expected:
    size, steps = chain.initial.shape[0], chain.starts.shape[0]
    shapes = (_shape(steps), _shape(steps, size), _shape(size, size))
    return Expected(*jax.pure_callback(_call_expect, shapes, *chain, weights, vmap_method="sequential"))


@_expect_on_host.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    """A kernel has no derivative: that of the scans stands in."""
    (chain, weights), (d_chain, d_weights) = primals, tangents

    def device(initial, transition, likelihood, weights):  # type: ignore[no-untyped-def]
        return _expect_on_device(Chain(initial, transition, likelihood, chain.starts), weights)

    return jax.jvp(device, (*chain[:3], weights), (*d_chain[:3], d_weights))


def _expect_on_device(chain: Chain, weights: Float[Array, " t"], engine: str = "device") -> Expected:
    if engine == "parallel":
        forward, value, ahead, joint = forward_backward(*_in_parallel(chain))
    else:
        forward, value = _forward(chain)
        ahead, joint = _backward(chain)
    pairs = _pairs(chain, forward, joint)
    return Expected(value, jax.nn.softmax(forward + ahead, axis=1), jnp.einsum("t,tij->ij", weights, pairs))


def filter_states(chain: Chain, engine: str = "device") -> tuple[Float[Array, " t"], Float[Array, "t k"]]:
    """(log p(x_t | x up to t − 1), log p(z_t | x up to t))."""
    if engine == "host":
        shapes = _shape(chain.starts.shape[0]), _shape(*chain.likelihood.shape)
        return jax.pure_callback(_call_filter, shapes, *chain, vmap_method="sequential")
    forward, value = filtered(*_in_parallel(chain)) if engine == "parallel" else _forward(chain)
    return value, forward


def _in_parallel(chain: Chain) -> tuple[Array, Array, Array, Array]:
    """What `chains_parallel` needs."""
    nothing = jnp.zeros(chain.initial.shape)
    entry = jax.vmap(lambda start: _entry(chain, start, nothing))(chain.starts)
    return entry, (chain.starts == ON).astype(jnp.float64), chain.transition, chain.likelihood


def smooth_states(chain: Chain, engine: str = "device") -> Float[Array, "t k"]:
    """p(z_t | the whole sequence)."""
    return expected_statistics(chain, jnp.zeros(chain.starts.shape), engine).states


def draw_paths(
    chain: Chain, uniform: Float[Array, " t"], engine: str = "device"
) -> tuple[Float[Array, " t"], Int[Array, " t"]]:
    """The increments, and a path of states drawn from its posterior by inversion of these uniform numbers."""
    if engine == "host":
        shapes = _shape(chain.starts.shape[0]), jax.ShapeDtypeStruct(chain.starts.shape, jnp.int64)
        return jax.pure_callback(_call_draw, shapes, *chain, uniform, vmap_method="sequential")
    forward, value = _forward(chain)

    def step(later: Int[Array, ""], part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        here, level, next_start = part
        logits = here + jnp.where(next_start == ON, chain.transition[:, later], 0.0)
        cumulative = jnp.cumsum(jnp.exp(logits - jnp.max(logits)))
        state = jnp.sum(cumulative <= level * cumulative[-1])
        return state, state

    first = jnp.zeros((), dtype=jnp.int64)
    following = jnp.append(chain.starts[1:], jnp.asarray([FIRST], chain.starts.dtype))
    _, path = jax.lax.scan(step, first, (forward, uniform, following), reverse=True)
    return value, path


def best_path(chain: Chain) -> Int[Array, " t"]:
    """The most probable path of states (Viterbi)."""

    def step(before: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        likelihood, start = part
        scores = before[:, None] + chain.transition
        best = jnp.where(start == ON, jnp.max(scores, axis=0), _entry(chain, start, jnp.zeros_like(likelihood)))
        # A sequence begins afresh; without the maximum, sums over long ones would lose their digits.
        score = best + likelihood
        return score - jnp.max(score), (score, jnp.argmax(scores, axis=0))

    start = jnp.zeros(chain.initial.shape)
    _, (scores, origins) = jax.lax.scan(step, start, (chain.likelihood, chain.starts))

    def back(later: Int[Array, ""], part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        score, origin, next_start = part
        state = jnp.where(next_start == ON, origin[later], jnp.argmax(score))
        return state, state

    following = jnp.append(chain.starts[1:], jnp.asarray([FIRST], chain.starts.dtype))
    after = jnp.concatenate([origins[1:], origins[:1]])
    return jax.lax.scan(back, jnp.zeros((), dtype=jnp.int64), (scores, after, following), reverse=True)[1]


# ---- scans in log space -------------------------------------------------------------------------------------


def _entry(chain: Chain, start: Int8[Array, ""], otherwise: Float[Array, " k"]) -> Float[Array, " k"]:
    """What is known of the state before its step is seen, where no step goes before."""
    alike = jnp.full(chain.initial.shape, -np.log(chain.initial.shape[0]))
    return jnp.where(start == FIRST, chain.initial, jnp.where(start == CUT, alike, otherwise))


def _forward(chain: Chain) -> tuple[Float[Array, "t k"], Float[Array, " t"]]:
    """log p(z_t | x up to t), and the increments."""

    def step(before: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        likelihood, start = part
        moved = jax.nn.logsumexp(before[:, None] + chain.transition, axis=0)
        joint = _entry(chain, start, moved) + likelihood
        norm = jax.nn.logsumexp(joint)
        return joint - norm, (joint - norm, norm)

    return jax.lax.scan(step, jnp.zeros(chain.initial.shape), (chain.likelihood, chain.starts))[1]


def _backward(chain: Chain) -> tuple[Float[Array, "t k"], Float[Array, "t k"]]:
    """log p(x after t | z_t) up to a constant for each step, and the same with x_t itself."""

    def step(ahead: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        likelihood, start = part
        joint = ahead + likelihood
        back = jax.nn.logsumexp(chain.transition + joint[None], axis=1)
        before = jnp.where(start == ON, back - jnp.max(back), 0.0)
        return before, (ahead, joint)

    start = jnp.zeros(chain.initial.shape)
    return jax.lax.scan(step, start, (chain.likelihood, chain.starts), reverse=True)[1]


def _pairs(chain: Chain, forward: Float[Array, "t k"], joint: Float[Array, "t k"]) -> Float[Array, "t k k"]:
    """p(z_(t−1), z_t | all x); zero where a sequence begins."""
    before = jnp.concatenate([jnp.zeros((1, forward.shape[1])), forward[:-1]])
    logits = before[:, :, None] + chain.transition[None] + joint[:, None, :]
    pairs = jax.nn.softmax(logits.reshape(len(logits), -1), axis=1).reshape(logits.shape)
    return jnp.where((chain.starts == ON)[:, None, None], pairs, 0.0)


# ---- calls to the host --------------------------------------------------------------------------------------


def _shape(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float64)


def _call_expect(*given: Array) -> tuple[np.ndarray, ...]:
    from ..kernels.chains import host_expect

    return host_expect(*map(np.asarray, given))


def _call_filter(*given: Array) -> tuple[np.ndarray, ...]:
    from ..kernels.chains import host_filter

    return host_filter(*map(np.asarray, given))


def _call_draw(*given: Array) -> tuple[np.ndarray, ...]:
    from ..kernels.chains import host_draw

    return host_draw(*map(np.asarray, given))
