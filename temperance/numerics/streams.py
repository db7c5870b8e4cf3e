"""Random numbers in NumPy for all restarts of a run at once, each from a stream of its own.

SplitMix64 (Steele, Lea & Flood, 2014): the i-th number of a stream is a hash of its seed and i, so that the numbers of
a restart do not depend on which others run beside it, and many streams are one array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .keys import hashes

_STEP, _FIRST, _SECOND = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_REJECTION = 2**24  # places in a stream kept for one call that rejects


def seeds(keys: np.ndarray, first: int, last: int) -> np.ndarray:
    """Seeds (t, r): from keys (r, 2), of each restart's stream at each of the steps from `first` to `last`."""
    words = hashes(keys, np.arange(first, last)).astype(np.uint64)
    return ((words[..., 0] << np.uint64(32)) | words[..., 1]).T


class Streams:
    """What has been drawn from streams with these seeds (r,)."""

    def __init__(self, seeds: np.ndarray):
        self.seeds, self.used = seeds, 0

    def uniform(self, *shape: int) -> np.ndarray:
        """On (0, 1), without its ends; (r, *shape)."""
        count = math.prod(shape)
        self.used += count
        return self._at(np.arange(self.used - count, self.used)).reshape((-1, *shape))

    def _at(self, places: np.ndarray) -> np.ndarray:
        """The numbers at these places of each stream; (r, *shape of the places)."""
        x = self.seeds.reshape((-1,) + (1,) * places.ndim) + (places.astype(np.uint64) + np.uint64(1)) * _STEP
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            x ^= x >> np.uint64(shift)
            x *= factor
        x ^= x >> np.uint64(31)
        x >>= np.uint64(12)
        found = x.astype(np.float64)
        found += 0.5
        found *= 2.0**-52
        return found

    def normal(self, *shape: int) -> np.ndarray:
        """Standard normal numbers (r, *shape), by the method of Box and Muller."""
        return _normal(self.uniform(2, *shape))

    def log_gamma(self, shape: np.ndarray) -> np.ndarray:
        """The logarithm of Gamma(shape, 1) variables, one stream per row, as `log_gamma_variate` of
        `numerics/random.py` draws them."""
        began, self.used = self.used, self.used + _REJECTION  # however many draws were rejected
        return self._log_gammas([shape.reshape((len(shape), -1))], [began])[0].reshape(shape.shape)

    def gammas_and_normals(self, shapes: Sequence[np.ndarray], *normals: int) -> tuple[list[np.ndarray], np.ndarray]:
        """`log_gamma` of the first of the shapes (r, m), `normal`, and `log_gamma` of the other shapes."""
        began = [self.used]
        self.used += _REJECTION
        drawn = self.normal(*normals)
        for _ in shapes[1:]:
            began.append(self.used)
            self.used += _REJECTION
        return self._log_gammas(shapes, began), drawn

    def _log_gammas(self, shapes: Sequence[np.ndarray], began: Sequence[int]) -> list[np.ndarray]:
        """All at once: most of the time goes to calls of NumPy. Their numbers begin at these places in the stream."""
        widths = [shape.shape[1] for shape in shapes]
        shape, every = np.concatenate(shapes, axis=1), np.repeat(widths, widths)
        start = np.concatenate([first + np.arange(width) for first, width in zip(began, widths, strict=True)])
        d = shape + 2.0 / 3.0  # of Gamma(shape + 1): G(a) = G(a + 1) U^(1/a)
        c = 1.0 / np.sqrt(9.0 * d)
        value = np.full(shape.shape, np.nan)
        left = (shape > 0.0) & (shape < np.inf)
        while left.any():
            drawn = self._at(start + np.arange(4)[:, None] * every)
            start = start + 4 * every
            x, logs = _normal(drawn), np.log(drawn[:, 2:])
            root = 1.0 + c * x
            log_v = 3.0 * np.log(np.maximum(root, np.finfo(np.float64).tiny))
            accept = left & (root > 0) & (logs[:, 0] < 0.5 * x * x + d * (1.0 - np.exp(log_v) + log_v))
            value = np.where(accept, np.log(d) + log_v + logs[:, 1] / shape, value)
            left &= ~accept
        return np.split(value, np.cumsum(widths)[:-1], axis=1)


def _normal(uniform: np.ndarray) -> np.ndarray:
    """Of the first two of each row."""
    return np.sqrt(-2.0 * np.log(uniform[:, 0])) * np.cos(2.0 * math.pi * uniform[:, 1])
