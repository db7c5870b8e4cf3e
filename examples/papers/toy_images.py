"""Variational tempering, section 4: toy images taken apart into their factors, by three plain methods.

Eight binary 4 × 4 images (rows and columns), each weighted by a number in [0.5, 1]; 10,000 sums of them with each
present with probability 0.3, in noise of variance 0.1; prior variance 0.35. Five starts of each method; the batches
work z out afresh.

    python examples/papers/toy_images.py [folder]
"""

from __future__ import annotations

import sys

import numpy as np
from _figure import canvas, keep

import temperance as tp

N, STARTS = 10_000, 5
QUICK = {"starts": 1, "n": 500}


def methods(starts: int) -> dict[str, tp.VB | tp.SVI]:
    return {
        "VB": tp.VB(restarts=starts, max_iter=200),
        "SVI": tp.SVI(restarts=starts),
        "VB, 20 batches": tp.VB(restarts=starts, max_iter=200, batches=20, carry=False, local_steps=10),
    }


def simulate(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.eye(4)[:, :, None], 4, axis=2)
    factors = np.concatenate([rows, rows.swapaxes(1, 2)]) * rng.uniform(0.5, 1.0, (8, 1, 1))
    z = rng.random((n, 8)) < 0.3
    return np.tensordot(z, factors, axes=1) + np.sqrt(0.1) * rng.normal(size=(n, 4, 4)), factors


def in_order(components: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The components, each in the place of the factor it is nearest to."""
    distance = np.abs(components[:, None] - factors[None]).sum(axis=(2, 3))
    return components[np.argmin(distance, axis=0)]


def strip(images: np.ndarray) -> np.ndarray:
    framed = np.pad(images, ((0, 0), (0, 0), (0, 1)), constant_values=np.nan)
    return np.concatenate(list(framed), axis=1)


def main(folder: str | None = None, starts: int = STARTS, n: int = N) -> dict[str, np.ndarray]:
    images, factors = simulate(n)
    rows, bounds = {"eight data": images[:8], "the truth": factors}, {}
    for name, method in methods(starts).items():
        model = tp.FactorialMixture(8, noise=0.1, probability=0.3, factor_variance=0.35)
        fit = tp.fit(model, images, method, seed=0)
        bounds[name] = np.sort(fit.history["restarts"])[::-1]
        rows[name] = in_order(fit.components, factors)
        worst = np.abs(rows[name] - factors).max()
        print(f"{name:14s} bounds {np.round(bounds[name], 1)}  largest error of a pixel {worst:.3f}")
    figure, axes = canvas(1, width=8.0, height=4.2)
    gap = np.full((1, strip(factors).shape[1]), np.nan)
    picture = np.concatenate([part for image in rows.values() for part in (strip(image), gap)])
    axes[0].imshow(picture, cmap="gray_r", vmin=0.0, vmax=1.0)
    axes[0].set_title("images and factors (simulated)", fontsize=10)
    axes[0].set_yticks([5 * number + 1.5 for number in range(len(rows))], list(rows))
    axes[0].set_xticks([])
    axes[0].spines[:].set_visible(False)
    axes[0].tick_params(length=0)
    keep(figure, "toy-images", folder)
    return bounds


if __name__ == "__main__":
    main(*sys.argv[1:2])
