"""Passes over the factors of a Gaussian mixture on the CPU: Numba behind `sweep.py`, imported only when used.

A datum changes the scatter S = L Lᵀ of a Normal-Wishart (location m, count v, ν degrees of freedom) by a matrix of rank
one, and so does matching the moments of a mixture of the Normal-Wisharts with and without the datum. With u = x − m, w
= L⁻¹u, power α, v′ = v + α, ν′ = ν + α and D = (αv/v′) |w|², let κ = (1−r)ν + rν′ and τ = (1−r)ν + rν′/(1+D). Then the
mixture's moments are those of

    location m + λu, λ = αrν′/(v′(1+D)τ);   E[Λ]⁻¹ = (S + (κ−τ)/(τ|w|²) uuᵀ)/κ;   log|E Λ| = d log κ + log τ/κ − log|S|,

which needs one Cholesky factor per component and nothing else of order d³ (tests hold it equal to `projection.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ._host_gamma import (
    digamma_and_slope,
    inverse_wishart_gap,
    log_gamma,
    log_multigamma,
    trigamma_deficit,
    wishart_gap,
)

OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
LOG_2PI = math.log(2.0 * math.pi)
_LOG_2 = math.log(2.0)
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


@njit(nogil=True, cache=True, **OPTIONS)
def refresh(
    alpha: float,
    damping: float,
    limits: np.ndarray,
    x: np.ndarray,
    log_base: np.ndarray,
    live: np.ndarray,
    order: np.ndarray,
    log_weights: np.ndarray,
    dirichlet: bool,
    q: np.ndarray,
    sites: np.ndarray,
    scales: np.ndarray,
) -> int:
    """One pass of one restart, in place; returns how many factors were skipped.

    A row of `q` and of a site holds what belongs to a component: first (d), count, second (d × d), dof, and the
    weight's natural parameter. `limits` are the tolerance, the number of steps and the least rate of the search.
    """
    size, width = q.shape
    d = x.shape[1]
    cavity, fresh = np.empty((size, width)), np.empty((size, width))
    work, r = np.empty((size, 8 + 2 * d + d * d)), np.empty(size)
    bridge, target = np.empty((size, width)), np.empty((size, width))
    skipped = 0
    for step in range(len(order)):
        n = order[step]
        if not live[n]:
            continue
        site = sites[n]
        for k in range(size):
            for i in range(width):
                cavity[k, i] = q[k, i] - site[k, i]
        log_site = _project(
            alpha, limits, x[n], log_base[n], log_weights, dirichlet, q, cavity, bridge, target, work, r, fresh
        )
        if not math.isfinite(log_site):
            skipped += 1
            continue
        for k in range(size):
            for i in range(width):
                new = fresh[k, i] - cavity[k, i]
                site[k, i] = new + damping * (site[k, i] - new)
                q[k, i] = cavity[k, i] + site[k, i]
        scales[n] = log_site + damping * (scales[n] - log_site)
    return skipped


@njit(**OPTIONS)
def _project(
    alpha: float,
    limits: np.ndarray,
    x: np.ndarray,
    log_base: float,
    log_weights: np.ndarray,
    dirichlet: bool,
    q: np.ndarray,
    cavity: np.ndarray,
    bridge: np.ndarray,
    target: np.ndarray,
    work: np.ndarray,
    r: np.ndarray,
    fresh: np.ndarray,
) -> float:
    """Write the result of `projection.project` for 0 < α ≤ 1 to `fresh`; return ln s̃, or NaN if the cavity is
    improper."""
    size, width = q.shape
    tolerance, most, least_rate = limits
    rate, last, value, top = 1.0 / alpha, math.inf, math.nan, math.nan
    fresh[:] = q
    for _ in range(int(most)):
        for k in range(size):
            for i in range(width):
                bridge[k, i] = cavity[k, i] if alpha == 1.0 else fresh[k, i] + alpha * (cavity[k, i] - fresh[k, i])
        value, top = _tilt(alpha, x, log_base, log_weights, dirichlet, bridge, work, r)
        if not math.isfinite(value):
            return math.nan
        after = _match(alpha, dirichlet, fresh, bridge, x, work, r, target)
        if alpha == 1.0:  # exact in one step
            fresh[:] = target
            return top + value - after
        change = _relative_change(len(x), fresh, target)
        if not change > tolerance:
            break
        # A growing step has overshot, so damp more.
        if change > last:
            rate = max(0.5 * rate, least_rate)
        last = change
        for k in range(size):
            for i in range(width):
                bridge[k, i] = fresh[k, i] + rate * (target[k, i] - fresh[k, i])
        # Points beyond the target may be outside the domain; the target itself never is.
        inside = math.isfinite(_log_normaliser(len(x), dirichlet, bridge, work))
        fresh[:] = bridge if inside else target
    before = _log_normaliser(len(x), dirichlet, cavity, work)
    after = _log_normaliser(len(x), dirichlet, fresh, work)
    return (value - alpha * before - (1.0 - alpha) * after) / alpha + top + before - after


@njit(**OPTIONS)
def _relative_change(d: int, old: np.ndarray, new: np.ndarray) -> float:
    """The largest change of a natural parameter, relative to the largest of its kind."""
    bounds = (0, d, d + 1, d + 1 + d * d, d + 2 + d * d, d + 3 + d * d)
    worst = 0.0
    for kind in range(5):
        change, scale = 0.0, 1e-300
        for k in range(len(old)):
            for i in range(bounds[kind], bounds[kind + 1]):
                change = max(change, abs(new[k, i] - old[k, i]))
                scale = max(scale, abs(new[k, i]))
        worst = max(worst, change / scale)
    return worst


@njit(**OPTIONS)
def _factor(d: int, row: np.ndarray, work: np.ndarray) -> float:
    """Return log|S|, or NaN unless the row is proper; leave m in `work[8 : 8 + d]` and L in `work[8 + 2d :]`."""
    count = row[d]
    if not (count > 0.0 and row[d + 1 + d * d] > -1.0):
        return math.nan
    lower = 8 + 2 * d
    determinant, log_det = 1.0, 0.0
    for i in range(d):
        work[8 + i] = row[i] / count
        for j in range(i + 1):
            rest = row[d + 1 + i * d + j] - row[i] * work[8 + j]
            for k in range(j):
                rest -= work[lower + i * d + k] * work[lower + j * d + k]
            if i > j:
                work[lower + i * d + j] = rest / work[lower + j * d + j]
            elif rest > 0.0:
                work[lower + i * d + i] = math.sqrt(rest)
                determinant *= rest
                if i % 4 == 3 or not 1e-80 < determinant < 1e80:  # few logarithms, and nothing overflows
                    log_det += math.log(determinant)
                    determinant = 1.0
            else:
                return math.nan
    return log_det + math.log(determinant)


@njit(**OPTIONS)
def _component_normaliser(d: int, dof: float, count: float, log_det: float) -> float:
    wishart = 0.5 * dof * (d * _LOG_2 - log_det) + log_multigamma(0.5 * dof, d)
    return wishart + 0.5 * d * (LOG_2PI - math.log(count))


@njit(**OPTIONS)
def _weights_normaliser(q: np.ndarray) -> float:
    last = q.shape[1] - 1
    value, whole = 0.0, 0.0
    for k in range(len(q)):
        delta = q[k, last] + 1.0
        if not delta > 0.0:
            return math.nan
        value += log_gamma(delta)
        whole += delta
    return value - log_gamma(whole)


@njit(**OPTIONS)
def _log_normaliser(d: int, dirichlet: bool, q: np.ndarray, work: np.ndarray) -> float:
    value = _weights_normaliser(q) if dirichlet else 0.0
    for k in range(len(q)):
        log_det = _factor(d, q[k], work[k])
        value += _component_normaliser(d, q[k, d + 1 + d * d] + d, q[k, d], log_det)
    return value


@njit(**OPTIONS)
def _gamma_growth(dof: float, alpha: float, d: int) -> float:
    """log Γ_d((ν + α)/2) − log Γ_d(ν/2)."""
    if alpha != 1.0:
        return log_multigamma(0.5 * (dof + alpha), d) - log_multigamma(0.5 * dof, d)
    # Γ(y + d/2)/Γ(y): whole steps are a product.
    y = 0.5 * (dof + 1.0 - d)
    odd = 0.0
    if d % 2:
        odd = log_gamma(y + 0.5) - log_gamma(y)
        y += 0.5
    product = 1.0
    for i in range(d // 2):
        product *= y + i
    return odd + math.log(product)


@njit(**OPTIONS)
def _tilt(
    alpha: float,
    x: np.ndarray,
    log_base: float,
    log_weights: np.ndarray,
    dirichlet: bool,
    q: np.ndarray,
    work: np.ndarray,
    r: np.ndarray,
) -> tuple[float, float]:
    """Return A(η̂) and log Σ_k R_k^(1/α), NaN where η̂ is improper; leave the components' shares of the datum in `r`.

    Leaves in `work`: |w|², D, ν, v, log|S|, log(1 + D).
    """
    size, d = len(q), len(x)
    last, lower = q.shape[1] - 1, 8 + 2 * d
    value, whole, growth = 0.0, 0.0, 0.0
    if dirichlet:
        value = _weights_normaliser(q)
        for k in range(size):
            whole += q[k, last] + 1.0
        growth = math.log(whole) if alpha == 1.0 else log_gamma(whole + alpha) - log_gamma(whole)
    for k in range(size):
        row = work[k]
        log_det = _factor(d, q[k], row)
        count, dof = q[k, d], q[k, d + 1 + d * d] + d
        square = 0.0
        for i in range(d):
            rest = x[i] - row[8 + i]
            for j in range(i):
                rest -= row[lower + i * d + j] * row[8 + d + j]
            rest /= row[lower + i * d + i]
            row[8 + d + i] = rest
            square += rest * rest
        distance = alpha * count / (count + alpha) * square
        grown = math.log1p(distance)
        row[0], row[1], row[2], row[3], row[4], row[5] = square, distance, dof, count, log_det, grown
        value += _component_normaliser(d, dof, count, log_det)
        # A(η̂ + αT) − A(η̂) + α log h
        gained = 0.5 * alpha * (d * _LOG_2 - log_det) - 0.5 * (dof + alpha) * grown
        gained += _gamma_growth(dof, alpha, d) - 0.5 * d * math.log1p(alpha / count) + alpha * log_base
        if not dirichlet:
            gained += alpha * log_weights[k]
        elif alpha == 1.0:
            gained += math.log(q[k, last] + 1.0) - growth
        else:
            delta = q[k, last] + 1.0
            gained += log_gamma(delta + alpha) - log_gamma(delta) - growth
        r[k] = gained / alpha
    top = r[0]
    for k in range(1, size):
        top = max(top, r[k])
    total = 0.0
    for k in range(size):
        r[k] = math.exp(r[k] - top)
        total += r[k]
    for k in range(size):
        r[k] /= total
    return value, top + math.log(total)


@njit(**OPTIONS)
def _match(
    alpha: float,
    dirichlet: bool,
    current: np.ndarray,
    q: np.ndarray,
    x: np.ndarray,
    work: np.ndarray,
    r: np.ndarray,
    out: np.ndarray,
) -> float:
    """Write the member with the moments of the mixture from `_tilt` to `out`; returns its log normaliser."""
    size, d = len(q), len(x)
    value = 0.0
    if dirichlet:
        _match_weights(alpha, current, q, r, out)
        value = _weights_normaliser(out)
    for k in range(size):
        square, distance, dof, count, log_det, grown = work[k, :6]
        share = r[k]
        kappa = dof + share * alpha
        kept = (1.0 - share) * dof + share * (dof + alpha) / (1.0 + distance)  # τ
        lost = share * (dof + alpha) * distance / (1.0 + distance)  # κ − τ
        log_kept = math.log1p(-lost / kappa) if lost < 0.5 * kappa else math.log(kept / kappa)
        gap = wishart_gap(dof, d)[0] + d * math.log1p(share * alpha / dof) + log_kept + share * grown
        gap -= share * _digamma_growth(dof, alpha, d)
        new_dof = inverse_wishart_gap(gap, d, kappa)
        move = share * (dof + alpha) * alpha / ((count + alpha) * (1.0 + distance) * kept)  # λ
        beyond = alpha / (count + alpha) - move
        spread = (1.0 - share) * (d / count + dof * move * move * square)
        spread += share * (d / (count + alpha) + (dof + alpha) * beyond * beyond * square / (1.0 + distance))
        new_count = d / spread
        widened = lost / (kept * square) if square > 0.0 else 0.0
        scale = new_dof / kappa
        for i in range(d):
            left = x[i] - work[k, 8 + i]
            place = work[k, 8 + i] + move * left
            out[k, i] = new_count * place
            for j in range(i + 1):
                right = x[j] - work[k, 8 + j]
                old = q[k, d + 1 + i * d + j] - q[k, i] * work[k, 8 + j]
                entry = scale * (old + widened * left * right)
                entry += new_count * place * (work[k, 8 + j] + move * right)
                out[k, d + 1 + i * d + j] = entry
                out[k, d + 1 + j * d + i] = entry
        out[k, d] = new_count
        out[k, d + 1 + d * d] = new_dof - d
        new_log_det = d * math.log(scale) + log_det - log_kept
        value += _component_normaliser(d, new_dof, new_count, new_log_det)
    return value


@njit(**OPTIONS)
def _digamma_growth(dof: float, alpha: float, d: int) -> float:
    """E log|Λ| at ν + α, less E log|Λ| at ν: twice the derivative of `_gamma_growth`."""
    if alpha != 1.0 or d % 2:
        return d * math.log1p(alpha / dof) - wishart_gap(dof + alpha, d)[0] + wishart_gap(dof, d)[0]
    y, growth = 0.5 * (dof + 1.0 - d), 0.0
    for i in range(d // 2):
        growth += 1.0 / (y + i)
    return growth


@njit(**OPTIONS)
def _match_weights(alpha: float, current: np.ndarray, q: np.ndarray, r: np.ndarray, out: np.ndarray) -> None:
    """δ with ψ(δ_k) − ψ(Σδ) = (1 − r_k)ψ(δ̂_k) + r_k ψ(δ̂_k + α) − ψ(Σδ̂ + α), by Newton as in `match_log_mean`."""
    size, last = len(q), q.shape[1] - 1
    if size == 1:
        out[0, last] = current[0, last]  # π = 1 whatever its concentration
        return
    target, delta = np.empty(size), np.empty(size)
    residual, slope = np.empty(size), np.empty(size)
    whole = 0.0
    for k in range(size):
        old = q[k, last] + 1.0
        below = digamma_and_slope(old)[0]
        above = below + 1.0 / old if alpha == 1.0 else digamma_and_slope(old + alpha)[0]
        target[k] = (1.0 - r[k]) * below + r[k] * above
        delta[k] = old + alpha * r[k]  # a start whose total is Σδ̂ + α
        whole += old
    psi_target = digamma_and_slope(whole + alpha)[0]
    for _ in range(100):
        whole = 0.0
        for k in range(size):
            whole += delta[k]
        psi_whole, slope_whole = digamma_and_slope(whole)
        denominator, together, worst = -trigamma_deficit(whole, slope_whole), 0.0, 0.0
        for k in range(size):
            psi, slope[k] = digamma_and_slope(delta[k])
            residual[k] = (psi - target[k]) - (psi_whole - psi_target)
            worst = max(worst, abs(residual[k]) / (1.0 + abs(psi) + abs(psi_whole)))
            denominator += trigamma_deficit(delta[k], slope[k])
            together += residual[k] / slope[k]
        change = 0.0
        for k in range(size):
            step = (residual[k] + together / denominator) / slope[k]
            # Newton cannot leave the domain.
            moved = min(max(delta[k] - step, 0.25 * delta[k]), 16.0 * delta[k] + 1.0)
            change = max(change, abs(moved - delta[k]) / delta[k])
            delta[k] = moved
        if not (change > 1e-9 and worst > _ROUNDING):
            break
    for k in range(size):
        out[k, last] = delta[k] - 1.0
