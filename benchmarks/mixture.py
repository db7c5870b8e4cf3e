"""Gaussian mixtures, full covariance: one VB iteration beside scikit-learn's and BayesPy's, restarts, memory.

Same data, same prior, random starts, the same number of iterations; compilation is reported apart.
"""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np

import temperance as tp

from ._timing import alternate, per_iteration, report, seconds

SIZES = ((10_000, 2, 6, 20, 120), (100_000, 16, 32, 2, 8), (200_000, 64, 64, 1, 3))


def simulate(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(scale=3.0, size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def model(d: int, k: int, precision: str = "double") -> tp.GaussianMixture:
    prior = tp.NormalWishart(np.zeros(d), 1.0, d + 2.0, np.eye(d))
    return tp.GaussianMixture(k, prior=prior, init="random", precision=precision)


def ours(x: np.ndarray, k: int, iterations: int, precision: str = "double", restarts: int = 1) -> tp.Fit:
    method = tp.VB(max_iter=iterations, tol=0.0, restarts=restarts)
    return tp.fit(model(x.shape[1], k, precision), x, method, seed=0, progress=False)


def scikit_learn(x: np.ndarray, k: int, iterations: int) -> None:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    d = x.shape[1]
    estimator = BayesianGaussianMixture(
        n_components=k,
        max_iter=iterations,
        tol=0.0,
        reg_covar=0.0,
        init_params="random",
        random_state=0,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=1.0,
        mean_precision_prior=1.0,
        mean_prior=np.zeros(d),
        degrees_of_freedom_prior=d + 2.0,
        covariance_prior=np.eye(d),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(x)


def bayespy(x: np.ndarray, k: int, iterations: int) -> None:
    from bayespy.inference import VB
    from bayespy.nodes import Categorical, Dirichlet, Gaussian, Mixture, Wishart

    d = x.shape[1]
    weights = Dirichlet(np.ones(k))
    z = Categorical(weights, plates=(x.shape[0],))
    mu = Gaussian(np.zeros(d), np.eye(d), plates=(k,))
    precision = Wishart(d + 2.0, np.eye(d), plates=(k,))
    y = Mixture(z, Gaussian, mu, precision)
    y.observe(x)
    z.initialize_from_random()
    VB(y, mu, z, precision, weights).update(repeat=iterations, verbose=False, tol=0.0)


FIRST = """
import time; began = time.perf_counter()
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(scale=3.0, size=(6, 2))[rng.integers(6, size=10_000)] + rng.normal(size=(10_000, 2))
{fit}
print(time.perf_counter() - began)
"""
FIRST_OURS = "import temperance as tp; tp.fit(tp.GaussianMixture(6), x, seed=0)"
FIRST_THEIRS = """
from sklearn.mixture import BayesianGaussianMixture
BayesianGaussianMixture(n_components=6, max_iter=1000, random_state=0).fit(x)
"""


def first_call(fit: str) -> float:
    """Import, compile (or read the kept compilation) and fit, in a fresh process."""
    done = subprocess.run([sys.executable, "-c", FIRST.format(fit=fit)], capture_output=True, text=True, check=True)
    return float(done.stdout)


# VmHWM and not ru_maxrss: the latter begins with the peak of the process that started this one.
MEMORY = """
import numpy as np, temperance as tp
def peak(): return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
x = np.random.default_rng(0).normal(size=({n}, 16))
before = peak()
tp.fit(tp.GaussianMixture(32), x, tp.VB(max_iter=2, tol=0.0), seed=0)
print(peak(), before, x.nbytes / 1024)
"""


def memory(n: int) -> tuple[float, float, float]:
    """Peak, peak before the fit, and the data, in MiB."""
    done = subprocess.run([sys.executable, "-c", MEMORY.format(n=n)], capture_output=True, text=True, check=True)
    peak, before, data = (float(value) / 1024 for value in done.stdout.split())
    return peak, before, data


def beside_scikit_learn(n: int, d: int, k: int, few: int, many: int, precision: str) -> None:
    x = simulate(n, d, k)
    first = seconds(lambda: ours(x, k, few, precision))
    mine, other, ratios = alternate(
        lambda: per_iteration(lambda i: ours(x, k, i, precision), few, many),
        lambda: per_iteration(lambda i: scikit_learn(x, k, i), few, min(many, few + 10)),
    )
    report(f"scikit-learn ({n}, {d}, {k}) {precision}", mine, other, ratios)
    print(f"{'':44s} first call with compilation {first:.2f} s")


def main() -> None:
    for size in SIZES:
        beside_scikit_learn(*size, "double")
    beside_scikit_learn(*SIZES[-1], "single")
    x = simulate(10_000, 2, 6)
    try:
        mine, other, ratios = alternate(
            lambda: per_iteration(lambda i: ours(x, 6, i), 20, 120),
            lambda: per_iteration(lambda i: bayespy(x, 6, i), 2, 7),
            rounds=3,
        )
        report("BayesPy (10000, 2, 6)", mine, other, ratios)
    except ImportError:
        print("BayesPy is not installed")
    ours(x, 6, 20, restarts=20)
    one, twenty, ratios = alternate(
        lambda: per_iteration(lambda i: ours(x, 6, i), 20, 120),
        lambda: per_iteration(lambda i: ours(x, 6, i, restarts=20), 20, 60),
        rounds=3,
    )
    print(f"20 restarts cost {np.median(ratios):.1f} times one ({1e3 * one:.2f} and {1e3 * twenty:.2f} ms)")
    first_call(FIRST_OURS)
    mine, other, ratios = alternate(lambda: first_call(FIRST_OURS), lambda: first_call(FIRST_THEIRS), rounds=3)
    report("first call (import and fit), scikit-learn", mine, other, ratios)
    for n in (250_000, 1_000_000):
        peak, before, data = memory(n)
        print(f"memory at N = {n}: data {data:.0f} MiB, the fit adds {peak - before:.0f} MiB to a peak of {before:.0f}")


if __name__ == "__main__":
    main()
