"""Expectation propagation for Gaussian mixtures as the thesis writes it: a NumPy loop over factors, in ordinary
parameters. Nothing of the package, so that it can contradict it; also what the package's speed is measured against.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, multigammaln, polygamma, psi

LOG_2PI = np.log(2.0 * np.pi)


class Parameters(NamedTuple):
    """Natural parameters of the Dirichlet and of each Normal-Wishart; messages and data are such vectors, too."""

    delta: Any  # (J,)
    first: Any  # (J, d): v m
    count: Any  # (J,): v
    second: Any  # (J, d, d): S + v m mᵀ
    dof: Any  # (J,)


def plus(a: Parameters, b: Parameters, sign: float = 1.0) -> Parameters:
    return Parameters(*(u + sign * v for u, v in zip(a, b, strict=True)))


def scatter(p: Parameters) -> np.ndarray:
    return p.second - p.first[:, :, None] * p.first[:, None, :] / p.count[:, None, None]


def is_proper(p: Parameters) -> bool:
    d = p.first.shape[1]
    if (p.delta <= 0).any() or (p.count <= 0).any() or (p.dof <= d - 1).any():
        return False
    return bool((np.linalg.eigvalsh(scatter(p)) > 0).all())


def components_normaliser(p: Parameters, log_det: np.ndarray) -> np.ndarray:
    """ln Z_NW of every component."""
    d = p.first.shape[1]
    gamma = multigammaln(p.dof / 2, d)
    return 0.5 * p.dof * (d * np.log(2.0) - log_det) + gamma + 0.5 * d * (LOG_2PI - np.log(p.count))


def log_normaliser(p: Parameters) -> float:
    weights = gammaln(p.delta).sum() - gammaln(p.delta.sum())
    return float(weights + components_normaliser(p, np.linalg.slogdet(scatter(p))[1]).sum())


def moments(p: Parameters, inverse: np.ndarray, log_det: np.ndarray) -> tuple[np.ndarray, ...]:
    """E[Λ], E[Λμ], E[μᵀΛμ] and E log|Λ| of every component."""
    d = p.first.shape[1]
    precision = p.dof[:, None, None] * inverse
    location = p.first / p.count[:, None]
    turned = np.einsum("jab,jb->ja", precision, location)
    square = d / p.count + (turned * location).sum(1)
    log = psi(0.5 * (p.dof[:, None] - np.arange(d))).sum(1) + d * np.log(2.0) - log_det
    return precision, turned, square, log


def match_dof(gap: np.ndarray, dof: np.ndarray, d: int) -> np.ndarray:
    """d ln(ν/2) − Σ ψ((ν − i)/2) = gap, by Newton in ln(ν − d + 1)."""
    shifts = np.arange(d)
    u = np.log(dof - (d - 1))
    for _ in range(50):
        nu = d - 1 + np.exp(u)
        halves = 0.5 * (nu[:, None] - shifts)
        value = d * np.log(0.5 * nu) - psi(halves).sum(1)
        slope = d / nu - 0.5 * polygamma(1, halves).sum(1)
        step = np.clip((np.log(value) - np.log(gap)) * value / (slope * np.exp(u)), -2, 2)
        u = u - step
        if np.abs(step).max() < 1e-10:
            break
    return d - 1 + np.exp(u)


def match_dirichlet(log_mean: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """ψ(δ_j) − ψ(Σδ) = E ln π_j, by Newton (3.36–3.37, corrected)."""
    if len(delta) == 1:
        return delta
    for _ in range(100):
        slope, whole = polygamma(1, delta), polygamma(1, delta.sum())
        residual = psi(delta) - psi(delta.sum()) - log_mean
        step = (residual + (residual / slope).sum() / (1.0 / whole - (1.0 / slope).sum())) / slope
        fresh = np.maximum(delta - step, 0.25 * delta)
        if np.abs(fresh - delta).max() < 1e-12 * fresh.max():
            return fresh
        delta = fresh
    return delta


def project(cavity: Parameters, datum: Parameters) -> tuple[Parameters, float]:
    """The member with the moments of cavity × factor, and ln S (3.13–3.35)."""
    d = cavity.first.shape[1]
    with_datum = plus(cavity, datum)
    both = []
    for p in (cavity, with_datum):
        matrix = scatter(p)
        log_det = np.linalg.slogdet(matrix)[1]
        both.append((components_normaliser(p, log_det), moments(p, np.linalg.inv(matrix), log_det)))
    (before, without), (after, including) = both
    log_terms = np.log(cavity.delta / cavity.delta.sum()) + after - before - 0.5 * d * LOG_2PI
    log_scale = logsumexp(log_terms)
    r = np.exp(log_terms - log_scale)
    weight = [(1 - r).reshape((-1,) + (1,) * (a.ndim - 1)) for a in without]
    precision, turned, square, log = (w * a + (1 - w) * b for w, a, b in zip(weight, without, including, strict=True))
    location = np.linalg.solve(precision, turned[..., None])[..., 0]
    count = d / (square - (turned * location).sum(1))
    dof = match_dof(np.linalg.slogdet(precision)[1] - log, (1 - r) * cavity.dof + r * with_datum.dof, d)
    spread = dof[:, None, None] * np.linalg.inv(precision)
    log_mean = psi(cavity.delta) + r / cavity.delta - psi(cavity.delta.sum() + 1.0)
    new = Parameters(
        match_dirichlet(log_mean, cavity.delta + r),
        count[:, None] * location,
        count,
        spread + count[:, None, None] * location[:, :, None] * location[:, None, :],
        dof,
    )
    return new, float(log_scale)


def statistics(x: np.ndarray, j: int) -> Parameters:
    """T(x) for every one of the components; the weights' part is in `project`."""
    one = np.ones(j)
    return Parameters(np.zeros(j), np.tile(x, (j, 1)), one, np.tile(np.outer(x, x), (j, 1, 1)), one)


def expectation_propagation(
    x: np.ndarray, mean: Any, pseudo_count: float, dof: float, scatter: Any, start: np.ndarray, passes: int
) -> tuple[np.ndarray, np.ndarray, Parameters]:
    """ln s and the factors skipped after every pass, and q; δ₀ = 1, and the factors come in their order.

    The prior's factor begins as if component j had seen `start[j]`, and is corrected as soon as that is proper.
    """
    j, d = start.shape
    mean, scatter = np.asarray(mean, float), np.asarray(scatter, float)
    prior = Parameters(
        np.ones(j),
        np.tile(pseudo_count * mean, (j, 1)),
        np.full(j, pseudo_count),
        np.tile(scatter + pseudo_count * np.outer(mean, mean), (j, 1, 1)),
        np.full(j, dof),
    )
    seen = Parameters(np.zeros(j), start, np.ones(j), start[:, :, None] * start[:, None, :], np.ones(j))
    current = plus(prior, seen)
    now, correct = current, False
    sites = [Parameters(np.zeros(j), np.zeros((j, d)), np.zeros(j), np.zeros((j, d, d)), np.zeros(j)) for _ in x]
    scales = np.zeros(len(x))
    data = [statistics(row, j) for row in x]
    evidence, skips = [], []
    for _ in range(passes):
        skipped = 0
        for n, datum in enumerate(data):
            cavity = plus(now, sites[n], -1.0)
            if not is_proper(cavity):
                skipped += 1
                continue
            fresh, log_scale = project(cavity, datum)
            sites[n] = plus(fresh, cavity, -1.0)
            scales[n] = log_scale + log_normaliser(cavity) - log_normaliser(fresh)
            now = fresh
        if not correct:
            corrected = plus(plus(now, current, -1.0), prior)
            if is_proper(corrected):
                now, current, correct = corrected, prior, True
        evidence.append(scales.sum() + log_normaliser(now) - log_normaliser(current))
        skips.append(skipped)
    return np.array(evidence), np.array(skips), now
