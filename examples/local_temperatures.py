"""Local variational tempering: the inverse temperature of each datum, small for outliers.

python examples/local_temperatures.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import temperance as tp


def simulate(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(-3, 1, (100, 1)), rng.normal(3, 1, (100, 1)), rng.uniform(-15, 15, (10, 1))])


def main(folder: str = "out") -> np.ndarray:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x = simulate()
    model = tp.Mixture(2, tp.KnownCovarianceGaussian([[1.0]]), prior=tp.Normal([0.0], [[100.0]]))
    powers = tp.fit(model, x, tp.LVT(length=50), seed=0).details["inverse_temperature"]
    smallest = x[np.argsort(powers)[:10], 0].round(1)
    print(f"median of E[1/T]: {np.median(powers):.2f}; the ten smallest are at x = {smallest}")
    figure, axis = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
    axis.plot(x[:200, 0], powers[:200], ".", color="#0072B2", label="two clusters")
    axis.plot(x[200:, 0], powers[200:], "o", color="#D55E00", label="outliers")
    axis.set_xlabel("x")
    axis.set_ylabel("E[1/T]")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    path = Path(folder) / "local-temperatures.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(f"the figure is in {path}")
    return powers


if __name__ == "__main__":
    main(*sys.argv[1:2])
