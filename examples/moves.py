"""Nine clusters, thirty single starts: how often does coordinate ascent find all nine, with moves and without?

Run it with `python examples/moves.py`.
"""

import numpy as np

import temperance as tp


def main() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([(i, j) for i in (-5, 0, 5) for j in (-5, 0, 5)], dtype=float)
    x = np.repeat(centres, 30, axis=0) + rng.normal(size=(270, 2))
    plain, moved = [], []
    for seed in range(30):
        plain.append(tp.fit(tp.GaussianMixture(9), x, tp.VB(), seed=seed).log_evidence)
        moved.append(tp.fit(tp.GaussianMixture(9), x, tp.VB(moves=True), seed=seed).log_evidence)
    best = max(*plain, *moved)
    for name, bounds in {"plain": plain, "moves": moved}.items():
        found = sum(bound > best - 0.5 for bound in bounds)
        print(f"{name}: best optimum from {found} of 30 starts, median bound {np.median(bounds):.2f} (best {best:.2f})")


if __name__ == "__main__":
    main()
