"""Variational tempering, section 4: faces taken apart into factors, cold, annealed and tempered (the paper, figure 3).

Faces of the extended Yale B set under many lightings, 16 × 16 pixels standardised over all of them, as in the paper; a
factorial mixture with noise and factors of variance 0.5 and each factor present with probability 0.3. For each method
several starts: the bound at T = 1, the predictive density of 500 new faces, and E[T] of variational tempering. Without
the faces, balls lit from random sides stand in for them.

    TEMPERANCE_DATA=folder python examples/papers/tempering_faces.py [folder [starts]]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _figure import bundled_or_simulated, canvas, keep

import temperance as tp

FACTORS, VARIANCE, SWEEPS, TRAIN = 10, 0.5, 100, 1500
QUICK = {"starts": 1, "sweeps": 5, "train": 50}
GET = (
    "crop the frontal images of the Extended Yale Face Database B to 32 × 32 grey levels from 0 to 255, "
    "save them as the array `images` of yaleb_32x32.npz"
)


def balls(n: int = 2000) -> dict[str, np.ndarray]:
    """Matt balls on a dark ground, each lit from a direction of its own in front of it."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[-1:1:32j, -1:1:32j]
    inside = x**2 + y**2 < 0.9
    normals = np.stack([x, y, np.sqrt(np.clip(1 - x**2 - y**2, 0, None))]) * inside
    light = rng.normal(size=(n, 3))
    light[:, 2] = np.abs(light[:, 2])
    shades = np.tensordot(light / np.linalg.norm(light, axis=1, keepdims=True), normals, axes=1)
    return {"images": 255 * np.clip(shades, 0, 1) + rng.normal(scale=5, size=(n, 32, 32))}


def faces(train: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Pictures to learn from, 500 new ones, and what the figure must say of them."""
    found, said = bundled_or_simulated("yaleb_32x32", GET, balls)
    images = found["images"].astype(float) / 255.0
    small = images.reshape(len(images), 16, 2, 16, 2).mean(axis=(2, 4))
    small = (small - small.mean()) / small.std()
    order = np.random.default_rng(0).permutation(len(small))[:2000]
    return small[order[:train]], small[order[1500:]], said


def methods(sweeps: int) -> dict[str, Any]:
    vb = tp.VB(max_iter=2 * sweeps)
    return {
        "VI": vb,
        "AVI-50": tp.Annealed(vb, "linear", start=6.0, length=sweeps // 2),
        "VT": tp.VT(method=vb, length=sweeps),
        "critical": tp.Annealed(vb, length=sweeps),
    }


def main(folder: str | None = None, starts: int | str = 3, sweeps: int = SWEEPS, train: int = TRAIN) -> dict[str, Any]:
    old, new, said = faces(train)
    model = tp.FactorialMixture(FACTORS, noise=VARIANCE, probability=0.3, factor_variance=VARIANCE)
    rows, results = {}, {}
    for name, method in methods(sweeps).items():
        fits = [tp.fit(model, old, method, seed=seed, progress=False) for seed in range(int(starts))]
        bounds = np.array([fit.log_evidence for fit in fits])
        scores = np.array([float(np.mean(fit.log_predictive(new))) for fit in fits])
        warm = [fit.details["temperature"] for fit in fits if "temperature" in fit.details]
        best = fits[int(np.argmax(bounds))]
        pictures = best.components
        rows[name] = pictures[np.argsort(-np.square(pictures).mean(axis=(1, 2)))]
        results[name] = (bounds, scores, warm)
        extra = f"   E[T] {np.mean(warm):.2f}" if warm else ""
        extra += f"   T_c {best.details['critical']:.1f}" if "critical" in best.details else ""
        print(
            f"{name:9s} bound {bounds.mean():11.1f} ± {bounds.std():7.1f} (best {bounds.max():11.1f})   "
            f"new faces {scores.mean():8.3f} ± {scores.std():.3f} nats each{extra}",
            flush=True,
        )
    figure, axes = canvas(1, width=8.0, height=3.3)
    framed = [np.pad(images, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan) for images in rows.values()]
    shown = np.concatenate([np.concatenate(list(part), axis=1) for part in framed])
    axes[0].imshow(shown, cmap="gray")
    axes[0].set_yticks([17 * number + 8 for number in range(len(rows))], list(rows))
    axes[0].set_xticks([])
    axes[0].set_title(
        f"ten factors of {len(old):,} {'simulated balls, not of faces' if said else 'faces'}", fontsize=10
    )
    axes[0].spines[:].set_visible(False)
    axes[0].tick_params(length=0)
    keep(figure, "tempering-faces", folder)
    return results


if __name__ == "__main__":
    main(*sys.argv[1:3])
