"""The clutter problem (Minka, A family of algorithms for approximate Bayesian inference, 2001): the mean of a Gaussian
whose data lie in clutter.

    θ ~ N(mean, variance),    x ~ (1 − w) N(θ, 1) + w N(0, a)

A model of one's own: a prior, one scalar function, and for message passing its factors. The posterior of n data is a
mixture of 2ⁿ Gaussians; expectation propagation approximates it by one.

    python examples/clutter.py
"""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import temperance as tp
from temperance.models import Data, Factored, Factors, LinearTerms, Posterior, Powers, written_out
from temperance.models._data import make_data
from temperance.numerics.latents import sum_out

LOG_2PI = float(np.log(2 * np.pi))


class Clutter(Factored):
    """The mean of a Gaussian of variance one, in clutter around zero of variance `a`, which a datum is with probability
    `w`."""

    prior: dict[str, Any]
    w: float
    a: float

    def __init__(self, mean: float = 0.0, variance: float = 100.0, w: float = 0.5, a: float = 10.0):
        self.prior = {"theta": tp.Normal([mean], [[variance]])}
        self.w, self.a = w, a

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        return self, make_data(np.asarray(data, float), weights)

    def logs(self, m: Any, x: Float[Array, " n"], powers: Powers = Powers()) -> Float[Array, "n 2"]:
        """E log p(x, z | θ): whether a datum is clutter is its latent."""
        signal = x * m["theta"].linear[0] + m["theta"].precision[0, 0] - 0.5 * (jnp.square(x) + LOG_2PI)
        clutter = -0.5 * (jnp.square(x) / self.a + jnp.log(self.a) + LOG_2PI)
        chosen = jnp.log(jnp.asarray([1.0 - self.w, self.w]))
        return powers.latent * chosen[None] + powers.observation * jnp.stack([signal, clutter], axis=-1)

    def log_evidence(
        self, m: Any, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        return sum_out(self.logs(m, x, powers), key)

    def factors(self, data: Data) -> Factors:
        each = written_out(lambda m, x: self.logs(m, x[None])[0], self.prior, data.values)
        return Factors(each, data.weights > 0, LinearTerms())

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Float[Array, " n"]:
        key_z, key_x = jax.random.split(key)
        noise, clutter = jax.random.normal(key_x, (n,)), jax.random.bernoulli(key_z, self.w, (n,))
        return jnp.where(clutter, jnp.sqrt(self.a) * noise, draws["theta"][0] + noise)

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """As if each datum were clutter with its probability before it is seen."""
        prior = self.prior["theta"]
        told = jax.grad(lambda m: jnp.sum(data.weights * self.logs({"theta": m}, data.values)[:, 0]))(prior.mean())
        return Posterior({"theta": prior + (1.0 - self.w) * told}, {})


def exact(model: Clutter, x: np.ndarray) -> tuple[float, float, float]:
    """The log evidence, and the posterior's mean and variance, on a grid."""
    grid = np.linspace(-150.0, 150.0, 150_001)[:, None]
    prior = model.prior["theta"]
    m, v = float(prior.location[0]), float(prior.covariance[0, 0])
    density = (1 - model.w) * np.exp(-0.5 * (x - grid) ** 2) + model.w * np.exp(-0.5 * x**2 / model.a) / model.a**0.5
    logs = np.log(density).sum(axis=1) - 0.5 * len(x) * LOG_2PI
    logs -= 0.5 * ((grid[:, 0] - m) ** 2 / v + np.log(2 * np.pi * v))
    share = np.exp(logs - logs.max())
    mean = share @ grid[:, 0] / share.sum()
    log_evidence = logs.max() + np.log(share.sum() * 300.0 / 150_000)
    return float(log_evidence), float(mean), float(share @ (grid[:, 0] - mean) ** 2 / share.sum())


def fit(model: Clutter, x: np.ndarray, method: Any) -> tuple[float, float, float]:
    found = tp.fit(model, x, method, seed=0, progress=False)
    theta = found.posterior["theta"]
    return found.log_evidence, float(theta.location[0]), float(theta.covariance[0, 0])


def main() -> dict[str, tuple[float, float, float]]:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(20) < 0.5, rng.normal(0.0, 10.0**0.5, 20), rng.normal(2.0, 1.0, 20))
    methods = {"EP": tp.EP(), "α = ½": tp.MessagePassing(0.5), "VB": tp.VB()}
    found = {"exact": exact(Clutter(), x)} | {name: fit(Clutter(), x, method) for name, method in methods.items()}
    print("twenty data, half of them clutter     log evidence    mean  variance")
    for name, (log_evidence, mean, variance) in found.items():
        print(f"{name:<36}{log_evidence:14.4f}{mean:8.4f}{variance:10.4f}")
    return found


if __name__ == "__main__":
    main()
