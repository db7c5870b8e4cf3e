"""The interface of a conjugate pair: a likelihood that is linear in the statistics of its prior's family.

log p(x | θ) = ⟨T(x), t(θ)⟩ + log h(x), where T(x) lives in the prior's natural-parameter space. Hence

    posterior   η + T(x),        predictive   log p(x) = log h(x) + A(η + T(x)) − A(η).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from .._module import Module
from ..errors import InvalidData
from ._family import Family, Packed


class Pair(Module):
    """A likelihood and the map from data to its prior's natural-parameter space.

    In what follows `x` is data, `m` the mean parameter E[t(θ)] of each component, and `key` a JAX key.
    """

    has_latents: ClassVar[bool] = False  # whether it sums out latents of its own, such as missing entries

    @abstractmethod
    def statistics(self, x: Any) -> Any:
        """T(x), one vector per datum; the zero vector for a datum that is missing."""

    @abstractmethod
    def log_base(self, x: Any) -> Float[Array, " n"]:
        """log h(x)."""

    @abstractmethod
    def sample(self, key: Key[Array, ""], draw: Any) -> Any:
        """One datum for each batch element of a `draw` of θ."""

    @abstractmethod
    def default_prior(self, x: Any, size: int) -> Family:
        """A weakly informative prior from the data's scale, for `size` components."""

    def check(self, x: np.ndarray) -> np.ndarray:
        """The data as they are, if all lie in the likelihood's support (NaN, for missing, passes); else an error."""
        return x

    def complete(self, x: np.ndarray) -> Self:
        """The pair with those sizes and scales filled in that the user left to the data."""
        return self

    def shifted(self, shift: Any) -> Self:
        """The pair for data that were moved by −`shift`: `self`, unless log h(x) changes with such a move."""
        return self

    def coordinates(self, x: Any) -> Float[Array, "n c"]:
        """The data as rows (n, c) between which starting values measure distances."""
        return self.statistics(x).features()

    def tempered_log_likelihood(
        self, m: Any, x: Any, observation: ArrayLike, latent: ArrayLike, key: Key[Array, ""] | None
    ) -> Float[Array, "n k"]:
        """The likelihood to the power `observation`; `latent` and `key` are for pairs that have latents of
        their own."""
        return jnp.asarray(observation) * self.log_likelihood(m, x)

    def log_likelihood(self, m: Any, x: Any) -> Float[Array, "n k"]:
        """⟨T(x_n), m_k⟩ + log h(x_n) for all pairs, as one matrix product of packed features."""
        features = self.features(x)
        # Data in float32 get a float32 product, in full precision (a GPU's default is lower); the rest is float64.
        product = jnp.matmul(m.weights().astype(features.dtype), features, precision="highest")
        # Without the barrier the compiler folds the transposition into the product, at twice its cost.
        product = jax.lax.optimization_barrier(product.astype(jnp.float64))
        return product.T + self.log_base(x)[:, None]

    def packed(self, m: Any) -> Any:
        """The part of m that `tempered_log_likelihood` needs, packed once for many blocks of data."""
        return Packed(m.weights())

    def features(self, x: Any) -> Float[Array, "f n"]:
        """T(x) packed, one column per datum, so that both products with it read contiguous memory."""
        return self.statistics(x).features().T

    def log_predictive(self, family: Family, x: Any, power: ArrayLike = 1.0) -> Float[Array, "n k"]:
        """log ∫ q_k(θ) p(x_n | θ)^`power` dθ for every datum and every batch element of `family`."""
        statistics = self.statistics(x).expand(1) * power
        natural = family.natural.expand(0)
        updated = family.with_natural(natural + statistics)
        return jnp.asarray(power) * self.log_base(x)[:, None] + updated.log_normaliser() - family.log_normaliser()[None]


LARGEST_COUNT = 2**53


def check_counts(x: np.ndarray, name: str, largest: int | None = None) -> np.ndarray:
    """Refuse anything but whole numbers from 0 to `largest`, or to the last that floats can count to; NaN passes."""
    with np.errstate(invalid="ignore"):
        wrong = (x < 0) | (x != np.round(x)) & ~np.isnan(x)
        if largest is not None:
            wrong |= x > largest
        beyond = x > LARGEST_COUNT
    if largest is None and beyond.any() and not wrong.any():
        raise InvalidData(f"{name} must be at most 2⁵³, beyond which floats skip numbers, found {first_of(x, beyond)}")
    if wrong.any():
        limit = "0, 1, 2, …" if largest is None else f"0 to {largest}"
        raise InvalidData(f"{name} must be whole numbers {limit}, found {first_of(x, wrong)}")
    return x


def first_of(x: np.ndarray, where: np.ndarray) -> str:
    """The first value of x where `where` is true, and its place, in words."""
    place = np.argwhere(where)[0]
    return f"{x[tuple(place)]:g} in row {place[0]}" + (f", column {place[1]}" if x.ndim > 1 else "")
