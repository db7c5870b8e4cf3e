"""Mixtures by brute force: a sum over every assignment of the data to components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

Marginal = Callable[[np.ndarray], float]  # rows (n, d) to the log of their marginal likelihood


def log_joints(x: np.ndarray, marginal: Marginal, concentration: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every assignment (kⁿ, n), and log p(x, z) for each: the weights and the parameters are integrated out.

    p(z) = Γ(Σδ)/Γ(n + Σδ) Π_j Γ(δ_j + n_j)/Γ(δ_j), and p(x | z) is a product of marginal likelihoods, one for each
    component's rows.
    """
    concentration = np.asarray(concentration, float)
    n, k = len(x), len(concentration)
    subsets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    table = np.array([marginal(x[rows.astype(bool)]) for rows in subsets])
    assignments = np.indices((k,) * n).reshape(n, -1).T
    total = np.full(len(assignments), gammaln(concentration.sum()) - gammaln(n + concentration.sum()))
    for j in range(k):
        rows = assignments == j
        counts = rows.sum(axis=1)
        total += gammaln(concentration[j] + counts) - gammaln(concentration[j]) + table[rows @ 2 ** np.arange(n)]
    return assignments, total


def log_evidence(x: np.ndarray, marginal: Marginal, concentration: Any) -> float:
    """log p(x)."""
    return float(logsumexp(log_joints(x, marginal, concentration)[1]))


def same_component(x: np.ndarray, marginal: Marginal, concentration: Any) -> np.ndarray:
    """p(z_i = z_j | x) for all pairs of rows: a posterior that does not depend on labels."""
    assignments, total = log_joints(x, marginal, concentration)
    weights = np.exp(total - logsumexp(total))
    return np.einsum("a,aij->ij", weights, assignments[:, :, None] == assignments[:, None, :])


def log_predictive(x: np.ndarray, new: np.ndarray, marginal: Marginal, concentration: Any) -> float:
    """log p(new row | x)."""
    joint = log_evidence(np.vstack([x, new]), marginal, concentration)
    return joint - log_evidence(x, marginal, concentration)
