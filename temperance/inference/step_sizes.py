"""Step sizes of stochastic methods: ρ_t = scale · (delay + t)^(−decay), t = 1, 2, …; or adaptive ones.

Adaptive step sizes follow the noise of the natural gradient g (Ranganath, Wang, Blei and Xing, 2013). With moving
averages ḡ of g and h̄ of |g|² over the last τ steps,

    ρ = |ḡ|² / h̄,      τ ← τ (1 − ρ) + 1:

close to 1 while the minibatches agree, and small once their gradients are mostly noise. Lengths are those of the
Fisher metric at q, |g|² = gᵀ F(η) g, so that units do not matter. ρ_{t+1} uses the gradients up to that of step t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..errors import InvalidParameter
from ..models._factors import Blocks, naturals, with_naturals
from ..models._model import means
from ..numerics.place import on_device

ADAPTIVE = "adaptive"
_USUAL = (10.0, 0.7)  # (delay, decay) of the first steps of adaptive ones
_FIRST = 10
_SMALLEST = 1e-6


class StepSize(NamedTuple):
    """Scale, delay and decay as arrays, so that another schedule needs no compilation."""

    scale: Float[Array, ""]
    delay: Float[Array, ""]
    decay: Float[Array, ""]

    def __call__(self, t: Int[Array, ""]) -> Float[Array, ""]:
        return self.scale * (self.delay + t) ** -self.decay


class Adaptive(StepSize):
    """Step sizes that follow this schedule for the first steps, and then adapt."""

    def start(self, blocks: Blocks) -> Pace:
        nothing = jax.tree.map(jnp.zeros_like, naturals(blocks))
        return Pace(nothing, jnp.zeros(()), jnp.ones(()), self(jnp.asarray(1)))

    def after(self, pace: Pace, t: Int[Array, ""], before: Blocks, blocks: Blocks) -> Pace:
        """The pace after step t, which led from `before` to `blocks`."""
        g = jax.tree.map(lambda new, old: (new - old) / pace.rate, naturals(blocks), naturals(before))
        mean, square = jax.tree.map(
            lambda old, new: old + (new - old) / pace.memory, (pace.mean, pace.square), (g, _squared(g, blocks))
        )
        rate = jnp.clip(_squared(mean, blocks) / jnp.maximum(square, 1e-300), _SMALLEST, 1.0)
        first = t < _FIRST
        memory = jnp.where(first, pace.memory, pace.memory * (1.0 - rate)) + 1.0
        return Pace(mean, square, memory, jnp.where(first, self(t + 1), rate))


class Pace(NamedTuple):
    """Moving averages of the natural gradient and of its squared length, over `memory` steps, and the next rate."""

    mean: Any
    square: Float[Array, ""]
    memory: Float[Array, ""]
    rate: Float[Array, ""]


def _squared(vector: Any, blocks: Blocks) -> Float[Array, ""]:
    """vᵀ F(η) v, with F(η) v the derivative of ⟨E t, v⟩."""

    def along(natural: Any) -> Float[Array, ""]:
        found = means(with_naturals(blocks, natural))
        return sum((jnp.sum(found[name].dot(vector[name])) for name in vector), start=jnp.zeros(()))

    slope = jax.grad(along)(naturals(blocks))
    return sum((jnp.sum(slope[name].dot(vector[name])) for name in vector), start=jnp.zeros(()))


def as_step_size(value: Any, adaptive: bool = False) -> StepSize:
    """The step sizes from a constant in (0, 1], or from (delay, decay): τ ≥ 0 and 0 < κ ≤ 1 in (τ + t)^(−κ)."""
    if isinstance(value, StepSize):
        return value
    if adaptive and isinstance(value, str) and value == ADAPTIVE:
        return Adaptive(*_make(1.0, *_USUAL))
    pair = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and len(value) == 2
    numbers = tuple(value) if pair else (value,)
    if not all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in numbers):
        raise _wrong(value)
    if pair:
        delay, decay = (float(x) for x in numbers)
        if not (0 <= delay < np.inf and 0 < decay <= 1):
            raise _wrong(value)
        return _make(1.0, delay, decay)
    if not 0 < numbers[0] <= 1:
        raise _wrong(value)
    return _make(float(numbers[0]), 1.0, 0.0)


def _make(*numbers: float) -> StepSize:
    return StepSize(*(on_device(number, np.float64) for number in numbers))


def _wrong(value: Any) -> InvalidParameter:
    return InvalidParameter(
        "step_size must be a constant above 0 and at most 1, or a pair (delay, decay) with delay at least 0 and "
        f"0 < decay ≤ 1 (or 'adaptive', for tp.SVI), got {value!r}"
    )
