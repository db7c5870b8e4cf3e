"""Random small data sets with the exact answer by enumeration: how close EP and VB come to it.

    python -m tests.inference.messages.small_sets

prints the table of the documentation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

import temperance as tp
from temperance.errors import NumericalFailure
from tests.exact import marginals
from tests.exact.enumeration import log_joints

DRAWS = 4000


class Problem(NamedTuple):
    n: int
    j: int
    d: int
    sets: int


# 200 in all, from few shapes, for every shape is a compilation.
PROBLEMS = (Problem(8, 2, 1, 80), Problem(8, 2, 2, 60), Problem(8, 3, 1, 60))


class Outcome(NamedTuple):
    """One data set: nats from the exact evidence and from the exact predictive density."""

    converged: bool
    evidence_ep: float
    evidence_vb: float
    evidence_corrected: float  # NaN where the correction does not exist
    divergence_ep: float
    divergence_vb: float


def hyperparameters(d: int) -> dict[str, Any]:
    """The thesis's prior, v₀ = 0.01, a₀ = 1 (d = 1), B₀ = 0.11."""
    return {"mean": np.zeros(d), "pseudo_count": 0.01, "dof": d + 1.0, "scatter": 0.22 * np.eye(d)}


def draw(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Two clusters from 0 to 6 units apart, each with a standard deviation between 0.3 and 1."""
    direction = rng.normal(size=d)
    apart = rng.uniform(0, 6) * direction / np.linalg.norm(direction)
    side = rng.integers(2, size=n) - 0.5
    return side[:, None] * apart + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.0)


class Predictive:
    """The exact predictive density: a mixture of one Student-t for each subset of the data."""

    def __init__(self, x: np.ndarray, hyper: dict[str, Any], j: int):
        n = len(x)
        assignments, log_joint = log_joints(x, lambda rows: marginals.gaussian(rows, **hyper), np.ones(j))
        self.log_evidence = float(logsumexp(log_joint))
        share = np.exp(log_joint - self.log_evidence)
        self.weights = np.zeros(2**n)
        for k in range(j):
            rows = assignments == k
            np.add.at(self.weights, rows @ 2 ** np.arange(n), share * (1 + rows.sum(axis=1)) / (j + n))
        subsets = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(float)
        m0, v0 = np.asarray(hyper["mean"]), hyper["pseudo_count"]
        self.count = v0 + subsets.sum(axis=1)
        self.location = (v0 * m0 + subsets @ x) / self.count[:, None]
        second = np.einsum("sn,na,nb->sab", subsets, x, x) + v0 * np.outer(m0, m0)
        outer = self.location[:, :, None] * self.location[:, None, :]
        self.scatter = hyper["scatter"] + second - self.count[:, None, None] * outer
        self.dof = hyper["dof"] + subsets.sum(axis=1)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        d = x.shape[1]
        matrix = self.scatter * ((self.count + 1) / self.count)[:, None, None]
        centred = x[:, None] - self.location[None]
        distance = np.einsum("gsa,sab,gsb->gs", centred, np.linalg.inv(matrix), centred)
        log_t = (
            gammaln(0.5 * (self.dof + 1))
            - gammaln(0.5 * (self.dof + 1 - d))
            - 0.5 * d * np.log(np.pi)
            - 0.5 * np.linalg.slogdet(matrix)[1]
            - 0.5 * (self.dof + 1) * np.log1p(distance)
        )
        return logsumexp(log_t, axis=1, b=self.weights)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        d = self.location.shape[1]
        s = rng.choice(len(self.weights), p=self.weights / self.weights.sum(), size=size)
        free = self.dof[s] + 1 - d
        shape = self.scatter[s] * ((self.count[s] + 1) / self.count[s] / free)[:, None, None]
        noise = np.einsum("gab,gb->ga", np.linalg.cholesky(shape), rng.normal(size=(size, d)))
        return self.location[s] + noise / np.sqrt(rng.chisquare(free) / free)[:, None]


def outcome(problem: Problem, number: int) -> Outcome:
    rng = np.random.default_rng([number, *problem])
    x, hyper = draw(rng, problem.n, problem.d), hyperparameters(problem.d)
    exact = Predictive(x, hyper, problem.j)
    model = tp.GaussianMixture(problem.j, prior=tp.NormalWishart(**hyper))
    ep = tp.fit(model, x, tp.EP(restarts=8, max_passes=200), seed=number)
    vb = tp.fit(model, x, tp.VB(restarts=8, tol=1e-9), seed=number)
    new = exact.sample(rng, DRAWS)
    truth = exact.log_density(new)
    try:
        corrected = ep.corrected_log_evidence
    except NumericalFailure:
        corrected = np.nan
    return Outcome(
        ep.converged,
        abs(ep.log_evidence - exact.log_evidence),
        abs(vb.log_evidence - exact.log_evidence),
        abs(corrected - exact.log_evidence),
        divergence(truth, ep.log_predictive(new)),
        divergence(truth, vb.log_predictive(new)),
    )


def divergence(log_p: np.ndarray, log_q: np.ndarray) -> float:
    """KL(p ‖ q) from draws of p, as the mean of q/p − 1 − log q/p: where the two agree its error vanishes with it."""
    ratio = log_q - log_p
    return float(np.mean(np.expm1(ratio) - ratio))


def outcomes(problem: Problem) -> np.ndarray:
    """(sets, fields of `Outcome`)."""
    return np.array([outcome(problem, number) for number in range(problem.sets)], dtype=float)


def main() -> None:
    for problem in PROBLEMS:
        table = outcomes(problem)
        converged = table[table[:, 0] == 1]
        ours = Outcome(*converged.T)
        exists = np.isfinite(ours.evidence_corrected)
        better = np.mean(ours.evidence_corrected[exists] < ours.evidence_ep[exists])
        print(
            f"N = {problem.n}, J = {problem.j}, d = {problem.d}: {len(converged)} of {problem.sets} converged; "
            f"predictive closer {np.mean(ours.divergence_ep < ours.divergence_vb):.1%}, "
            f"evidence closer {np.mean(ours.evidence_ep < ours.evidence_vb):.1%}; "
            f"mean error of ln s: VB {ours.evidence_vb.mean():.4f}, EP {ours.evidence_ep.mean():.4f}, "
            f"where corrected ({exists.sum()}) {ours.evidence_ep[exists].mean():.4f} to "
            f"{ours.evidence_corrected[exists].mean():.4f}, closer {better:.1%}; "
            f"mean KL: VB {ours.divergence_vb.mean():.4f}, EP {ours.divergence_ep.mean():.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
