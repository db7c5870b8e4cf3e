"""The smallest model with coupled blocks: data that are the sum of two unknown numbers and noise."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import temperance as tp
from temperance.models import Conditional, Data, Model, Posterior, Powers
from temperance.models._data import make_data


class TwoEffects(Model):
    """a ~ N, b ~ N, x ~ N(a + b, 1). Given x the two are coupled, so they must take turns."""

    prior: dict[str, tp.Family | Conditional]

    def __init__(self, a: tp.Normal, b: tp.Normal):
        self.prior = {"a": a, "b": b}

    @property
    def groups(self) -> Any:
        return (("a",), ("b",))

    def log_evidence(
        self, m: Any, x: Float[Array, " n"], powers: Powers = Powers(), key: Any = None
    ) -> Float[Array, " n"]:
        a, b = m["a"].linear[0], m["b"].linear[0]
        squares = -2.0 * (m["a"].precision[0, 0] + m["b"].precision[0, 0])
        distance = jnp.square(x) - 2.0 * x * (a + b) + squares + 2.0 * a * b
        return -0.5 * powers.observation * (distance + jnp.log(2 * jnp.pi))

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        return self, make_data(np.asarray(data), weights)

    def simulate(self, key: Key[Array, ""], draws: Any, n: int) -> Float[Array, " n"]:
        return draws["a"] + draws["b"] + jax.random.normal(key, (n,))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        return Posterior(dict(self.prior), {})


class Together(TwoEffects):
    """Wrong: both blocks at once, each given the other's old value."""

    @property
    def groups(self) -> Any:
        return (("a", "b"),)


def problem(kind: type[TwoEffects], rng: np.random.Generator) -> tuple[TwoEffects, np.ndarray]:
    def prior() -> tp.Normal:
        return tp.Normal(rng.normal(size=1), 10 ** rng.uniform(-0.5, 0.5, (1, 1)))

    return kind(prior(), prior()), rng.normal(size=6)
