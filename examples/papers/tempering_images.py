"""Variational tempering, section 4: toy images taken apart into factors, cold, annealed and tempered.

Eight binary 4 × 4 images, each weighted by a number in [0.5, 1]; 10,000 sums of them, each present with probability
0.3, in noise of variance 0.1; prior variance 0.35. Four sets of images: dominoes without overlap, rows and columns
with one pixel in common, blocks of six pixels that share up to four, and shapes of up to twelve. For each method 20
starts: the bound at T = 1, in how many starts all eight factors were found (no pixel wrong by 0.15), and the expected
temperature of VT.

    python examples/papers/tempering_images.py [folder [starts]]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _figure import canvas, keep
from scipy.optimize import linear_sum_assignment

import temperance as tp

N, NOISE, SHARE, VARIANCE = 10_000, 0.1, 0.3, 0.35
SHAPES = """
1000 1111 1001 1111 1001 1111 0110 1100
1000 0110 0110 1001 1001 0010 1111 0110
1000 0110 0110 1001 1001 0100 1111 0011
1111 0110 1001 1111 1111 1111 0110 0001
"""


def images(name: str) -> np.ndarray:
    if name == "dominoes":
        return np.repeat(np.eye(8), 2, axis=1).reshape(8, 4, 4)
    if name == "bars":
        rows = np.repeat(np.eye(4)[:, :, None], 4, axis=2)
        return np.concatenate([rows, rows.swapaxes(1, 2)])
    if name == "blocks":
        blocks = np.zeros((8, 4, 4))
        for k, (row, column) in enumerate([(0, 0), (0, 1), (2, 0), (2, 1)]):
            blocks[k, row : row + 2, column : column + 3] = 1.0
        for k, (row, column) in enumerate([(0, 0), (0, 2), (1, 0), (1, 2)]):
            blocks[4 + k, row : row + 3, column : column + 2] = 1.0
        return blocks
    lines = [line.split() for line in SHAPES.split("\n") if line]
    return np.array([[[float(pixel) for pixel in line[k]] for line in lines] for k in range(8)])


SETS = ("dominoes", "bars", "blocks", "shapes")
QUICK: dict[str, Any] = {"starts": 1, "sets": SETS[:1], "n": 200}


def simulate(name: str, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    factors = images(name) * rng.uniform(0.5, 1.0, (8, 1, 1))
    z = rng.random((n, 8)) < SHARE
    return np.tensordot(z, factors, axes=1) + np.sqrt(NOISE) * rng.normal(size=(n, 4, 4)), factors


def model() -> tp.FactorialMixture:
    return tp.FactorialMixture(8, noise=NOISE, probability=SHARE, factor_variance=VARIANCE)


def error(components: np.ndarray, factors: np.ndarray) -> float:
    """The largest error of a pixel, each factor beside the component that is nearest to it."""
    distance = np.abs(components[:, None] - factors[None]).max(axis=(2, 3))
    return float(distance[linear_sum_assignment(distance)].max())


def methods(x: np.ndarray) -> dict[str, Any]:
    """The critical temperature is looked for once: it does not depend on the start."""
    vb = tp.VB(max_iter=1000)
    critical = tp.fit(model(), x, tp.Annealed(tp.VB(max_iter=1)), progress=False).details
    print(f"  critical temperature {critical['critical']:.2f}", flush=True)
    return {
        "VI": vb,
        "AVI-10": tp.Annealed(vb, "linear", start=10.0, length=10),
        "AVI-100": tp.Annealed(vb, "linear", start=10.0, length=100),
        "VT": tp.VT(method=vb),
        "critical": tp.Annealed(vb, critical["temperatures"]),
    }


def table(name: str, starts: int = 20, n: int = N) -> dict[str, dict[str, Any]]:
    x, factors = simulate(name, n)
    print(name, flush=True)
    rows: dict[str, dict[str, Any]] = {}
    for label, method in methods(x).items():
        fits = [tp.fit(model(), x, method, seed=seed, progress=False) for seed in range(starts)]
        bounds = np.array([fit.log_evidence for fit in fits])
        found = sum(error(fit.components, factors) < 0.15 for fit in fits)
        warm = [fit.details["temperature"] for fit in fits if "temperature" in fit.details]
        rows[label] = {"bounds": bounds, "found": found, "warm": np.array(warm), "fit": fits[0]}
        temperature = f"   E[T] {np.mean(warm):.2f} ({np.min(warm):.2f} to {np.max(warm):.2f})" if warm else ""
        print(
            f"  {label:9s} bound {bounds.mean():10.1f} ± {bounds.std():6.1f} (best {bounds.max():10.1f})   "
            f"all found {found:2d}/{starts}{temperature}",
            flush=True,
        )
    return rows


def main(folder: str | None = None, starts: int | str = 20, sets: tuple[str, ...] = SETS, n: int = N) -> dict[str, Any]:
    results = {name: table(name, int(starts), n) for name in sets}
    figure, axes = canvas(len(sets), width=13.0, height=3.4)
    for axis, name in zip(axes, sets, strict=True):
        factors = simulate(name, 8)[1]
        rows = {"truth": factors} | {label: row["fit"].components for label, row in results[name].items()}
        framed = [np.pad(images, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan) for images in rows.values()]
        axis.imshow(np.concatenate([np.concatenate(list(part), axis=1) for part in framed]), cmap="gray_r", vmin=0.0)
        axis.set_yticks([5 * number + 1.5 for number in range(len(rows))], list(rows))
        axis.set_xticks([])
        axis.set_title(f"{name} (simulated)")
        axis.spines[:].set_visible(False)
    keep(figure, "tempering-images", folder)
    return results


if __name__ == "__main__":
    main(*sys.argv[1:3])
