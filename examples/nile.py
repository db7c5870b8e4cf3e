"""The annual flow of the Nile as a local level: the variances by three methods, and a forecast of thirty years.

The data are not bundled: put nile.csv (year, flow) into the folder that TEMPERANCE_DATA names. The optional argument
is the path of the figure to write.
"""

import sys

import numpy as np

import temperance as tp


def main() -> None:
    flow = np.asarray(tp.datasets.load("nile"))[:, -1:]
    likely = tp.fit(tp.StateSpace.local_level(start=1e7), flow, tp.EM(prior=False, tol=1e-11, max_iter=5000))
    print(
        "maximum likelihood",
        {name: round(1 / float(block.mode()[0]), 1) for name, block in likely.state.blocks.items()},
    )
    bound = tp.fit(tp.StateSpace.local_level(), flow)
    print(bound.summary())
    fit = tp.fit(tp.StateSpace.local_level(), flow, tp.ParallelTempering(draws=4000, replicas=10))
    print("log evidence", round(fit.log_evidence, 2), "in", np.round(fit.bracket, 2))
    for name in ("state_noise", "noise"):
        print(name, np.quantile(1 / np.asarray(fit.posterior[name]), [0.05, 0.5, 0.95]).round(0))
    if len(sys.argv) > 1:
        axes = tp.plot.forecast(fit, 30)
        axes.set(xlabel="years since 1871", ylabel="flow (10⁸ m³)")
        axes.figure.savefig(sys.argv[1], dpi=120)


if __name__ == "__main__":
    main()
