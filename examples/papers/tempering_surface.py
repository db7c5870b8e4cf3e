"""Variational tempering, figure 1: the annealed bound of two Gaussians as a function of their means.

At high temperatures one optimum is left, where both means are that of all the data; it splits in two at the
critical temperature Var(x)/σ², which is about 10 here.

    python examples/papers/tempering_surface.py [folder]
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from _figure import COLOURS, canvas, keep

import temperance as tp
from temperance.models import Powers

TEMPERATURES = (20.0, 13.0, 8.5, 1.0)
GRID = np.linspace(-6.0, 6.0, 121)
QUICK: dict[str, int] = {}  # it takes seconds as it is


def simulate(n: int = 200, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(-3, 1, (n // 2, 1)), rng.normal(3, 1, (n // 2, 1))])


def surface(temperature: float) -> np.ndarray:
    """log p(μ) + Σ_n log Σ_k {π_k N(x_n | μ_k, 1)}^(1/T) over the grid of both means."""
    pair = tp.KnownCovarianceGaussian([[1.0]])
    x = simulate()
    model, data = tp.Mixture(2, pair, prior=tp.Normal([0.0], [[100.0]])).prepare(x)
    power = jnp.asarray(1.0 / temperature)
    centre = x.mean()

    @jax.jit
    @jax.vmap
    def value(means: jax.Array) -> jax.Array:
        draws = {"weights": jnp.array([0.5, 0.5]), "components": means[:, None] - centre}
        return model.log_joint(draws, data, Powers(power, power))

    both = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.asarray(value(jnp.asarray(both))).reshape(len(GRID), len(GRID))


def optima(values: np.ndarray) -> int:
    """Points above all eight neighbours."""
    inner = values[1:-1, 1:-1]
    shifts = [(i, j) for i in (0, 1, 2) for j in (0, 1, 2) if (i, j) != (1, 1)]
    size = len(values) - 2
    return int(np.all([inner > values[i : i + size, j : j + size] for i, j in shifts], axis=0).sum())


def main(folder: str | None = None) -> list[int]:
    figure, axes = canvas(len(TEMPERATURES), width=11.0, height=3.0)
    counts = []
    for axis, temperature in zip(axes, TEMPERATURES, strict=True):
        values = surface(temperature)
        counts.append(optima(values))
        axis.contourf(GRID, GRID, values.T, levels=30, cmap="viridis")
        best = np.argwhere(values >= values.max() - 1e-9 * abs(values.max()))
        axis.plot(GRID[best[:, 0]], GRID[best[:, 1]], "o", color=COLOURS[1])
        axis.set_title(f"T = {temperature:g}, optima: {counts[-1]} (simulated)", fontsize=10)
        axis.set_xlabel("μ₀")
    axes[0].set_ylabel("μ₁")
    print(dict(zip(TEMPERATURES, counts, strict=True)))
    keep(figure, "tempering-surface", folder)
    return counts


if __name__ == "__main__":
    main(*sys.argv[1:2])
