"""The conditionals p(θ | z, x) of many draws of the labels, as one density, for small Gaussian mixtures in NumPy.

    q(θ) = 1/S Σ_s 1/K! Σ_σ p(θ_σ | z_s, x)

is close to the posterior if the z_s are draws from the posterior of the labels (Frühwirth-Schnatter, 2004). Where
components can change places, the sum over their orders σ is a permanent, computed as a sum over subsets in which all
terms are positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..numerics.host import log_gamma, logsumexp
from ..numerics.streams import Streams
from ..numerics.threads import in_threads
from .small_mixture import _normal_wishart
from .small_tempered import Drawn, Levels, Problem, _least, draw_given

MOST = 7  # most components: the permanent takes K 2ᴷ steps
_DRAWS = 64  # draws whose density is worked out at a time


class Conditionals(NamedTuple):
    """The parameters' posteriors given each of S assignments."""

    natural: tuple[np.ndarray, ...]  # of the components (s, k, …)
    delta: np.ndarray | None  # of the weights (s, k); None where they are known
    known: np.ndarray | None
    symmetric: bool  # whether components can change places

    def draw(self, streams: Streams, index: np.ndarray) -> Drawn:
        """One draw from each conditional in `index`, which lists equally many conditionals for each stream."""
        delta = None if self.delta is None else self.delta[index]
        return draw_given(streams, tuple(leaf[index] for leaf in self.natural), self.known, delta)

    def log_prob(self, drawn: Drawn) -> np.ndarray:
        """log q(θ) of each draw."""
        return self.log_probs(drawn, 1)[:, 0]

    def log_probs(self, drawn: Drawn, parts: int) -> np.ndarray:
        """log q(θ) of each draw under each of `parts` equal parts of the S assignments, (draw, part)."""
        table, constant = self._table()
        (b, k, _), found = drawn.mean.shape, np.empty((len(drawn.mean), parts))
        square, log_det, log_weights = -0.5 * drawn.square, 0.5 * drawn.log_det, np.log(_least(drawn.weights))
        pieces = [
            drawn.linear,
            square,
            -0.5 * drawn.precision.reshape((b, k, -1)),
            log_det,
            log_weights,
            np.ones((b, k)),
        ]
        features = np.concatenate([each.reshape((b, k, -1)) for each in pieces], axis=2)

        def piece(first: int, last: int) -> None:
            with np.errstate(all="ignore"):
                pairs = (features[first:last].reshape((-1, features.shape[2])) @ table).reshape(
                    (last - first, k, k, -1)
                )
                logs = _log_permanent(pairs) if self.symmetric else np.einsum("bkks->bs", pairs)
                found[first:last] = logsumexp((logs + constant).reshape((last - first, parts, -1)), axis=2)

        in_threads(piece, b, _DRAWS)
        return found - math.log(len(constant) // parts)

    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (feature, k s) of log p(θ_j | z_s), less a constant for each k and s so that the largest are
        near 0, and the sum of these constants (s,)."""
        first, count, second, dof = self.natural
        size, k = count.shape
        delta = np.ones((size, k)) if self.delta is None else self.delta
        share = (delta - 1.0) * np.log(delta / delta.sum(axis=1, keepdims=True))
        constant = share.sum(axis=1) - (math.lgamma(k + 1) if self.symmetric else 0.0)
        if self.delta is not None:
            constant = constant + log_gamma(delta.sum(axis=1)) - log_gamma(delta).sum(axis=1)
        own = -_normal_wishart(*self.natural)[0] - share
        parts = [first, count, second, dof, delta - 1.0, own]
        every = np.concatenate([part.reshape((size, k, -1)) for part in parts], axis=2)
        return np.moveaxis(every, (0, 1, 2), (2, 1, 0)).reshape((-1, k * size)), constant


def conditionals(problem: Problem, streams: Streams, drawn: Drawn, levels: Levels, symmetric: bool) -> Conditionals:
    """The conditionals given labels that are drawn anew for each of these parameter draws."""
    tallies = problem.tallies(streams, drawn, levels, np.ones(len(drawn.mean)))
    delta = None if problem.delta is None else problem.delta + tallies[..., 0]
    return Conditionals(problem.posterior(tallies), delta, problem.known, symmetric)


def _log_permanent(pairs: np.ndarray) -> np.ndarray:
    """log Σ_σ Π_j exp(pairs[b, j, σ(j), s]) for each b and s, in single precision after the largest entry of each row
    is taken out."""
    k = pairs.shape[1]
    top = pairs.max(axis=2, keepdims=True)
    terms = np.exp((pairs - top).astype(np.float32))
    sums: dict[int, np.ndarray | np.float32] = {0: np.float32(1.0)}
    for row in range(k):
        rest, sums = sums, {}
        for taken, value in rest.items():
            for column in range(k):
                if not taken >> column & 1:
                    here, more = taken | 1 << column, value * terms[:, row, column]
                    sums[here] = sums[here] + more if here in sums else more
    return np.log(sums[2**k - 1]) + top.sum(axis=(1, 2))
