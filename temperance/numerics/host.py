"""Special functions of NumPy arrays, and LAPACK: what a first fit needs of SciPy, without the time to import it."""

from __future__ import annotations

import functools
import math
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import numpy as np

_SHIFT = 8
# B₂ₖ/2k and B₂ₖ/2k(2k−1): the asymptotic series reach rounding error from an argument of 8 on.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
DIGAMMA = tuple(number / (2 * k + 2) for k, number in enumerate(BERNOULLI))
STIRLING = tuple(number / ((2 * k + 2) * (2 * k + 1)) for k, number in enumerate(BERNOULLI))


def logsumexp(values: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """log Σ exp(values) along `axis`; −∞ where all values are −∞."""
    values = np.asarray(values, dtype=np.float64)
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found = top + np.log(np.exp(values - top).sum(axis=axis, keepdims=True))
    return found if keepdims else found.squeeze(axis=axis)[()]


def softmax(values: Any, axis: int) -> np.ndarray:
    terms = np.exp(values - np.max(values, axis=axis, keepdims=True))
    return np.asarray(terms / terms.sum(axis=axis, keepdims=True))


def expit(x: Any) -> Any:
    """1/(1 + e⁻ˣ), without an overflow on either side."""
    small = np.exp(-np.abs(x))
    return np.where(np.asarray(x) >= 0, 1.0, small) / (1.0 + small)


def log_gamma(x: Any) -> Any:
    """log Γ(x) for x > 0, by Stirling's series; for x below 8, log Γ(x + 8) less the logarithm of x(x+1)…(x+7)."""
    x = np.asarray(x, dtype=np.float64)
    small = x < _SHIFT
    u = np.where(small, x, 0.0)
    u = u * (u + 7.0)
    product = np.where(small, u * (u + 6.0) * (u + 10.0) * (u + 12.0), 1.0)
    z = np.where(small, x + _SHIFT, x)
    y = 1.0 / z
    tail = series(STIRLING, y * y)
    return ((z - 0.5) * np.log(z) - z + 0.5 * math.log(2.0 * math.pi) + y * tail - np.log(product))[()]


def log_beta(a: Any, b: Any) -> Any:
    return log_gamma(a) + log_gamma(b) - log_gamma(np.add(a, b))


def digamma(x: Any) -> Any:
    """ψ(x) = ψ(x+8) − Σ_{i<8} 1/(x+i) for x > 0, the terms of the sum added in pairs."""
    x = np.asarray(x, dtype=np.float64)
    near = np.minimum(x, 1e17)  # beyond it the sum is below rounding error
    u = near * (near + 7.0)
    pairs = (2.0 * u + 6.0) / (u * (u + 6.0)) + (2.0 * u + 22.0) / ((u + 10.0) * (u + 12.0))
    y = 1.0 / (x + _SHIFT)
    square = y * y
    tail = square * series(DIGAMMA, square)
    return (np.log(x + _SHIFT) - 0.5 * y - tail - (2.0 * near + 7.0) * pairs)[()]


def series(coefficients: tuple[float, ...], square: Any) -> Any:
    """Σ_k c_k sᵏ with s = `square`, for arrays of NumPy or of JAX."""
    *others, total = coefficients
    for coefficient in reversed(others):
        total = coefficient + square * total
    return total


@functools.cache
def lapack() -> Any:
    """SciPy's LAPACK by its one extension module: the rest of `scipy.linalg` takes longer to import than a short series
    to fit."""
    import scipy

    found = PathFinder.find_spec("scipy.linalg._flapack", [str(Path(scipy.__file__).parent / "linalg")])
    if found is None or found.loader is None:  # SciPy keeps it elsewhere
        from scipy.linalg import lapack

        return lapack
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module
