"""What the families over a location W and a precision Λ share: matching moments without losing digits.

W | Λ is Normal around `location` with a precision that is proportional to Λ; W is a mean or a matrix of weights, Λ a
number or a matrix. Such a family is known by

    location = E[Λ]⁻¹ E[ΛW],    spread = E[(W − location)ᵀ Λ (W − location)],    E[Λ],    E[log|Λ|].
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ._family import Family, _right_pad


class Located(Family):
    """Base of the Normal-Gamma and Normal-Wishart families, and of their matrix forms."""

    @property
    @abstractmethod
    def dof(self) -> Float[Array, "*b"]: ...

    @staticmethod
    @abstractmethod
    def _moments(mean: Any) -> tuple[Array, Array, Array]:
        """(location, spread, E[Λ]) from E[t(θ)]."""

    @classmethod
    @abstractmethod
    def _matching(cls, location: Array, spread: Array, precision: Array, mean_log: Array, guess: Array | None) -> Self:
        """The member with these moments; its dof is searched for from `guess`."""

    @abstractmethod
    def _spread(self, location: Array) -> Array:
        """E[(W − location)ᵀ Λ (W − location)] around any location."""

    @classmethod
    def from_mean(cls, mean: Any, guess: Self | None = None) -> Self:
        return cls._matching(*cls._moments(mean), 2.0 * mean.dof, None if guess is None else guess.dof)

    def mix_means(self, other: Self, rate: ArrayLike) -> Self:
        """The mixture of means, by the centred form of the spread. The uncentred form loses digits when the location is
        many widths from the origin, and loses more the larger the count is."""
        mean, weight = self.mean().mix(other.mean(), rate), jnp.asarray(rate)
        location, _, precision = self._moments(mean)
        here, there = self._spread(location), other._spread(location)
        share = _right_pad(weight, here.ndim - len(self.batch_shape))
        between = (1.0 - weight) * self.dof + weight * other.dof
        return self._matching(location, (1.0 - share) * here + share * there, precision, 2.0 * mean.dof, between)
