"""Hidden Markov chains: the sum over all paths of states, whose derivative is an expectation, or with a key one draw.

    f_t(j) ∝ p(x_t | j) Σ_i f_(t−1)(i) A_ij        filtered: p(z_t = j | x_1 … x_t)
    a_t(i) ∝ Σ_j A_ij p(x_(t+1) | j) a_(t+1)(j)    ahead: p(x_(t+1) … x_T | z_t = i)
    p(z_t | x) ∝ f_t a_t,      p(z_(t−1) = i, z_t = j | x) ∝ f_(t−1)(i) A_ij p(x_t | j) a_t(j)

All sequences lie one after another in common arrays; `starts` says how the chain enters each step: `ON` from the step
before it, `FIRST` from the initial distribution, or by a `CUT`, where a window was taken out of the middle of a
sequence and every state is equally probable. Three engines run the recursions, and tests hold them equal: "device" is a
scan in log space (the specification), "parallel" a tree of matrix products for accelerators, and "host" the Numba
kernel of `kernels/chains.py`, which is imported only when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Int, Int8, Key

from .engines import default_engine

ON, FIRST, CUT = 0, 1, 2

_LOWEST = -1e300  # stands for log 0 in the tree, where a difference of infinities would not be a number
_SMALL = 10_000  # steps × states


class Chain(NamedTuple):
    """log p(z_1), log p(z_t | z_(t−1)) (rows: from) and log p(x_t | z_t); none of them needs to be normalised."""

    initial: Float[Array, " k"]
    transition: Float[Array, "k k"]
    likelihood: Float[Array, "t k"]
    starts: Int8[Array, " t"]


class Expected(NamedTuple):
    """Expectations under the posterior of the paths, for weights w_t of the steps."""

    increments: Float[Array, " t"]  # log p(x_t | x_1 … x_(t−1)), not weighted
    states: Float[Array, "t k"]  # p(z_t | all x), not weighted
    transitions: Float[Array, "k k"]  # Σ_t w_t p(z_(t−1), z_t | all x)


def choose_engine(engine: str, steps: int, states: int) -> str:
    """The engine that the user has named, or for "auto" the engine that gives a first answer soonest.

    On a CPU the kernel saves less than a millisecond a sweep below `_SMALL`, and takes a second to compile. On an
    accelerator a scan launches one small kernel after another: for 100,000 steps an H200 takes 1,660 ms, and 3.9 ms
    for the tree.
    """
    if engine != "auto":
        return engine
    if steps * states < _SMALL:
        return "device"
    return "host" if default_engine() != "plain" and jax.default_backend() == "cpu" else "parallel"


# ---- values and derivatives ---------------------------------------------------------------------------------


def sum_paths(chain: Chain, key: Key[Array, ""] | None = None, engine: str = "device") -> Float[Array, " t"]:
    """log p(x_t | x_1 … x_(t−1)) for each step; their sum over a sequence is the log of the sum over all its paths.

    The derivative of this sum is the posterior of the states and transitions, or, given a key, a path drawn from that
    posterior. The derivative rule assigns to each step its smoothed statistics. This is exact where all steps of a
    sequence have one weight; a step of weight zero only serves as context for other steps.
    """
    return _sum(*chain, engine) if key is None else _drawn(chain, key, engine)


def _drawn(chain: Chain, key: Key[Array, ""], engine: str) -> Float[Array, " t"]:
    """The increments, whose derivative is one path, drawn by forward filtering and backward sampling."""
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
    forward, value, ahead, joint = _both_ways(chain, engine)
    here = jax.nn.softmax(forward + ahead, axis=1)
    tangent = jnp.sum(here * d_likelihood, axis=1)
    tangent += jnp.where(chain.starts == FIRST, here @ d_initial, 0.0)
    pairs = _pairs(chain, forward, joint)
    return value, tangent + jnp.sum(pairs * d_transition[None], axis=(1, 2))


def expected_statistics(chain: Chain, weights: Float[Array, " t"], engine: str) -> Expected:
    """The derivatives of `sum_paths`, weighted by step, without differentiating."""
    return _expect_by_kernel(chain, weights) if engine == "host" else _expect(chain, weights, engine)


def _expect(chain: Chain, weights: Float[Array, " t"], engine: str = "device") -> Expected:
    forward, value, ahead, joint = _both_ways(chain, engine)
    pairs = _pairs(chain, forward, joint)
    return Expected(value, jax.nn.softmax(forward + ahead, axis=1), jnp.einsum("t,tij->ij", weights, pairs))


@jax.custom_jvp
def _expect_by_kernel(chain: Chain, weights: Float[Array, " t"]) -> Expected:
    size, steps = chain.initial.shape[0], chain.starts.shape[0]
    return Expected(*_call("host_expect", (_shape(steps), _shape(steps, size), _shape(size, size)), *chain, weights))


@_expect_by_kernel.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    """A kernel has no derivative, so the derivative of the scan is used."""
    (chain, weights), (d_chain, d_weights) = primals, tangents

    def scan(initial, transition, likelihood, weights):  # type: ignore[no-untyped-def]
        return _expect(Chain(initial, transition, likelihood, chain.starts), weights)

    return jax.jvp(scan, (*chain[:3], weights), (*d_chain[:3], d_weights))


def filter_states(chain: Chain, engine: str = "device") -> tuple[Float[Array, " t"], Float[Array, "t k"]]:
    """(log p(x_t | x_1 … x_(t−1)), log p(z_t | x_1 … x_t))."""
    if engine == "host":
        return _call("host_filter", (_shape(chain.starts.shape[0]), _shape(*chain.likelihood.shape)), *chain)
    forward, value = _tree_forward(chain) if engine == "parallel" else _forward(chain)
    return value, forward


def smooth_states(chain: Chain, engine: str = "device") -> Float[Array, "t k"]:
    """p(z_t | the whole sequence)."""
    return expected_statistics(chain, jnp.zeros(chain.starts.shape), engine).states


def draw_paths(
    chain: Chain, uniform: Float[Array, " t"], engine: str = "device"
) -> tuple[Float[Array, " t"], Int[Array, " t"]]:
    """The increments, and a path drawn from its posterior by inversion of the `uniform` numbers."""
    if engine == "host":
        shapes = _shape(chain.starts.shape[0]), jax.ShapeDtypeStruct(chain.starts.shape, jnp.int64)
        return _call("host_draw", shapes, *chain, uniform)
    value, forward = filter_states(chain, engine)

    def step(later: Int[Array, ""], part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        here, level, next_start = part
        logits = here + jnp.where(next_start == ON, chain.transition[:, later], 0.0)
        cumulative = jnp.cumsum(jnp.exp(logits - jnp.max(logits)))
        state = jnp.sum(cumulative <= level * cumulative[-1])
        return state, state

    first = jnp.zeros((), dtype=jnp.int64)
    _, path = jax.lax.scan(step, first, (forward, uniform, _next_starts(chain)), reverse=True)
    return value, path


def best_path(chain: Chain) -> Int[Array, " t"]:
    """The most probable path of states (Viterbi)."""

    def step(before: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        likelihood, start = part
        scores = before[:, None] + chain.transition
        best = jnp.where(start == ON, jnp.max(scores, axis=0), _entry(chain, start, jnp.zeros_like(likelihood)))
        # Scores are relative to the best score: sums over long sequences would lose their digits.
        score = best + likelihood
        return score - jnp.max(score), (score, jnp.argmax(scores, axis=0))

    start = jnp.zeros(chain.initial.shape)
    _, (scores, origins) = jax.lax.scan(step, start, (chain.likelihood, chain.starts))

    def back(later: Int[Array, ""], part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        score, origin, next_start = part
        state = jnp.where(next_start == ON, origin[later], jnp.argmax(score))
        return state, state

    after = jnp.concatenate([origins[1:], origins[:1]])
    return jax.lax.scan(back, jnp.zeros((), dtype=jnp.int64), (scores, after, _next_starts(chain)), reverse=True)[1]


def _next_starts(chain: Chain) -> Int8[Array, " t"]:
    return jnp.append(chain.starts[1:], jnp.asarray([FIRST], chain.starts.dtype))


# ---- the recursions: as a scan in log space, and as a tree ------------------------------------------------------


class Passes(NamedTuple):
    """The results of both recursions, in logarithms; `ahead` and `joint` are known up to a constant for each step."""

    forward: Float[Array, "t k"]  # log p(z_t | x_1 … x_t)
    increments: Float[Array, " t"]
    ahead: Float[Array, "t k"]  # log p(x_(t+1) … x_T | z_t)
    joint: Float[Array, "t k"]  # log p(x_t … x_T | z_t)


def _both_ways(chain: Chain, engine: str) -> Passes:
    tree = engine == "parallel"
    forward, increments = _tree_forward(chain) if tree else _forward(chain)
    ahead = _tree_backward(chain) if tree else _backward(chain)
    return Passes(forward, increments, ahead, ahead + chain.likelihood)


def _entry(chain: Chain, start: Int8[Array, ""], moved: Float[Array, " k"]) -> Float[Array, " k"]:
    """log p(z_t) before x_t is seen: `moved`, which comes from the step before, unless the chain starts or is cut
    here."""
    alike = jnp.full(chain.initial.shape, -np.log(chain.initial.shape[0]))
    return jnp.where(start == FIRST, chain.initial, jnp.where(start == CUT, alike, moved))


def _forward(chain: Chain) -> tuple[Float[Array, "t k"], Float[Array, " t"]]:
    def step(before: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        likelihood, start = part
        moved = jax.nn.logsumexp(before[:, None] + chain.transition, axis=0)
        joint = _entry(chain, start, moved) + likelihood
        norm = jax.nn.logsumexp(joint)
        return joint - norm, (joint - norm, norm)

    return jax.lax.scan(step, jnp.zeros(chain.initial.shape), (chain.likelihood, chain.starts))[1]


def _backward(chain: Chain) -> Float[Array, "t k"]:
    def step(ahead: Float[Array, " k"], part: tuple[Array, Array]) -> tuple[Array, Array]:
        likelihood, start = part
        back = jax.nn.logsumexp(chain.transition + (ahead + likelihood)[None], axis=1)
        return jnp.where(start == ON, back - jnp.max(back), 0.0), ahead

    start = jnp.zeros(chain.initial.shape)
    return jax.lax.scan(step, start, (chain.likelihood, chain.starts), reverse=True)[1]


def _pairs(chain: Chain, forward: Float[Array, "t k"], joint: Float[Array, "t k"]) -> Float[Array, "t k k"]:
    """p(z_(t−1), z_t | all x); zero where a sequence begins."""
    logits = _before(forward)[:, :, None] + chain.transition[None] + joint[:, None, :]
    pairs = jax.nn.softmax(logits.reshape(len(logits), -1), axis=1).reshape(logits.shape)
    return jnp.where((chain.starts == ON)[:, None, None], pairs, 0.0)


def _before(forward: Float[Array, "t k"]) -> Float[Array, "t k"]:
    """The row of the step before each step; zeros for the first step."""
    return jnp.concatenate([jnp.zeros((1, forward.shape[1])), forward[:-1]])


def _tree_forward(chain: Chain) -> tuple[Float[Array, "t k"], Float[Array, " t"]]:
    """The filtered states and the increments. The latter follow from the filtered states of the step before, because
    differences of sums over the whole sequence would lose digits."""
    steps = _matrices(chain)
    first = _entry(chain, chain.starts[0], jax.nn.logsumexp(chain.transition, axis=0)) + chain.likelihood[0]
    steps = steps.at[0].set(jnp.maximum(first, _LOWEST)[None])  # independent of the state before, so all rows are equal
    forward = jax.nn.log_softmax(jax.lax.associative_scan(_product, steps)[:, 0], axis=1)
    moved = jax.nn.logsumexp(_before(forward)[:, :, None] + chain.transition[None], axis=1)
    entry = jax.vmap(partial(_entry, chain))(chain.starts, moved)
    return forward, jax.nn.logsumexp(entry + chain.likelihood, axis=1)


def _tree_backward(chain: Chain) -> Float[Array, "t k"]:
    steps = _matrices(chain)[1:]
    after = jax.lax.associative_scan(lambda later, earlier: _product(earlier, later), steps, reverse=True)
    ahead = jax.nn.logsumexp(after, axis=2)
    return jnp.concatenate([ahead - jnp.max(ahead, axis=1, keepdims=True), jnp.zeros((1, ahead.shape[1]))])


def _matrices(chain: Chain) -> Float[Array, "t k k"]:
    """M_t = log p(x_t, z_t | z_(t−1)). Their products up to and after each step take log T rounds instead of T, at k³
    operations per step instead of k²; an accelerator can do these in parallel, a CPU cannot."""
    entry = jax.vmap(lambda start: _entry(chain, start, jnp.zeros(chain.initial.shape)))(chain.starts)
    move = jnp.where((chain.starts == ON)[:, None, None], chain.transition[None], entry[:, None, :])
    return jnp.maximum(move + chain.likelihood[:, None, :], _LOWEST)


def _product(left: Float[Array, "t i j"], right: Float[Array, "t j k"]) -> Float[Array, "t i k"]:
    """log (exp(left) exp(right)) up to a constant: only ratios are needed, and sums over long sequences would lose
    digits. Each entry is computed in log space, because even the largest paths can be out of the range of plain
    products."""
    product = jax.nn.logsumexp(left[:, :, :, None] + right[:, None, :, :], axis=2)
    return jnp.maximum(product - jnp.max(product, axis=(1, 2), keepdims=True), _LOWEST)


# ---- calls to the kernel ------------------------------------------------------------------------------------


def _shape(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float64)


def _call(name: str, shapes: tuple[jax.ShapeDtypeStruct, ...], *arrays: Array) -> Any:
    return jax.pure_callback(_kernel(name), shapes, *arrays, vmap_method="sequential")


@cache  # one function for each name, because JAX would compile again for a new function
def _kernel(name: str) -> Callable[..., tuple[np.ndarray, ...]]:
    def call(*arrays: Array) -> tuple[np.ndarray, ...]:
        from ..kernels import chains

        return getattr(chains, name)(*map(np.asarray, arrays))

    return call
