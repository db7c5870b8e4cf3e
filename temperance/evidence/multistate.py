"""All temperatures at once (MBAR; Shirts and Chodera, 2008), from the energies of every draw at every temperature.

A draw at any temperature counts as a draw from the mixture Σ_l p_l/K, so that

    log Z_l = log Σ_{k,i} exp U_l(θ_ki) / Σ_m exp{U_m(θ_ki) − log Z_m}    (as many draws at each temperature)

whose solution has the least variance that the draws allow. Bennett's ratio is the case of two temperatures.
"""

from __future__ import annotations

import numpy as np

from ..numerics.host import logsumexp
from .reweighting import log_ratios
from .tempered import Estimate, linearised

_TOLERANCE = 1e-9


def multistate(energies: np.ndarray, log_start: float = 0.0) -> Estimate:
    """log p(x) from `energies` (draw, k, l): U(θ, β_l) of the state of temperature k, with its standard error."""
    draws, size, _ = energies.shape
    log_z, shares = solve(energies)
    # The estimate solves Σ (W_l − 1/K) = 0; to first order its error is −J⁻¹ times the average of these terms.
    gap = shares.reshape((draws, size, size)).mean(axis=1) - 1.0 / size
    influence = np.zeros((draws, size))
    influence[:, 1:] = _newton(shares, gap[:, 1:].T * len(shares)).T  # log Z_0 is known
    return linearised(log_start + log_z[-1] - log_z[0], influence[:, -1])


def solve(energies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log Z of every temperature, the first zero, and W (draw, l): the posterior of the temperature, given the draw.

    Newton steps on a convex function, halved until the function falls. They start from Bennett's ratios, because far
    from the solution the function is flat, and all W are zero or one.
    """
    size = energies.shape[1]
    step = np.diff(energies, axis=2)
    pairs = np.arange(size - 1)
    start = np.concatenate([[0.0], np.cumsum(log_ratios(step[:, pairs, pairs], step[:, pairs + 1, pairs]))])
    offset = energies.reshape((-1, size)) - start
    first = np.exp(offset - logsumexp(offset, axis=1, keepdims=True))

    def objective(change: np.ndarray) -> float:
        """A convex function whose minimum solves the equations for log Z."""
        return float(np.sum(np.log(first @ np.exp(-change))) + len(first) / size * np.sum(change))

    change = np.zeros(size)
    for _ in range(100):
        shares = _reweighted(first, change)
        direction = np.zeros(size)
        direction[1:] = _newton(shares, shares.sum(axis=0)[1:] - len(shares) / size)
        before, scale = objective(change), 1.0
        while not objective(change + scale * direction) <= before + 1e-12 * abs(before) and scale > 1e-6:
            scale *= 0.5
        change = change + scale * direction
        if np.max(np.abs(direction)) < _TOLERANCE:
            break
    return start + change, _reweighted(first, change)


def _reweighted(first: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The posterior of the temperatures after their log Z have changed."""
    shares = first * np.exp(-change)
    return shares / shares.sum(axis=1, keepdims=True)


def _newton(shares: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The curvature's inverse times the gradient, of all but the first temperature."""
    curvature = np.diag(shares.sum(axis=0)) - shares.T @ shares
    return np.linalg.lstsq(curvature[1:, 1:], gradient, rcond=1e-12)[0]
