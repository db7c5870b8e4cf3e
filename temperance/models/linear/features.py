"""Features of a regression: the columns themselves, polynomials of them, or a function of the user's.

A shared prior on the weights means something only once the features have comparable sizes, and a comparison
of polynomial orders only once adding a power leaves the others alone. So the default polynomials are
orthonormal over the data; powers of x as they stand, and of x on [−1, 1], are there to be compared with.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._module import Module
from ...errors import InvalidData, InvalidParameter

BASES = ("orthonormal", "monomial", "scaled")


class Features(Module):
    """φ(x), without the intercept."""

    @abstractmethod
    def complete(self, x: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Self:
        """The features with what they take from the data they are fitted to (never from the targets)."""

    @abstractmethod
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]: ...


class Columns(Features):
    """The columns of X as they are."""

    def complete(self, x: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Self:
        return self

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        return x


class UserFeatures(Features):
    """A function from the rows of X to rows of features."""

    function: Callable[[Any], Any] = eqx.field(static=True)

    def complete(self, x: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Self:
        return self

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        try:
            rows = np.asarray(self.function(x), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidData(f"the features function failed on X of shape {x.shape}: {error}") from error
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[0] != x.shape[0]:
            raise InvalidData(
                f"the features function must return a row for each of the {x.shape[0]} rows of X, "
                f"got shape {rows.shape}"
            )
        return rows


class Polynomial(Features):
    """Powers 1 … `degree` of each column of X (no products of columns; the constant is the intercept).

    `basis` is "orthonormal" (over the fitted rows: mean zero, mean square one, uncorrelated within a column
    of X), "monomial" (x, x², … as they are) or "scaled" (the same of x mapped to [−1, 1]).
    """

    degree: int = eqx.field(static=True)
    basis: str = eqx.field(static=True)
    centre: Float[Array, " d"] | None
    width: Float[Array, " d"] | None
    shifts: Float[Array, "degree d"] | None  # the three-term recurrence of the orthonormal polynomials
    norms: Float[Array, "degree d"] | None

    def __init__(self, degree: int, basis: str = "orthonormal"):
        if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < 0:
            raise InvalidParameter(f"degree must be a whole number of at least 0, got {degree!r}")
        if basis not in BASES:
            raise InvalidParameter(f"basis must be one of {', '.join(map(repr, BASES))}, got {basis!r}")
        self.degree, self.basis = int(degree), basis
        self.centre = self.width = self.shifts = self.norms = None

    def complete(self, x: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Self:
        seen = x[weights > 0]
        low, high = seen.min(axis=0), seen.max(axis=0)
        if self.basis == "monomial":
            centre, width = np.zeros_like(low), np.ones_like(low)
        else:
            centre, width = 0.5 * (low + high), np.where(high > low, 0.5 * (high - low), 1.0)
        shifts, norms = np.zeros((2, self.degree, x.shape[1]))
        if self.basis == "orthonormal":
            self._require_distinct(seen)
            shifts, norms = recurrence((x - centre) / width, weights, self.degree)
        return eqx.tree_at(
            lambda p: (p.centre, p.width, p.shifts, p.norms),
            self,
            tuple(map(jnp.asarray, (centre, width, shifts, norms))),
            is_leaf=lambda leaf: leaf is None,
        )

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        """Column by column of X, each with its powers in rising order."""
        u = (x - np.asarray(self.centre)) / np.asarray(self.width)
        if self.basis == "orthonormal":
            powers = evaluate(u, np.asarray(self.shifts), np.asarray(self.norms))
        else:
            powers = u[None] ** np.arange(1, self.degree + 1)[:, None, None]
        return np.moveaxis(powers, 0, 2).reshape(x.shape[0], -1)

    def _require_distinct(self, x: Float[np.ndarray, "n d"]) -> None:
        for column in range(x.shape[1]):
            distinct = np.unique(x[:, column]).size
            if distinct <= self.degree:
                raise InvalidData(
                    f"orthonormal polynomials of degree {self.degree} need at least {self.degree + 1} "
                    f"different values in column {column} of X, found {distinct}; lower the degree "
                    'or use basis="monomial"'
                )


def recurrence(
    u: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"], degree: int
) -> tuple[Float[np.ndarray, "degree d"], Float[np.ndarray, "degree d"]]:
    """Stieltjes' coefficients of norm_k p_k = (u − shift_k) p_{k−1} − norm_{k−1} p_{k−2}, mean(p_k²) = 1."""
    share = (weights / weights.sum())[:, None]
    shifts, norms = np.zeros((2, degree, u.shape[1]))
    older, old = np.zeros_like(u), np.ones_like(u)
    for k in range(degree):
        shifts[k] = np.sum(share * u * old**2, axis=0)
        new = (u - shifts[k]) * old - (norms[k - 1] if k else 0.0) * older
        norms[k] = np.sqrt(np.sum(share * new**2, axis=0))
        older, old = old, new / norms[k]
    return shifts, norms


def evaluate(
    u: Float[np.ndarray, "n d"], shifts: Float[np.ndarray, "degree d"], norms: Float[np.ndarray, "degree d"]
) -> Float[np.ndarray, "degree n d"]:
    """The orthonormal polynomials 1 … degree at u."""
    older, old = np.zeros_like(u), np.ones_like(u)
    powers = np.zeros((len(shifts), *u.shape))
    for k in range(len(shifts)):
        older, old = old, ((u - shifts[k]) * old - (norms[k - 1] if k else 0.0) * older) / norms[k]
        powers[k] = old
    return powers


def as_features(features: Any) -> Features:
    if features is None:
        return Columns()
    if isinstance(features, Features):
        return features
    if callable(features):
        return UserFeatures(features)
    raise InvalidParameter(
        f"features must be tp.Polynomial(degree), a function of X, or None for the columns as they are, "
        f"got {features!r}"
    )
