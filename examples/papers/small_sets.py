"""Latent-variable thesis, figures 3.3, 3.4 and 3.14: VB and EP beside the exact answer on a small set, and doubled.

Eight simulated numbers in two clusters; the exact evidence and predictive density are sums over all 2ᴺ assignments.
EC+R is EP with its second-order correction.

    python examples/papers/small_sets.py [folder]
"""

from __future__ import annotations

import sys
from itertools import product
from math import lgamma

import numpy as np
from _figure import COLOURS, GREY, canvas, keep
from scipy.special import gammaln, logsumexp

import temperance as tp

QUICK = {"copies": (1,)}
SHRINK, DOF, SCATTER = 0.01, 2.0, 0.22  # pseudo-count, degrees of freedom and scatter of the prior; its mean is 0
GRID = np.linspace(-5, 5, 201)


def simulate(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(-1.0, 0.7, 4), rng.normal(1.0, 0.7, 4)])


def exact(x: np.ndarray) -> tuple[float, np.ndarray]:
    """The log evidence of two components, and the log predictive density on the grid."""
    first = np.array(list(product((0.0, 1.0), repeat=len(x))))
    total, predictive = -lgamma(len(x) + 2), []
    parts = [(z.sum(axis=1), z @ x, z @ x**2) for z in (first, 1 - first)]
    joint = total + sum(gammaln(n + 1) + log_marginal(n, s, q) for n, s, q in parts)
    for n, s, q in parts:
        grown = [log_marginal(n + 1, s + new, q + new**2) - log_marginal(n, s, q) for new in GRID]
        predictive.append(np.stack(grown) + np.log((n + 1) / (len(x) + 2)))
    evidence = float(logsumexp(joint))
    return evidence, logsumexp(np.logaddexp(*predictive) + joint - evidence, axis=1)


def log_marginal(n: np.ndarray, s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """log p of n numbers with sum s and sum of squares q under the Normal-Gamma prior."""
    shrink, dof = SHRINK + n, DOF + n
    scatter = SCATTER + q - s**2 / shrink
    constant = 0.5 * np.log(SHRINK) + 0.5 * DOF * np.log(SCATTER / 2) - lgamma(0.5 * DOF)
    return (
        constant - 0.5 * n * np.log(2 * np.pi) - 0.5 * np.log(shrink) + gammaln(dof / 2) - dof / 2 * np.log(scatter / 2)
    )


def main(folder: str | None = None, copies: tuple[int, ...] = (1, 2)) -> dict[int, dict[str, float]]:
    figure, axes = canvas(2 * len(copies), width=6.0 * len(copies))
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=SHRINK, dof=DOF, scatter=[[SCATTER]])
    results = {}
    for place, copy in enumerate(copies):
        x = np.tile(simulate(), copy)
        truth, density = exact(x)
        fits = {"VB": tp.VB(restarts=8), "EP": tp.EP(restarts=8)}
        found = {
            name: tp.fit(tp.GaussianMixture(2, prior=prior), x[:, None], method, seed=0)
            for name, method in fits.items()
        }
        curve, bars = axes[2 * place : 2 * place + 2]
        curve.plot(GRID, np.exp(density), color=GREY, linewidth=3, label="exact")
        values = {"exact": truth}
        for colour, (name, fit) in zip(COLOURS, found.items(), strict=False):
            predicted = np.exp(fit.log_predictive(GRID[:, None]))
            curve.plot(GRID, predicted, color=colour, label=name)
            values[name] = fit.log_evidence + fit.label_correction
            misplaced = 0.5 * np.trapezoid(np.abs(predicted - np.exp(density)), GRID)
            print(f"N = {len(x)}: {name} misplaces {misplaced:.2%} of the predictive probability")
        values["EC+R"] = found["EP"].corrected_log_evidence + found["EP"].label_correction
        curve.set_title(f"simulated, N = {len(x)}", fontsize=10)
        curve.legend(frameon=False, fontsize=8)
        bars.plot(list(values), [value - truth for value in values.values()], "o", color=COLOURS[0])
        bars.axhline(0, color=GREY, linewidth=1)
        bars.set_title("log evidence − exact (nats)", fontsize=10)
        print(f"N = {len(x)}:", {name: round(value, 4) for name, value in values.items()})
        results[len(x)] = values
    keep(figure, "small-sets", folder)
    return results


if __name__ == "__main__":
    main(*sys.argv[1:2])
