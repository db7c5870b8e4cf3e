"""Tempered Monte Carlo: a sweep of twenty replicas beside NumPy, and the galaxy data in full.

Same data, same prior, all on the same cores and in the same run; compilation is reported apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

import temperance as tp

from ._timing import alternate, per_iteration, report, seconds

REPLICAS = 20


# ---- a vectorised Gibbs sampler in NumPy --------------------------------------------------------------------


class NumpyReplicas:
    """Tempered Gibbs sampling of a Gaussian mixture, every operation over all data and components at once."""

    def __init__(self, x: np.ndarray, k: int, betas: np.ndarray, seed: int = 0):
        self.x, self.k, self.betas, self.rng = x, k, betas, np.random.default_rng(seed)
        d = x.shape[1]
        self.mean0, self.count0, self.dof0, self.scatter0 = np.zeros(d), 1.0, d + 2.0, np.eye(d)
        start = self.rng.choice(len(x), size=(len(betas), k))
        self.mean = x[start]
        self.precision = np.broadcast_to(np.eye(d), (len(betas), k, d, d)).copy()
        self.weights = np.full((len(betas), k), 1.0 / k)

    def sweep(self) -> np.ndarray:
        return np.array([self._one(replica, beta) for replica, beta in enumerate(self.betas)])

    def _one(self, replica: int, beta: float) -> float:
        x, rng, d = self.x, self.rng, self.x.shape[1]
        mean, precision = self.mean[replica], self.precision[replica]
        factor = np.linalg.cholesky(precision)
        white = np.einsum("nkd,kde->nke", x[:, None] - mean[None], factor)
        log_density = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) - 0.5 * np.square(white).sum(axis=2)
        log_density -= 0.5 * d * np.log(2 * np.pi)
        logits = np.log(self.weights[replica]) + beta * log_density
        cumulative = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
        z = (cumulative <= rng.random(len(x))[:, None] * cumulative[:, -1:]).sum(axis=1)
        energy = log_density[np.arange(len(x)), z].sum()
        share = np.eye(self.k)[z]
        counts = share.sum(axis=0)
        self.weights[replica] = rng.dirichlet(1.0 + counts)
        first = beta * share.T @ x
        second = beta * np.einsum("nk,nd,ne->kde", share, x, x, optimize=True)
        count = self.count0 + beta * counts
        centre = (self.count0 * self.mean0 + first) / count[:, None]
        outer = np.einsum("k,kd,ke->kde", count, centre, centre)
        scatter = self.scatter0 + self.count0 * np.outer(self.mean0, self.mean0) + second - outer
        dof = self.dof0 + beta * counts
        # Bartlett's decomposition for all components.
        root = np.linalg.cholesky(np.linalg.inv(scatter))
        lower = np.tril(rng.normal(size=(self.k, d, d)), -1)
        rows = np.arange(d)
        lower[:, rows, rows] = np.sqrt(rng.chisquare(dof[:, None] - rows))
        factor = root @ lower
        self.precision[replica] = factor @ np.swapaxes(factor, 1, 2)
        noise = rng.normal(size=(self.k, d, 1)) / np.sqrt(count)[:, None, None]
        self.mean[replica] = centre + np.linalg.solve(np.swapaxes(factor, 1, 2), noise)[..., 0]
        return float(energy)


def simulate(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(scale=3.0, size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def replicas_beside_numpy(n: int = 1000, d: int = 2, k: int = 5) -> None:
    x = simulate(n, d, k)
    model = tp.GaussianMixture(k, prior=tp.NormalWishart(np.zeros(d), 1.0, d + 2.0, np.eye(d)))
    betas = np.linspace(0, 1, REPLICAS) ** 5

    def ours(sweeps: int) -> tp.Fit:
        method = tp.ParallelTempering(draws=sweeps, warmup=0, ladder=betas, reference="prior")
        return tp.fit(model, x, method, seed=0, progress=False)

    theirs = NumpyReplicas(x, k, betas)

    def sweeps(count: int) -> None:
        for _ in range(count):
            theirs.sweep()

    first = seconds(lambda: ours(128))
    mine, other, ratios = alternate(
        lambda: per_iteration(ours, 128, 2176), lambda: per_iteration(sweeps, 2, 42), rounds=3
    )
    report(f"NumPy, a sweep of {REPLICAS} replicas ({n}, {d}, {k})", mine, other, ratios)
    print(f"{'':44s} {1 / mine:.0f} sweeps a second; first call with compilation {first:.1f} s", flush=True)


# ---- the galaxy data ----------------------------------------------------------------------------------------


def galaxy(k: int) -> tuple[tp.GaussianMixture, np.ndarray]:
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    return tp.GaussianMixture(k, prior=prior), tp.datasets.load("galaxy")


def galaxy_in_full(sizes: Sequence[int] = range(1, 7)) -> None:
    """10,000 draws of 32 replicas, four sweeps between them."""
    began = time.perf_counter()
    for k in sizes:
        clock = time.perf_counter()
        method = tp.ParallelTempering(draws=10_000, warmup=1000, thin=4, reference="prior")
        fit = tp.fit(*galaxy(k), method, seed=0, progress=False)
        print(
            f"galaxy, {k} components: {fit.log_evidence:.3f} ± {fit.standard_error:.3f}, bracket "
            f"({fit.bracket[0]:.3f}, {fit.bracket[1]:.3f}), barrier {fit.details['barrier']:.1f}, "
            f"{time.perf_counter() - clock:.1f} s",
            flush=True,
        )
    print(f"galaxy, {list(sizes)} components: {time.perf_counter() - began:.1f} s in all", flush=True)


def main() -> None:
    replicas_beside_numpy()
    galaxy_in_full()


if __name__ == "__main__":
    main()
