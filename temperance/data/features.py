"""From the inputs of a regression to the rows of its design: checks, features, and the coordinates of the computation.

    φ(x) → (φ(x) − centre) / width,    y → y − target,    w = matrix · z + offset

Features are the columns themselves, polynomials of them, or a function of the user's. A shared prior on the weights
means something only once the features have comparable sizes, and a comparison of polynomial orders only once adding a
power leaves the others alone. So the default polynomials are orthonormal over the data; powers of x as they are, and of
x on [−1, 1], are provided for comparison.

Features and targets are centred and features scaled, because the quadratic statistics of raw rows lose digits when
inputs or targets are far from zero. The change is linear in the weights, so it is undone exactly, and the prior is
carried along with it: the model stays the user's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._module import Module
from ..errors import InvalidData, InvalidParameter
from ..families.normal import NormalVector
from ..numerics.place import on_device
from . import as_matrix
from .arrays import as_numbers, within

BASES = ("orthonormal", "monomial", "scaled")
LARGEST = 1e120  # the squares of the inputs must be finite
_PIECE = 2**18  # bytes at a time, so that intermediate results stay in the cache


class Rows(NamedTuple):
    """The contents of `Data.values`: standardised features (with a column of ones for an intercept) and centred
    targets."""

    features: Any  # (n, p)
    target: Any  # (n,)

    @property
    def offset(self) -> Any:
        """Known terms of the linear predictor: none, so 0."""
        return np.zeros(1) * self.target


def as_inputs(data: Any, name: str = "X") -> np.ndarray:
    """A finite matrix with one row for each datum."""
    array = as_numbers(data, name)
    if array.ndim == 2 and array.size and within(array, LARGEST):
        return array
    array = as_matrix(data, missing=True, name=name)
    if within(array, LARGEST):
        return array
    if np.isnan(array).any():
        row, column = np.argwhere(np.isnan(array))[0]
        raise InvalidData(f"{name} has a missing value (row {row}, column {column}): drop or fill it")
    raise InvalidData(f"{name} must be at most {LARGEST:g} in size, got {np.abs(array).max():g}: rescale it")


def as_inputs_and_targets(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """A matrix X and a vector y of the same length, both finite, from a pair (X, y)."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        found = f"{len(data)} things" if isinstance(data, tuple | list) else f"one {type(data).__name__}"
        raise InvalidData(f"data must be a pair (X, y) of inputs and targets, got {found}")
    x, y = as_inputs(data[0]), as_inputs(data[1], "y")
    if y.shape[1] != 1:
        raise InvalidData(f"y must be one number for each row of X, got shape {y.shape}")
    if x.shape[0] != y.shape[0]:
        raise InvalidData(f"X and y must have the same number of rows, got {x.shape[0]} and {y.shape[0]}")
    return x, y[:, 0]


def check_features(rows: np.ndarray) -> np.ndarray:
    if rows.size == 0 or within(rows, LARGEST):
        return rows
    row, column = np.argwhere(~(np.abs(rows) <= LARGEST))[0]
    found = rows[row, column]
    raise InvalidData(f"features must be finite and at most {LARGEST:g}, but feature {column} of row {row} is {found}")


def condition_number(rows: np.ndarray) -> float:
    """The condition number of the features, at most 10⁸, beyond which their Gram matrix cannot show it."""
    values = np.linalg.eigvalsh(rows.T @ rows)
    return float(np.sqrt(values[-1] / max(values[0], 1e-16 * values[-1], np.finfo(float).tiny)))


def condition_at_most(rows: np.ndarray) -> float:
    """An upper bound on the condition number that needs the Gram matrix of a few rows only.

    More rows make the smallest eigenvalue larger, and the sum of all squares is the sum of the eigenvalues.
    """
    few = rows[: 8 * rows.shape[1]]
    smallest = np.linalg.eigvalsh(few.T @ few)[0]
    total = float(np.vdot(rows, rows))
    return float(np.sqrt(total / smallest)) if smallest > 1e-12 * total else np.inf


# ---- features ---------------------------------------------------------------------------------------------


class Features(Module):
    """φ(x), without the intercept."""

    @abstractmethod
    def complete(self, x: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"]) -> Self:
        """The features with the scales that they take from the fitted inputs (never from the targets)."""

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

    `degree` is the highest power. `basis` is "orthonormal" (over the fitted rows: mean zero, mean square one,
    uncorrelated within a column of X), "monomial" (x, x², … as they are) or "scaled" (powers of x after x is mapped to
    [−1, 1]).
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
            tuple(map(on_device, (centre, width, shifts, norms))),
            is_leaf=lambda leaf: leaf is None,
        )

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        """The features in the order of the columns of X, for each column its powers in rising order."""
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


# ---- coordinates ------------------------------------------------------------------------------------------


class Standardised(Module):
    """The user's weights are w = `matrix` · z + `offset`, where z are the weights the model works with.

    The design has a leading column of ones if there is an intercept; only then are rows centred.
    """

    centre: Float[Array, " p"]
    width: Float[Array, " p"]
    matrix: Float[Array, "p p"]
    inverse: Float[Array, "p p"]
    offset: Float[Array, " p"]
    target: Float[Array, ""]
    target_width: Float[Array, ""]  # only a scale for default priors: targets are not divided by it
    intercept: bool = eqx.field(static=True, kw_only=True)

    def design(self, features: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n p"]:
        """The rows that the model works with, from rows of features."""
        first = int(self.intercept)
        rows = np.empty((features.shape[0], first + features.shape[1]))
        rows[:, :first] = 1.0
        np.subtract(features, np.asarray(self.centre)[first:], out=rows[:, first:])
        rows[:, first:] /= np.asarray(self.width)[first:]
        return rows

    def place(self, rows: Float[np.ndarray, "n *f"]) -> Float[np.ndarray, "n *p"]:
        """`design` of features (a matrix); targets and offsets (vectors) as they are."""
        return self.design(rows) if rows.ndim == 2 else rows

    def to_user(self, natural: NormalVector) -> NormalVector:
        """The natural parameter of w's Normal, from that of z."""
        precision = self.inverse.T @ natural.precision @ self.inverse
        return NormalVector(self.inverse.T @ natural.linear + precision @ self.offset, precision)

    def draw_to_user(self, z: Float[Array, "*b p"]) -> Float[Array, "*b p"]:
        return z @ self.matrix.T + jnp.broadcast_to(self.offset, z.shape)

    @property
    def log_det(self) -> Float[Array, ""]:
        """log |`matrix`|."""
        return -jnp.sum(jnp.log(self.width))

    @classmethod
    def of(
        cls,
        features: Float[np.ndarray, "n f"],
        targets: Float[np.ndarray, " n"],
        weights: Float[np.ndarray, " n"],
        intercept: bool,
    ) -> Self:
        share = weights / weights.sum()
        centre, width = _centre_and_width(features, share, intercept)
        (target,), (target_width,) = _centre_and_width(targets[:, None], share, intercept)
        if intercept:
            centre, width = np.append(0.0, centre), np.append(1.0, width)
        matrix, inverse, offset = np.diag(1.0 / width), np.diag(width), np.zeros(len(width))
        if intercept:
            # The user's intercept is the prediction at x = 0, the model's that at the centre.
            matrix[0, 1:], inverse[0, 1:], offset[0] = -(centre / width)[1:], centre[1:], target
        arrays = map(on_device, (centre, width, matrix, inverse, offset, target, target_width))
        return cls(*arrays, intercept=intercept)


def _centre_and_width(
    columns: Float[np.ndarray, "n p"], share: Float[np.ndarray, " n"], centred: bool
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """The mean of each column (or 0) and the root mean square around it; where a column is constant, its absolute
    value, or 1 if that is zero."""
    # Relative to the first row: sums of numbers far from zero lose digits, and constant columns then have width zero.
    centre = columns[0] if centred else np.zeros(columns.shape[1])
    mean, square = _moments(columns, centre, share)
    if centred:
        centre = centre + mean
        variance = square - np.square(mean)
        square = variance if (square <= 100.0 * variance).all() else _moments(columns, centre, share)[1]
    width = np.sqrt(square)
    size = np.hypot(width, centre)
    constant = width <= 1e-14 * size
    return centre, np.where(constant, np.where(size > 0, size, 1.0), width)


def _moments(
    columns: Float[np.ndarray, "n p"], centre: Float[np.ndarray, " p"], share: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """The mean difference to `centre` of each column, and the mean square of these differences."""
    rows = max(64, _PIECE // max(1, columns[:1].nbytes))
    mean, square = np.zeros((2, columns.shape[1]))
    for start in range(0, len(columns), rows):
        apart = columns[start : start + rows] - centre
        mean += share[start : start + rows] @ apart
        square += share[start : start + rows] @ np.square(apart, out=apart)
    return mean, square
