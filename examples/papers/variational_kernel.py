"""The thesis's figures 5.2 and 5.3: where the variational kernel is accepted, and how it sticks in the tails.

θ and z are Gaussian with covariance [1, 0.98; 0.98, 1]. The variational proposal is q(θ | θ′) = N(rθ′, 1/ρ₁₁), too
narrow by a factor 1 + r; the marginal of θ, the target, is standard Normal.

    python examples/papers/variational_kernel.py [folder]
"""

from __future__ import annotations

import sys
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from _figure import COLOURS, GREY, canvas, keep

import temperance as tp
from temperance.inference.monte_carlo.variational_kernel import At, acceptance_at, random_walk, variational_step
from temperance.models import Data, Model, Posterior, Powers
from temperance.models._data import make_data
from temperance.numerics.latents import integrate_out

PRECISION = 1 / (1 - 0.98**2)  # ρ₁₁ = ρ₂₂ = 25.2525
COUPLING = -0.98 * PRECISION  # ρ₁₂ = −24.7475
QUICK = {"draws": 200}


class Toy(Model):
    """p(θ, z) ∝ N(θ; 0, 1/ρ₁₁) exp(−ρ₁₂ θz − ½ ρ₂₂ z²), with z integrated out."""

    prior: dict[str, Any]

    def __init__(self) -> None:
        self.prior = {"theta": tp.Normal([0.0], [[1 / PRECISION]])}

    def log_evidence(self, m: Any, x: Any, powers: Powers = Powers(), key: Any = None) -> Any:
        value = integrate_out(-COUPLING * m["theta"].linear, jnp.full((1, 1), PRECISION), key)
        return powers.observation * value + 0.0 * x

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        return self, make_data(np.asarray(data), weights)

    def simulate(self, key: Any, draws: Any, n: int) -> Any:
        return jnp.zeros(n)

    def initial(self, key: Any, data: Data) -> Posterior:
        return Posterior({"theta": tp.Normal(jax.random.normal(key, (1,)), [[1.0]])}, {})


def acceptance(model: Model, data: Data, places: np.ndarray) -> np.ndarray:
    """The average acceptance at each θ′."""

    @jax.jit
    @jax.vmap
    def at(key: Any, place: Any) -> Any:
        return acceptance_at(key, model, {"theta": place[None]}, data, 2000)

    return np.asarray(at(jax.random.split(jax.random.key(0), len(places)), jnp.asarray(places)))


def chains(model: Model, data: Data, starts: np.ndarray, steps: int, walk: float) -> np.ndarray:
    """(steps, chains): the variational kernel, a part `walk` of its steps replaced by a random walk."""

    def step(draws: Any, key: Any) -> tuple[Any, Any]:
        key_pick, key_move = jax.random.split(key)

        def one(draw: Any, pick: Any, move: Any) -> Any:
            at = At(draw, model.log_joint(draw, data))
            variational = variational_step(move, model, at, data)[0].draws
            walked = random_walk(move, model, at, data, 0.5)[0].draws
            return jax.tree.map(lambda a, b: jnp.where(pick < walk, a, b), walked, variational)

        n = len(starts)
        draws = jax.vmap(one)(draws, jax.random.uniform(key_pick, (n,)), jax.random.split(key_move, n))
        return draws, draws["theta"][:, 0]

    start = {"theta": jnp.asarray(starts)[:, None]}
    keys = jax.random.split(jax.random.key(1), steps)
    return np.asarray(jax.jit(lambda keys: jax.lax.scan(step, start, keys)[1])(keys))


def main(folder: str | None = None, draws: int = 20_000) -> dict[str, Any]:
    model, data = Toy().prepare(np.zeros(1))
    places = np.linspace(-4, 4, 161)
    found = acceptance(model, data, places)
    density = np.exp(-0.5 * places**2) / np.sqrt(2 * np.pi)
    average = float(np.trapezoid(found * density, places))
    fit = tp.fit(Toy(), np.zeros(1), tp.VariationalKernel(draws=draws, walk=0.0), seed=0)
    print(f"average acceptance: {average:.3f} by quadrature, {fit.details['acceptance']:.3f} in a chain")
    figure, (axes,) = canvas(1, width=6)
    axes.plot(places, found, color=COLOURS[0], label="average acceptance from θ′")
    axes.fill_between(places, 0, density, color=GREY, alpha=0.4, label="target")
    axes.set(xlabel="θ′", ylim=(0, 1.05))
    axes.legend(frameon=False, fontsize=8)
    keep(figure, "thesis-5-2", folder)

    starts = np.array([10.0, 15.0, 20.0, 25.0])
    figure, both = canvas(2)
    for axes, walk, title in zip(both, (0.0, 0.2), ("alone", "a fifth of the steps a random walk"), strict=True):
        path = chains(model, data, starts, 1000, walk)
        for colour, series in zip(COLOURS, path.T, strict=False):
            axes.plot(series, color=colour, linewidth=0.8)
        axes.set(xlabel="step", ylabel="θ", ylim=(-4, 26))
        axes.set_title(title, fontsize=10)
    keep(figure, "thesis-5-3", folder)
    return {"average": average, "chain": fit.details["acceptance"]}


if __name__ == "__main__":
    main(*sys.argv[1:2])
