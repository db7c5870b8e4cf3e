"""Marginal likelihoods log ∫ Π_n p(x_n | θ) p(θ) dθ in ordinary parameters.

NumPy and SciPy only, and nothing of the package, so that they can contradict it. `x` is (n, d), n may be 0. NaN is
a column not seen, where that leaves a closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, multigammaln
from scipy.stats import multivariate_normal


def gaussian(x: np.ndarray, mean: Any, pseudo_count: float, dof: float, scatter: Any) -> float:
    """Full covariance under a Normal-Wishart prior."""
    n, d = x.shape
    mean, scatter = np.asarray(mean, float), np.asarray(scatter, float)
    if n == 0:
        return 0.0
    centre = x.mean(axis=0)
    spread = (x - centre).T @ (x - centre)
    shrink = pseudo_count * n / (pseudo_count + n) * np.outer(centre - mean, centre - mean)
    return (
        -0.5 * n * d * np.log(np.pi)
        + multigammaln((dof + n) / 2, d)
        - multigammaln(dof / 2, d)
        + 0.5 * dof * np.linalg.slogdet(scatter)[1]
        - 0.5 * (dof + n) * np.linalg.slogdet(scatter + spread + shrink)[1]
        + 0.5 * d * np.log(pseudo_count / (pseudo_count + n))
    )


def diagonal(x: np.ndarray, mean: Any, pseudo_count: Any, dof: Any, scatter: Any) -> float:
    """One Normal-Gamma for each column, over the values seen in it."""
    d = x.shape[1]
    columns = zip(*(np.broadcast_to(value, d) for value in (mean, pseudo_count, dof, scatter)), strict=True)
    total = 0.0
    for column, (m, v, a, s) in enumerate(columns):
        seen = x[~np.isnan(x[:, column]), column]
        total += gaussian(seen[:, None], [m], v, a, [[s]])
    return total


def spherical(x: np.ndarray, mean: Any, pseudo_count: float, dof: float, scatter: float) -> float:
    """λ ~ Gamma(dof/2, scatter/2), μ | λ ~ N(mean, I/(pseudo_count λ)): given λ, each column is a Gaussian vector
    of covariance (I + 11ᵀ/pseudo_count)/λ, which leaves one Gamma integral over λ."""
    d, quadratic, log_det, seen = x.shape[1], 0.0, 0.0, 0
    for column, m in zip(range(d), np.asarray(mean, float), strict=True):
        values = x[~np.isnan(x[:, column]), column] - m
        covariance = np.eye(len(values)) + 1.0 / pseudo_count
        quadratic += values @ np.linalg.solve(covariance, values)
        log_det += np.linalg.slogdet(covariance)[1] if len(values) else 0.0
        seen += len(values)
    shape = 0.5 * (dof + seen)
    return (
        -0.5 * seen * np.log(2 * np.pi)
        - 0.5 * log_det
        + gammaln(shape)
        - gammaln(0.5 * dof)
        + 0.5 * dof * np.log(0.5 * scatter)
        - shape * np.log(0.5 * (scatter + quadratic))
    )


def known(x: np.ndarray, covariance: Any, mean: Any, spread: Any) -> float:
    """μ ~ N(mean, spread), x ~ N(μ, covariance): all rows together are one Gaussian; its seen part is too."""
    n = len(x)
    covariance, mean, spread = np.asarray(covariance), np.asarray(mean), np.asarray(spread)
    joint = np.kron(np.eye(n), covariance) + np.kron(np.ones((n, n)), spread)
    seen = ~np.isnan(x.reshape(-1))
    if not seen.any():
        return 0.0
    centre = np.tile(mean, n)[seen]
    return float(multivariate_normal(centre, joint[np.ix_(seen, seen)]).logpdf(x.reshape(-1)[seen]))


def poisson(x: np.ndarray, shape: float, rate: float) -> float:
    total = 0.0
    for column in x.T:
        seen = column[~np.isnan(column)]
        a, b = shape + seen.sum(), rate + len(seen)
        total += gammaln(a) - a * np.log(b) - gammaln(shape) + shape * np.log(rate) - gammaln(seen + 1).sum()
    return total


def bernoulli(x: np.ndarray, a: float, b: float) -> float:
    total = 0.0
    for column in x.T:
        seen = column[~np.isnan(column)]
        total += betaln(a + seen.sum(), b + (1 - seen).sum()) - betaln(a, b)
    return total


def categorical(x: np.ndarray, concentration: Any) -> float:
    concentration = np.asarray(concentration, float)
    total = 0.0
    for column in x.T:
        seen = column[~np.isnan(column)].astype(int)
        total += _dirichlet(concentration, np.bincount(seen, minlength=len(concentration)))
    return total


def multinomial(x: np.ndarray, concentration: Any) -> float:
    coefficients = gammaln(x.sum(axis=1) + 1).sum() - gammaln(x + 1).sum()
    return coefficients + _dirichlet(np.asarray(concentration, float), x.sum(axis=0))


def _dirichlet(concentration: np.ndarray, counts: np.ndarray) -> float:
    before, after = concentration, concentration + counts
    return float(gammaln(after).sum() - gammaln(after.sum()) - gammaln(before).sum() + gammaln(before.sum()))
