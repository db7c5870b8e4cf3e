"""Random small data sets with continuous latents: how close VB, α = ½ and EP come to quadrature, or to AIS.

    python -m tests.inference.messages.continuous_sets

prints the table of the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import temperance as tp
from temperance.errors import NumericalFailure
from tests.matrix.setups import graph_ppca
from tests.matrix.truths import PROBLEMS

METHODS = {"VB": tp.VB(tol=1e-9, max_iter=3000), "α = ½": tp.MessagePassing(0.5), "EP": tp.EP()}


class Family(NamedTuple):
    model: Callable[[], Any]
    draw: Callable[[np.random.Generator], Any]
    exact: Callable[[Any], float] | None  # None: by tempering
    sets: int


def rows(rng: np.random.Generator, n: int, d: int, k: int = 1) -> np.ndarray:
    return rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + 0.7 * rng.normal(size=(n, d))


def walk(rng: np.random.Generator, steps: int, d: int = 1) -> np.ndarray:
    """A first-order autoregression seen in noise."""
    z = np.zeros(steps)
    for t in range(1, steps):
        z[t] = 0.8 * z[t - 1] + rng.normal()
    return z[:, None] * rng.normal(size=d) + 0.5 * rng.normal(size=(steps, d))


FAMILIES = {
    "factor analysis, known noise, 3 rows": Family(
        PROBLEMS["FactorAnalysis"].model, lambda rng: rows(rng, 3, 2), PROBLEMS["FactorAnalysis"].evidence, 20
    ),
    "local level, 8 steps": Family(
        PROBLEMS["StateSpace"].model, lambda rng: 5.0 + walk(rng, 8), PROBLEMS["StateSpace"].evidence, 20
    ),
    "factor analysis, 30 × 4": Family(lambda: tp.FactorAnalysis(1), lambda rng: rows(rng, 30, 4), None, 10),
    "PPCA as a graph, 12 × 2": Family(graph_ppca, lambda rng: rows(rng, 12, 2), None, 10),
    "state space, 6 × (10 × 2)": Family(
        lambda: tp.StateSpace(1), lambda rng: [walk(rng, 10, 2) for _ in range(6)], None, 10
    ),
}


def signs(fit: tp.Fit) -> float:
    """What ln s leaves out because loadings have two signs: ln 2 if q has chosen one, 0 if it covers both."""
    found = [block for name, block in fit.state.blocks.items() if name in ("loadings", "observation")]
    if not found:
        return 0.0
    (q,) = found
    flip = np.where(np.arange(q.natural.linear.shape[-1]) == 0, -1.0, 1.0)
    other = type(q.natural)(q.natural.linear * flip, q.natural.precision * np.outer(flip, flip))
    middle = q.with_natural((q.natural + other).scale(0.5))
    overlap = np.sum(np.asarray(middle.log_normaliser() - q.log_normaliser()))
    return float(np.log(2.0) - np.log1p(np.exp(overlap)))


def errors(family: Family, seed: int) -> dict[str, float]:
    """Nats from the exact evidence, with the signs that a fit leaves out; NaN where there is no ln s."""
    data = family.draw(np.random.default_rng(seed))
    if family.exact is None:
        reference = tp.fit(family.model(), data, tp.AIS(particles=2000, temperatures=400), seed=seed, progress=False)
        exact, spread = float(reference.log_evidence or np.nan), float(reference.standard_error or np.nan)
    else:
        exact, spread = family.exact(data), 0.0
    found = {"error of the reference": spread}
    for name, method in METHODS.items():
        try:
            fit = tp.fit(family.model(), data, method, seed=seed, progress=False)
        except NumericalFailure:
            found[name] = np.nan
            continue
        found[name] = np.nan if fit.log_evidence is None else fit.log_evidence + signs(fit) - exact
    return found


def main(names: list[str]) -> None:
    for name in names or FAMILIES:
        family = FAMILIES[name]
        found = [errors(family, seed) for seed in range(family.sets)]
        cells = []
        for method in METHODS:
            each = np.array([one[method] for one in found])
            have = each[np.isfinite(each)]
            cells.append(
                f"{method} {np.median(have):+.4f} ({have.min():+.4f} to {have.max():+.4f}; {len(have)} have one)"
            )
        spread = max(one["error of the reference"] for one in found)
        print(f"{name}: {family.sets} sets, reference ± {spread:.4f}: {'; '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
