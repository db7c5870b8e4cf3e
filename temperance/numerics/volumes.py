"""log ∫ p^s of tempered densities in closed form, and how far an error in this volume moves a temperature.

A variance with a prior of its own makes the volume infinite, because the integral over tempered tails diverges.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..errors import UnsupportedMethod
from .host import log_beta, log_gamma, logsumexp
from .special import LOG_2PI

STABLE = 0.02  # how far the implied temperature may move when the samples are halved

Power = Float[Array, ""]
MaybeKey = Key[Array, ""] | None


def infinite(what: str) -> UnsupportedMethod:
    return UnsupportedMethod(
        f"tp.VT needs known {what}: with a prior on a variance the tempered normaliser is infinite; use tp.Annealed"
    )


def gaussian_volume(power: Power) -> Float[Array, ""]:
    """log ∫ N(x | μ, 1)^power dx."""
    return 0.5 * ((1.0 - power) * LOG_2PI - jnp.log(power))


def gaussian_volumes(powers: np.ndarray, d: int, log_determinant: float) -> np.ndarray:
    """log ∫ N(x | μ, Σ)^s dx."""
    return 0.5 * ((1.0 - powers) * (d * np.log(2.0 * np.pi) + log_determinant) - d * np.log(powers))


def known_switches(p: np.ndarray, n: int, powers: np.ndarray) -> np.ndarray:
    """n Σ_k log(π_k^s + (1 − π_k)^s)."""
    return n * np.logaddexp(powers[:, None] * np.log(p), powers[:, None] * np.log1p(-p)).sum(axis=1)


def learned_switches(a: np.ndarray, b: np.ndarray, n: int, powers: np.ndarray) -> np.ndarray:
    """Σ_k log E(π_k^s + (1 − π_k)^s)^n under Beta(a_k, b_k), by the binomial theorem."""
    on = np.arange(n + 1)
    choose = log_gamma(n + 1) - log_gamma(on + 1) - log_gamma(n - on + 1)

    def at(power: float) -> float:
        moments = log_beta(a[:, None] + power * on, b[:, None] + power * (n - on)) - log_beta(a, b)[:, None]
        return float(logsumexp(choose + moments, axis=1).sum())

    return np.array([at(power) for power in powers])


# ---- whether samples are enough ------------------------------------------------------------------------------------


def moved(powers: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """The largest relative change of E[T], over energies for which each temperature in turn is the best."""
    energies = np.gradient(one, powers)

    def implied(log_c: np.ndarray) -> np.ndarray:
        logits = energies[:, None] * powers[None] - log_c[None]
        r = np.exp(logits - logsumexp(logits, axis=1)[:, None])
        return r @ (1.0 / powers)

    return float(np.max(np.abs(implied(other) / implied(one) - 1.0)))


def shift(powers: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """The relative shift of a best temperature that lies between those of the grid: the difference between the slopes
    of both estimates of log C, divided by the rate at which the slope changes."""
    if len(powers) < 3:
        return moved(powers, one, other)
    slope = np.gradient(one, powers)
    apart = (np.gradient(other, powers) - slope) / np.gradient(slope, powers) / powers
    return float(np.max(np.abs(apart[1:-1])))
