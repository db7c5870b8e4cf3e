"""Latent-variable thesis, figure 5.1: two correlated Gaussians, their mean-field approximation, and the kernels.

Covariance [1, 0.98; 0.98, 1], r = 0.9604. A factor of the approximation has variance 1/ρ₁₁ = 0.0396. From θ′ the exact
Gibbs kernel has variance (1 + r)/ρ₁₁ and the variational proposal 1/ρ₁₁, both with mean rθ′.

    python examples/papers/kernel_toy.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import COLOURS, GREY, canvas, keep

QUICK: dict[str, int] = {}  # it takes a second as it is
COVARIANCE = np.array([[1.0, 0.98], [0.98, 1.0]])
START = 1.3


def normal(x: np.ndarray, mean: float, variance: float) -> np.ndarray:
    return np.exp(-0.5 * (x - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


def main(folder: str | None = None) -> dict[str, float]:
    precision = np.linalg.inv(COVARIANCE)
    narrow, r = 1 / precision[0, 0], COVARIANCE[0, 1] ** 2
    grid = np.linspace(-3, 3, 241)
    first, second = np.meshgrid(grid, grid)
    energy = precision[0, 0] * (first**2 + second**2) + 2 * precision[0, 1] * first * second
    figure, (left, right) = canvas(2)
    left.contour(grid, grid, np.exp(-0.5 * energy), colors=COLOURS[1], linewidths=1)
    left.contour(grid, grid, np.exp(-0.5 * (first**2 + second**2) / narrow), colors="black", linewidths=1)
    left.set(xlabel="θ", ylabel="z", title="exact (orange) and mean field (black)")
    curves = {
        "p(θ)": (0.0, 1.0, GREY),
        "q(θ), mean field": (0.0, narrow, "black"),
        "exact kernel from θ′ = 1.3": (r * START, narrow * (1 + r), COLOURS[1]),
        "variational proposal": (r * START, narrow, COLOURS[0]),
    }
    for name, (mean, variance, colour) in curves.items():
        right.plot(grid, normal(grid, mean, variance), color=colour, label=f"{name}: variance {variance:.3f}")
    right.set(xlabel="θ", ylim=(0, 3.2))
    right.legend(frameon=False, fontsize=8, loc="upper left")
    print(f"r = {r:.4f}, 1/ρ₁₁ = {narrow:.4f}, exact kernel {narrow * (1 + r):.4f}")
    keep(figure, "kernel-toy", folder)
    return {"r": float(r), "variance": float(narrow)}


if __name__ == "__main__":
    main(*sys.argv[1:2])
