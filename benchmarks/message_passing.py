"""EP on N = 1000, J = 5, d = 2 with 20 restarts, beside a plain NumPy loop over factors (kept with the tests); and a
pass over a hidden Markov model beside a sweep of VB."""

from __future__ import annotations

import time

import numpy as np

import temperance as tp
from tests.inference.messages.plain import expectation_propagation

from ._timing import alternate, per_iteration, seconds

N, J, D, RESTARTS = 1000, 5, 2, 20
HYPER = {"mean": np.zeros(D), "pseudo_count": 0.01, "dof": D + 2.0, "scatter": np.eye(D)}


def simulate() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(scale=3.0, size=(J, D))[rng.integers(J, size=N)] + rng.normal(size=(N, D))


def ours(x: np.ndarray, passes: int, restarts: int = RESTARTS, alpha: float = 1.0) -> tp.Fit:
    method = tp.MessagePassing(alpha, restarts=restarts, max_passes=passes, tol=0.0)
    return tp.fit(tp.GaussianMixture(J, prior=tp.NormalWishart(**HYPER)), x, method, seed=0, progress=False)


def plain(x: np.ndarray, rows: int) -> float:
    """Seconds for one factor."""
    began = time.perf_counter()
    expectation_propagation(x[:rows], **HYPER, start=x[:J], passes=2)
    return (time.perf_counter() - began) / (2 * rows)


def chain(rounds: int = 5) -> None:
    """A pass of EP over a hidden Markov model, in sweeps of VB."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(scale=3.0, size=(50, D)), 10, axis=0) + rng.normal(size=(500, D))
    ep = lambda passes: tp.fit(tp.HMM(3), x, tp.EP(max_passes=passes), seed=0, progress=False)  # noqa: E731
    vb = lambda sweeps: tp.fit(tp.HMM(3), x, tp.VB(max_iter=sweeps, tol=0.0), seed=0, progress=False)  # noqa: E731
    for count in (2, 82):
        ep(count), vb(count)
    one, other, ratios = alternate(lambda: per_iteration(vb, 2, 82), lambda: per_iteration(ep, 2, 82), rounds)
    print(
        f"HMM, 500 steps, 3 states: a pass of EP {1e3 * other:.1f} ms, a sweep of VB {1e3 * one:.2f} ms, ratio "
        f"{np.median(ratios):.0f} ({ratios.min():.0f} to {ratios.max():.0f})"
    )


def main() -> None:
    chain()
    x = simulate()
    first = seconds(lambda: ours(x, 4))
    again = seconds(lambda: ours(x, 4))
    mine, theirs, ratios = alternate(
        lambda: per_iteration(lambda passes: ours(x, passes), 4, 14) / (N * RESTARTS), lambda: plain(x, 200)
    )
    low, high = ratios.min(), ratios.max()
    print(
        f"EP, N = {N}, J = {J}, d = {D}, {RESTARTS} restarts: {1e6 * mine:.2f} µs a factor and restart; plain NumPy "
        f"{1e6 * theirs:.0f} µs; ratio {np.median(ratios):.0f} ({low:.0f} to {high:.0f})"
    )
    print(f"first call with compilation {first:.1f} s, the same again {again:.1f} s")
    for alpha in (0.0, 0.5):
        ours(x, 4, alpha=alpha)
        each = per_iteration(lambda passes, alpha=alpha: ours(x, passes, alpha=alpha), 4, 8) / (N * RESTARTS)
        print(f"α = {alpha:g}: {1e6 * each:.2f} µs a factor and restart")


if __name__ == "__main__":
    main()
