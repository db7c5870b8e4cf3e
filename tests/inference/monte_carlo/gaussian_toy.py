"""The toy of thesis 5.4.1 as a model: θ and a latent z are Gaussian with covariance [1, 0.98; 0.98, 1]."""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import norm

import temperance as tp
from temperance.models import Conditional, Data, Model, Posterior, Powers
from temperance.models._data import make_data
from temperance.numerics.latents import integrate_out

PRECISION = 1 / (1 - 0.98**2)  # ρ₁₁ = ρ₂₂
COUPLING = -0.98 * PRECISION  # ρ₁₂
RATIO = (COUPLING / PRECISION) ** 2  # r


class Toy(Model):
    """p(θ, z) ∝ N(θ; 0, 1/ρ₁₁) exp(−ρ₁₂ θz − ½ ρ₂₂ z²): the marginal of θ is standard Normal."""

    prior: dict[str, tp.Family | Conditional]

    def __init__(self) -> None:
        self.prior = {"theta": tp.Normal([0.0], [[1 / PRECISION]])}

    def log_evidence(
        self, m: Any, x: Float[Array, " n"], powers: Powers = Powers(), key: Any = None
    ) -> Float[Array, " n"]:
        pull = -COUPLING * m["theta"].linear
        return powers.observation * integrate_out(pull, jnp.full((1, 1), PRECISION), key) + 0.0 * x

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        return self, make_data(np.asarray(data), weights)

    def simulate(self, key: Key[Array, ""], draws: Any, n: int) -> Float[Array, " n"]:
        return jnp.zeros(n)

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        return Posterior({"theta": tp.Normal(jax.random.normal(key, (1,)), [[1.0]])}, {})


def acceptance(place: float) -> float:
    """a(θ′) of (5.38), in closed form for Gaussians."""
    place = abs(place)
    root = PRECISION**0.5
    curve = 1 - RATIO * (1 - RATIO)
    centre, width = RATIO * place / curve, (PRECISION * curve) ** -0.5
    inside = norm.cdf((place - centre) / width) - norm.cdf((-place - centre) / width)
    decay = np.exp(-0.5 * PRECISION * place**2 * (RATIO * (1 - RATIO) + RATIO**2 - RATIO**2 / curve))
    outside = norm.cdf(-place * (1 + RATIO) * root) + norm.sf(place * (1 - RATIO) * root)
    return float(decay * inside / curve**0.5 + outside)
