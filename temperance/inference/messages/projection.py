"""The inner step: the member of the family closest, in α-divergence, to a cavity times one exact factor.

The factor is f(θ) = Σ_k exp{⟨T_k, t(θ)⟩ + log h_k}, where T_k adds W_k to the weights and T(x) to component k.
With η° the cavity, η the current approximation and η̂ = αη° + (1−α)η (all of the thesis's 3.60–3.64), let

    log R_k = A(η̂ + αT_k) − A(η̂) + α log h_k.

At the optimum q(z = k) = r_k ∝ R_k^(1/α), so the thesis's γ (3.65) need not be iterated, and neither need the scale
(3.66), which is ln S = (1/α)[A(η̂) − αA(η°) − (1−α)A(η)] + ln Σ_k R_k^(1/α). There remains the fixed point η =
match{(1−r)∇A(η̂) + r∇A(η̂ + αT)}: exact in one step for α = 1, and the cavity plus r T(x) for α → 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...models._factors import Blocks, Natural, Terms, is_proper, log_normaliser, naturals, with_naturals

TOLERANCE = 1e-10  # relative change of the natural parameters at which the fixed point is reached
MOST_STEPS = 1000
LEAST_RATE = 0.05
LIMITS = (TOLERANCE, MOST_STEPS, LEAST_RATE)  # in the order that kernels take


class Projection(NamedTuple):
    """The closest member S·q(θ) of the scaled family."""

    blocks: Blocks
    log_scale: Float[Array, ""]  # ln S
    log_site: Float[Array, ""]  # ln s̃ = ln S + A(η°) − A(η), the scale of the factor's approximation (3.106)
    responsibilities: Float[Array, " k"]
    exists: Bool[Array, ""]  # whether η̂ stayed in the domain; always, for 0 ≤ α ≤ 1
    steps: Int[Array, ""]


def mix(left: Any, right: Any, rate: Any) -> Any:
    """(1 − rate)·left + rate·right, leaf by leaf."""
    return jax.tree.map(lambda a, b: a + rate * (b - a), left, right)


def project_exact(terms: Terms, cavity: Blocks, guess: Blocks, factor: Any) -> Projection:
    """α = 1: the moments of cavity × factor, matched (3.13–3.35); `guess` is where the dual maps start."""
    tilted = terms.tilt(cavity, factor, 1.0)
    r = jax.nn.softmax(tilted.log_terms)
    blocks = tilted.match(r, guess)
    log_scale = jax.nn.logsumexp(tilted.log_terms)
    return Projection(
        blocks=blocks,
        log_scale=log_scale,
        log_site=log_scale + tilted.value - log_normaliser(blocks),
        responsibilities=r,
        exists=jnp.asarray(True),
        steps=jnp.asarray(1),
    )


def project(alpha: float, terms: Terms, cavity: Blocks, start: Blocks, factor: Any) -> Projection:
    """The α-projection, searched for from `start` (the current approximation); see the module's docstring."""
    if alpha == 1.0:
        return project_exact(terms, cavity, start, factor)
    if alpha > 1.0:
        # From a q narrower than the solution η̂ may be improper, although it is proper at the solution.
        start = project_exact(terms, cavity, start, factor).blocks
    step = _variational_step if alpha == 0.0 else _fractional_step
    furthest = 1.0 if alpha == 0.0 else 1.0 / alpha

    def unfinished(search: _Search) -> Bool[Array, ""]:
        return search.seen.exists & (search.change > TOLERANCE) & (search.steps < MOST_STEPS)

    def body(search: _Search) -> _Search:
        target, seen = step(alpha, terms, cavity, search.blocks, factor)
        change = _relative_change(naturals(search.blocks), naturals(target))
        # A growing step has overshot, so the damping is increased: with enough halvings the iteration settles.
        rate = jnp.where(change > search.change, jnp.maximum(0.5 * search.rate, LEAST_RATE), search.rate)
        moved = _move(search.blocks, target, rate, furthest)
        # The last blocks stay at the point of evaluation, so that nothing needs to be computed again.
        go_on = seen.exists & (change > TOLERANCE)
        kept = jax.tree.map(lambda old, new: jnp.where(go_on, new, old), search.blocks, moved)
        return _Search(kept, seen, rate, change, search.steps + 1)

    nothing = _Seen(jnp.asarray(True), jnp.zeros(()), jnp.zeros(start["components"].batch_shape))
    first = _Search(start, nothing, jnp.asarray(furthest), jnp.asarray(jnp.inf), jnp.asarray(0))
    search = jax.lax.while_loop(unfinished, body, first)
    blocks, seen = search.blocks, search.seen
    before, after = log_normaliser(cavity), log_normaliser(blocks)
    if alpha == 0.0:
        # The bound with q(z) at its best: ln Σ_k exp E log p(x, z = k) − KL(q ‖ cavity) (2.35).
        rest = -sum((jnp.sum(blocks[name].kl(cavity[name])) for name in blocks), start=jnp.zeros(()))
    else:
        rest = (seen.value - alpha * before - (1.0 - alpha) * after) / alpha
    log_scale = rest + jax.nn.logsumexp(seen.log_terms)
    r = jax.nn.softmax(seen.log_terms)
    return Projection(blocks, log_scale, log_scale + before - after, r, seen.exists, search.steps)


class _Seen(NamedTuple):
    """The quantities evaluated at the blocks from which a step starts."""

    exists: Bool[Array, ""]  # whether η̂ is in the domain
    value: Float[Array, ""]  # A(η̂)
    log_terms: Float[Array, " k"]  # log R_k^(1/α)


class _Search(NamedTuple):
    blocks: Blocks
    seen: _Seen
    rate: Float[Array, ""]  # step length towards the target
    change: Float[Array, ""]
    steps: Int[Array, ""]


def _fractional_step(alpha: float, terms: Terms, cavity: Blocks, blocks: Blocks, factor: Any) -> tuple[Blocks, _Seen]:
    bridge = _bridge(alpha, cavity, blocks)
    # Between two members of a convex domain η̂ is proper; beyond them (α > 1) the conditions of the
    # thesis's section 3.5 have to be checked.
    exists = is_proper(bridge) if alpha > 1.0 else jnp.asarray(True)
    tilted = terms.tilt(bridge, factor, alpha)
    powered = tilted.log_terms / alpha
    return tilted.match(jax.nn.softmax(powered), blocks), _Seen(exists, tilted.value, powered)


def _bridge(alpha: float, cavity: Blocks, blocks: Blocks) -> Blocks:
    """η̂ = αη° + (1−α)η."""
    return with_naturals(cavity, mix(naturals(blocks), naturals(cavity), alpha))


def _variational_step(alpha: float, terms: Terms, cavity: Blocks, blocks: Blocks, factor: Any) -> tuple[Blocks, _Seen]:
    """α = 0: the E and the M step of one datum (2.28–2.34)."""
    mean = {name: family.mean() for name, family in blocks.items()}
    log_terms = terms.expected(mean, factor)
    r = jax.nn.softmax(log_terms)
    messages = terms.message(mean, factor, r)
    target = {name: family + messages[name] for name, family in cavity.items()}
    return target, _Seen(jnp.asarray(True), jnp.zeros(()), log_terms)


def _move(blocks: Blocks, target: Blocks, rate: Float[Array, ""], furthest: float) -> Blocks:
    """Move towards `target` and, for α < 1, beyond it: at rate 1/α the components that the factor does not touch return
    to the cavity at once. Points beyond the target may be outside the domain; the target itself never is."""
    moved = with_naturals(blocks, mix(naturals(blocks), naturals(target), rate))
    if furthest <= 1.0:
        return moved
    inside = is_proper(moved)
    return jax.tree.map(lambda near, far: jnp.where(inside, far, near), target, moved)


def _relative_change(old: Natural, new: Natural) -> Float[Array, ""]:
    """The largest change of a natural parameter, relative to the largest of its kind."""
    parts = [
        jnp.max(jnp.abs(b - a)) / (jnp.max(jnp.abs(b)) + 1e-300)
        for a, b in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    ]
    return jnp.max(jnp.stack(parts))
