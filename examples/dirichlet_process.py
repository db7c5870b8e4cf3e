"""How many groups of galaxies, if nobody says? A Dirichlet-process mixture uses as many components as it needs.

Run it with `python examples/dirichlet_process.py`.
"""

import temperance as tp


def main() -> None:
    x = tp.datasets.load("galaxy")
    priors = {"0.1": 0.1, "1": 1.0, "10": 10.0, "Gamma(1, 1)": tp.Gamma(1.0, 1.0)}
    for name, concentration in priors.items():
        model = tp.DirichletProcessMixture(10, concentration=concentration)
        fit = tp.fit(model, x, tp.VB(restarts=5, moves=True), seed=0)
        occupied = fit.model.occupied(fit.state, fit.data)
        print(f"α = {name:11s}  {occupied} of 10 components hold data, bound {fit.log_evidence:9.3f}")
    print(f"\nThe posterior of α has mean {float(fit.posterior['concentration'].mean().value):.2f}:\n")
    print(fit.summary())


if __name__ == "__main__":
    main()
