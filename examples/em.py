"""Point estimates of Old Faithful: maximum likelihood, the mode of the posterior, and incremental EM.

Run it with `python examples/em.py`.
"""

import temperance as tp


def main() -> None:
    x = tp.datasets.load("faithful")
    for name, method in {
        "maximum likelihood": tp.EM(prior=False, tol=1e-10),
        "  in ten parts": tp.EM(prior=False, tol=1e-10, incremental=True, batches=10),
        "posterior mode": tp.EM(tol=1e-10),
    }.items():
        fit = tp.fit(tp.GaussianMixture(2), x, method, seed=0)
        passes = len(fit.history["elbo"])
        print(f"{name:20s} log likelihood {fit.details['log_likelihood']:.4f} after {passes} passes")
    try:
        tp.fit(tp.GaussianMixture(40), x, tp.EM(prior=False), seed=0)
    except tp.errors.NumericalFailure as failure:
        print(f"\n40 components, maximum likelihood:\n{failure}")


if __name__ == "__main__":
    main()
