"""The evidence for one to four groups of galaxies: Laplace's approximation beside the variational bound.

Run it with `python examples/laplace.py`.
"""

import math

import temperance as tp


def main() -> None:
    x = tp.datasets.load("galaxy")
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    print("components   Laplace   + ln K!    VB bound   + ln K!")
    for k in range(1, 5):
        model = tp.GaussianMixture(k, prior=prior)
        laplace = tp.fit(model, x, tp.Laplace(restarts=10), seed=0).log_evidence
        bound = tp.fit(model, x, tp.VB(restarts=10), seed=0).log_evidence
        orders = math.lgamma(k + 1)
        print(f"{k:10d} {laplace:9.3f} {laplace + orders:9.3f}   {bound:9.3f} {bound + orders:9.3f}")


if __name__ == "__main__":
    main()
