"""Ridge regression with one precision of all weights, or one for each, by maximising the evidence (MacKay, 1992;
Tipping, 2001): scikit-learn's updates, and the bound of variational Bayes at their result.

    γ_j = 1 − λ_j Σ_jj,   λ = (γ + 2 λ₁)/(m² + 2 λ₂),   α = (n − Σγ + 2 α₁)/(‖y − Xm‖² + 2 α₂)

With q(w) = N(m, Σ) and the best Gammas for α and λ given q(w), the bound keeps every constant, so models can be
compared by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

_LOG_2PI = float(np.log(2.0 * np.pi))


class Hyper(NamedTuple):
    """Shape and rate of the Gammas over the noise precision α and the weights' precisions λ."""

    alpha_1: float
    alpha_2: float
    lambda_1: float
    lambda_2: float


class Maximum(NamedTuple):
    mean: np.ndarray  # of all weights, zero for those left out
    covariance: np.ndarray  # of those that are kept
    noise: float
    precisions: np.ndarray  # of all weights
    scores: list[float]  # the log marginal likelihood before each update, and at the end
    steps: int
    converged: bool
    bound: float


class _Problem(NamedTuple):
    rows: np.ndarray  # a rotation of the data, with at most as many rows as columns
    targets: np.ndarray
    rest: float  # the squared length of the targets that no weight can reach
    n: float


class _Posterior(NamedTuple):
    mean: np.ndarray
    covariance: np.ndarray
    gamma: np.ndarray
    log_det: float
    misfit: float  # ‖y − Xm‖²


def maximise(
    X: np.ndarray, y: np.ndarray, n: float, hyper: Hyper, ard: bool, start: tuple[float | None, float | None],
    stop: tuple[int, float], most: float = np.inf,
) -> Maximum:  # fmt: skip
    """Maximise the evidence. `n` is the total weight of the rows, `start` holds α and λ, `stop` the largest number of
    steps and the change of the weights at which to end; weights whose precision is above `most` are left out."""
    d = X.shape[1]
    q, r = np.linalg.qr(X) if len(X) > d else (np.eye(len(X)), X)
    inside = q.T @ y
    problem = _Problem(r, inside, float(max(np.square(y).sum() - np.square(inside).sum(), 0.0)), n)
    alpha = 1.0 / (np.square(y - y.mean()).sum() / len(y) + np.finfo(float).eps) if start[0] is None else start[0]
    lambdas, kept = np.full(d, 1.0 if start[1] is None else start[1]), np.ones(d, bool)
    mean, before, scores, step, converged = np.zeros(d), np.full(d, np.inf), [], 0, False
    for step in range(1, stop[0] + 1):
        q_w = _posterior(problem, alpha, lambdas, kept)
        mean = np.zeros(d)
        mean[kept] = q_w.mean
        scores.append(_score(q_w, problem, hyper, alpha, lambdas, kept, ard))
        square = np.square(q_w.mean)
        if ard:
            lambdas[kept] = (q_w.gamma + 2.0 * hyper.lambda_1) / (square + 2.0 * hyper.lambda_2)
        else:
            lambdas[:] = (q_w.gamma.sum() + 2.0 * hyper.lambda_1) / (square.sum() + 2.0 * hyper.lambda_2)
        alpha = float((n - q_w.gamma.sum() + 2.0 * hyper.alpha_1) / (q_w.misfit + 2.0 * hyper.alpha_2))
        kept = lambdas < most
        converged = step > 1 and float(np.abs(before - mean).sum()) < stop[1]
        if converged or not kept.any():
            break
        before = mean
    q_w = _posterior(problem, alpha, lambdas, kept)
    mean = np.zeros(d)
    mean[kept] = q_w.mean
    scores.append(_score(q_w, problem, hyper, alpha, lambdas, kept, ard))
    bound = _bound(q_w, problem, hyper, lambdas, kept, ard)
    return Maximum(mean, q_w.covariance, alpha, lambdas, scores, step, converged, bound)


def _posterior(problem: _Problem, alpha: float, lambdas: np.ndarray, kept: np.ndarray) -> _Posterior:
    """The posterior by the singular values of √α X Λ^−½, so that no matrix is inverted, however exact the data are."""
    scale = 1.0 / np.sqrt(lambdas[kept])
    left, sizes, right = np.linalg.svd(np.sqrt(alpha) * problem.rows[:, kept] * scale, full_matrices=False)
    shrunk = np.square(sizes) / (1.0 + np.square(sizes))
    mean = scale * (right.T @ (np.sqrt(alpha) * sizes / (1.0 + np.square(sizes)) * (left.T @ problem.targets)))
    beyond = np.eye(len(scale)) - right.T @ right if len(sizes) < len(scale) else 0.0  # the directions that no row has
    covariance = scale[:, None] * (beyond + (right.T / (1.0 + np.square(sizes))) @ right) * scale
    misfit = problem.rest + float(np.square(problem.targets - problem.rows[:, kept] @ mean).sum())
    log_det = 2.0 * float(np.log(scale).sum()) - float(np.log1p(np.square(sizes)).sum())
    return _Posterior(mean, covariance, np.square(right.T) @ shrunk, log_det, misfit)


def _score(
    q: _Posterior, p: _Problem, hyper: Hyper, alpha: float, lambdas: np.ndarray, kept: np.ndarray, ard: bool
) -> float:
    """log p(y | α, λ) and the logs of the Gammas, without their normalisers."""
    own = lambdas if ard else lambdas[:1]
    score = float(np.sum(hyper.lambda_1 * np.log(own) - hyper.lambda_2 * own))
    score += hyper.alpha_1 * np.log(alpha) - hyper.alpha_2 * alpha
    fit = np.log(lambdas[kept]).sum() + p.n * np.log(alpha) - alpha * q.misfit - lambdas[kept] @ np.square(q.mean)
    return float(score + 0.5 * (fit + q.log_det - p.n * _LOG_2PI))


def _bound(q: _Posterior, p: _Problem, hyper: Hyper, lambdas: np.ndarray, kept: np.ndarray, ard: bool) -> float:
    """The bound of variational Bayes; weights that are left out keep the variance 1/λ."""
    spread = 1.0 / lambdas
    spread[kept] = np.diagonal(q.covariance)
    second = spread.copy()
    second[kept] += np.square(q.mean)
    columns = np.square(p.rows).sum(axis=0)
    misfit = (
        q.misfit + float(np.sum((p.rows[:, kept] @ q.covariance) * p.rows[:, kept])) + columns[~kept] @ spread[~kept]
    )
    log_det = q.log_det + float(np.log(spread[~kept]).sum())
    sizes = (np.ones_like(second), second) if ard else (np.array([float(len(second))]), np.array([second.sum()]))
    value = _gamma_term(hyper.alpha_1, hyper.alpha_2, np.array([p.n]), np.array([misfit]))
    value += _gamma_term(hyper.lambda_1, hyper.lambda_2, *sizes)
    return float(value - 0.5 * p.n * _LOG_2PI + 0.5 * log_det + 0.5 * len(second))


def _gamma_term(shape: float, rate: float, count: np.ndarray, square: np.ndarray) -> float:
    """log ∫ Gamma(τ; shape, rate) τ^(count/2) exp(−τ square/2) dτ, summed."""
    after = shape + 0.5 * count
    each = shape * np.log(rate) - gammaln(shape) + gammaln(after) - after * np.log(rate + 0.5 * square)
    return float(np.sum(each))
