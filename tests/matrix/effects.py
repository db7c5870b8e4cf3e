"""The smallest model with coupled blocks: data that are a sum of unknown numbers and noise."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import temperance as tp
from temperance.models import Conditional, Data, Model, Posterior, Powers
from temperance.models._data import make_data


class Effects(Model):
    """a ~ N, b ~ N, …, x ~ N(a + b + …, 1). Given x the numbers are coupled, so they must take turns."""

    prior: dict[str, tp.Family | Conditional]

    def __init__(self, *priors: tp.Normal):
        self.prior = dict(zip("abc", priors, strict=False))

    @property
    def groups(self) -> Any:
        return tuple((name,) for name in self.prior)

    def log_evidence(
        self, m: Any, x: Float[Array, " n"], powers: Powers = Powers(), key: Any = None
    ) -> Float[Array, " n"]:
        # E(x − Σ a)² = (x − Σ E a)² + Σ Var a: affine in each block's (E a, −½ E a²) when the others are held.
        means = [m[name].linear[0] for name in self.prior]
        squares = [-2.0 * m[name].precision[0, 0] for name in self.prior]
        crossed = sum(a * b for i, a in enumerate(means) for b in means[:i])
        distance = jnp.square(x) - 2.0 * x * sum(means) + sum(squares) + 2.0 * crossed
        return -0.5 * powers.observation * (distance + jnp.log(2 * jnp.pi))

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        return self, make_data(np.asarray(data), weights)

    def simulate(self, key: Key[Array, ""], draws: Any, n: int) -> Float[Array, " n"]:
        return sum(draws[name] for name in self.prior) + jax.random.normal(key, (n,))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        return Posterior(dict(self.prior), {})


class Together(Effects):
    """Wrong: all blocks at once, each given the others' old values."""

    @property
    def groups(self) -> Any:
        return (tuple(self.prior),)


def problem(kind: type[Effects], rng: np.random.Generator) -> tuple[Effects, np.ndarray]:
    priors = [tp.Normal(rng.normal(size=1), 10 ** rng.uniform(-0.5, 0.5, (1, 1))) for _ in range(2)]
    return kind(*priors), rng.normal(size=6)
