"""How many groups of galaxies? Fit the velocities with one to six Gaussian components and compare the evidence.

`temperance demo` (or `make demo`) does the same by four methods; this is variational Bayes alone.

    python examples/galaxy.py [picture]
"""

from __future__ import annotations

import sys
from pathlib import Path

import temperance as tp


def main(path: Path) -> None:
    x = tp.datasets.load("galaxy")
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    hill = tp.compare([tp.GaussianMixture(k, prior=prior) for k in range(1, 7)], x, tp.VB(restarts=20), seed=0)
    print(hill.summary())
    print(hill.best_fit.summary())
    path.parent.mkdir(parents=True, exist_ok=True)
    tp.plot.overview(hill, x, xlabel="velocity (1000 km/s)").savefig(path, dpi=150)
    print(f"\nThe picture is in {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out") / "galaxy.png")
