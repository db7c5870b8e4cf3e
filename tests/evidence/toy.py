"""A path with a known answer: θ ~ N(0, s²), x_n ~ N(θ, 1), whose tempered posteriors are Gaussian."""

from __future__ import annotations

import numpy as np

from temperance.evidence.tempered import Tempered

SPREAD = 3.0
X = np.array([1.3, 0.2, 2.1, 0.9])


def log_likelihood(theta: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum(np.square(X - theta[..., None]) + np.log(2 * np.pi), axis=-1)


def moments(beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the tempered posterior."""
    precision = SPREAD**-2 + beta * len(X)
    return beta * X.sum() / precision, 1.0 / precision


def log_evidence(beta: float = 1.0) -> float:
    """log Z(β)."""
    mean, variance = moments(np.asarray(beta))
    square = np.square(X).sum()
    return float(
        -0.5 * beta * (square + len(X) * np.log(2 * np.pi))
        + 0.5 * mean**2 / variance
        + 0.5 * np.log(variance / SPREAD**2)
    )


def average(beta: np.ndarray) -> np.ndarray:
    """E_β[log p(x | θ)], the derivative of log Z."""
    mean, variance = moments(beta)
    constant = -0.5 * (np.square(X).sum() + len(X) * np.log(2 * np.pi))
    return constant + mean * X.sum() - 0.5 * len(X) * (mean**2 + variance)


def ladder(rng: np.random.Generator, betas: np.ndarray, draws: int, memory: float = 0.0) -> Tempered:
    """Stationary autoregressive chains, one for each temperature."""
    mean, variance = moments(betas)
    noise = rng.normal(size=(draws, len(betas)))
    theta = np.empty_like(noise)
    theta[0] = noise[0]
    for step in range(1, draws):
        theta[step] = memory * theta[step - 1] + np.sqrt(1 - memory**2) * noise[step]
    energy = log_likelihood(mean + np.sqrt(variance) * theta)
    steps = np.diff(betas)
    return Tempered(betas, steps * energy[:, :-1], steps * energy[:, 1:], energy)
