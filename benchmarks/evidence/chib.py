"""The log evidence of a Gaussian mixture by Chib's identity, from long Gibbs chains. NumPy and SciPy alone.

    log p(x) = log p(x | θ*) + log p(θ*) − log p(θ* | x),
    p(θ* | x) ≈ the average of p(θ* | z, x) over z and over all K! orders

(Chib, 1995; Berkhof and others, 2003, for the orders). The chains begin at the particles of sequential Monte Carlo from
the prior, so that each mode has its share of them: chains alone stay where they began. Nothing of the package takes
part, so that it can contradict what the package says about real data, which are too many to enumerate.

    python -m benchmarks.evidence.chib [--chains 4000] [--sweeps 200] [--seeds 4] [--jobs 2] [--out FILE.json]

prints, for each such problem, the log evidence of its data file, and of each seed this one with its standard error
(from eight groups of chains).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, multigammaln

GROUPS = 8  # of chains; of their own particles, too
RUNGS, POWER = 200, 4.0  # temperatures β = (i/RUNGS)^POWER


class Prior(NamedTuple):
    """Λ ~ Wishart(dof, scatter⁻¹), μ | Λ ~ N(mean, (pseudo_count Λ)⁻¹), weights ~ Dirichlet(1, …)."""

    mean: np.ndarray
    pseudo_count: float
    dof: float
    scatter: np.ndarray


class Theta(NamedTuple):
    """Leading axes: chains; then components."""

    log_weights: np.ndarray
    mean: np.ndarray
    precision: np.ndarray


def chib(x: np.ndarray, prior: Prior, size: int, chains: int, sweeps: int, seed: int = 0) -> tuple[float, float]:
    """The log evidence and its standard error."""
    rng, orders = np.random.default_rng(seed), list(itertools.permutations(range(size)))
    features = np.concatenate([np.ones((len(x), 1)), x, (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)], axis=1)
    z = np.concatenate([_particles(x, features, prior, size, chains // GROUPS, rng) for _ in range(GROUPS)])
    best, best_value, kept = None, -np.inf, []
    for sweep in range(2 * sweeps):
        sums = _sums(z, features, size)
        if sweep >= sweeps:  # the second half weighs the best place of the first
            assert best is not None
            kept.append(np.logaddexp.reduce([_conditional(best, sums[:, list(o)], prior) for o in orders]))
        theta, logs = _drawn(x, sums, prior, rng)
        if sweep < sweeps:
            value = logsumexp(logs, axis=2).sum(axis=1) + _log_prior(theta, prior)
            top = int(np.argmax(value))
            if value[top] > best_value:
                best, best_value = Theta(*(part[top] for part in theta)), float(value[top])
        z = np.argmax(logs + rng.gumbel(size=logs.shape), axis=2)
    groups = np.array_split(np.stack(kept, axis=1), GROUPS)  # (chain, sweep)
    each = np.array([logsumexp(of) - np.log(of.size * len(orders)) for of in groups])
    error = np.std(np.exp(each - each.mean()), ddof=1) / np.sqrt(GROUPS)
    return best_value - float(logsumexp(each) - np.log(GROUPS)), float(error)


def _particles(x: np.ndarray, features: np.ndarray, prior: Prior, size: int, chains: int, rng: Any) -> np.ndarray:
    """Labels of each particle at β = 1. At β the likelihood of a row given its component is to the power of β."""
    theta, logs = _drawn(x, np.zeros((chains, size, features.shape[1])), prior, rng)
    betas = (np.arange(RUNGS + 1) / RUNGS) ** POWER
    for before, beta in itertools.pairwise(betas):
        own, given = theta.log_weights[:, None], logs - theta.log_weights[:, None]
        z = np.argmax(own + before * given + rng.gumbel(size=logs.shape), axis=2)
        weight = (beta - before) * np.take_along_axis(given, z[:, :, None], axis=2).sum(axis=(1, 2))
        share = np.cumsum(np.exp(weight - logsumexp(weight)))
        z = z[np.minimum(np.searchsorted(share, (np.arange(chains) + rng.random()) / chains), chains - 1)]
        theta, logs = _drawn(x, _sums(z, features, size), prior, rng, beta)
    return np.argmax(logs + rng.gumbel(size=logs.shape), axis=2)


def _sums(z: np.ndarray, features: np.ndarray, size: int) -> np.ndarray:
    return np.stack([(z == k).astype(float) @ features for k in range(size)], axis=1)


def _posterior(sums: np.ndarray, prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, pseudo-count, dof and scatter of each component given its rows."""
    d = len(prior.mean)
    n, total, squares = sums[..., 0], sums[..., 1 : d + 1], sums[..., d + 1 :].reshape((*sums.shape[:-1], d, d))
    count = prior.pseudo_count + n
    mean = (prior.pseudo_count * prior.mean + total) / count[..., None]
    outer = prior.pseudo_count * np.outer(prior.mean, prior.mean)
    scatter = prior.scatter + squares + outer - count[..., None, None] * mean[..., :, None] * mean[..., None, :]
    return mean, count, prior.dof + n, scatter


def _drawn(
    x: np.ndarray, sums: np.ndarray, prior: Prior, rng: np.random.Generator, beta: float = 1.0
) -> tuple[Theta, np.ndarray]:
    """Parameters given the labels, and log π_k + log p(x_n | θ_k)."""
    mean, count, dof, scatter = _posterior(beta * sums, prior)
    d = len(prior.mean)
    gammas = rng.standard_gamma(1.0 + sums[..., 0])
    root = np.where(np.tri(d, k=-1, dtype=bool), rng.normal(size=scatter.shape), 0.0)  # Bartlett's decomposition
    root[..., range(d), range(d)] = np.sqrt(2.0 * rng.standard_gamma(0.5 * (dof[..., None] - np.arange(d))))
    factor = np.linalg.solve(np.swapaxes(np.linalg.cholesky(scatter), -1, -2), root)
    noise = np.linalg.solve(np.swapaxes(factor, -1, -2), rng.normal(size=(*mean.shape, 1)))[..., 0]
    precision = factor @ np.swapaxes(factor, -1, -2)
    weights = np.log(gammas / gammas.sum(axis=-1, keepdims=True))
    theta = Theta(weights, mean + noise / np.sqrt(count)[..., None], precision)
    return theta, weights[:, None] + _log_normal(x, theta)


def _log_normal(x: np.ndarray, theta: Theta) -> np.ndarray:
    """(…, row, component)"""
    away = x[:, None] - theta.mean[..., None, :, :]
    squares = np.einsum("...nki,...kij,...nkj->...nk", away, theta.precision, away)
    return 0.5 * (np.linalg.slogdet(theta.precision)[1][..., None, :] - squares - x.shape[1] * np.log(2 * np.pi))


def _log_wishart(theta: Theta, mean: Any, count: Any, dof: Any, scatter: np.ndarray) -> np.ndarray:
    """log p(μ, Λ) of each component."""
    d = scatter.shape[-1]
    log_det, away = np.linalg.slogdet(theta.precision)[1], theta.mean - mean
    squares = np.einsum("...i,...ij,...j->...", away, theta.precision, away)
    normal = 0.5 * (d * np.log(count / (2 * np.pi)) + log_det - count * squares)
    trace = np.einsum("...ij,...ji->...", scatter, theta.precision)
    constant = 0.5 * dof * (np.linalg.slogdet(scatter)[1] - d * np.log(2.0)) - multigammaln_of(0.5 * dof, d)
    return normal + 0.5 * (dof - d - 1) * log_det - 0.5 * trace + constant


def multigammaln_of(a: Any, d: int) -> Any:
    """`scipy.special.multigammaln` of an array."""
    if np.ndim(a) == 0:
        return multigammaln(a, d)
    return 0.25 * d * (d - 1) * np.log(np.pi) + sum(gammaln(a - 0.5 * i) for i in range(d))


def _log_prior(theta: Theta, prior: Prior) -> np.ndarray:
    size = theta.log_weights.shape[-1]
    return _log_wishart(theta, *prior).sum(axis=-1) + gammaln(size)


def _conditional(theta: Theta, sums: np.ndarray, prior: Prior) -> np.ndarray:
    """log p(θ | z, x) for the sums of each z."""
    n = sums[..., 0]
    weights = gammaln((1.0 + n).sum(axis=-1)) + (n * theta.log_weights - gammaln(1.0 + n)).sum(axis=-1)
    return _log_wishart(theta, *_posterior(sums, prior)).sum(axis=-1) + weights


# ---- the real data ---------------------------------------------------------------------------------------------------


def _cases() -> Iterator[tuple[str, np.ndarray, Prior, int, float]]:
    """Name, data, prior, components and the log evidence of the data file."""
    import temperance as tp

    for one in json.loads((Path(__file__).parent / "problems" / "real-data.json").read_text())["problems"]:
        size, prior = one["settings"]["components"], one["settings"]["prior"]
        try:
            x = tp.datasets.load(one["data"])
        except tp.datasets.UnknownDataset:
            continue
        parts = Prior(np.array(prior["mean"]), prior["pseudo_count"], prior["dof"], np.array(prior["scatter"]))
        yield one["name"], x, parts, size, one["log_evidence"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence.chib")
    for name, default in (("chains", 4000), ("sweeps", 200), ("seeds", 4), ("jobs", os.cpu_count() or 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    found: dict[str, Any] = {}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {
            pool.submit(chib, x, prior, size, options.chains, options.sweeps, seed): (name, value)
            for seed in range(options.seeds)
            for name, x, prior, size, value in _cases()
        }
        for done in as_completed(waiting):
            name, value = waiting[done]
            found.setdefault(name, {"file": value, "runs": []})["runs"].append(done.result())
            print(f"{name}: {value:.4f} in the file, {done.result()[0]:.4f} ± {done.result()[1]:.4f}", flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(found, indent=0))


if __name__ == "__main__":
    main()
