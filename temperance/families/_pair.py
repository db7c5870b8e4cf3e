"""The interface of a conjugate pair: a likelihood that is linear in the statistics of its prior's family.

log p(x | θ) = ⟨T(x), t(θ)⟩ + log h(x), where T(x) lives in the prior's natural-parameter space. Hence

    posterior   η + T(x),        predictive   log p(x) = log h(x) + A(η + T(x)) − A(η).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, ArrayLike, Float, Key

from ._family import Family


class Pair(eqx.Module):
    """A likelihood and the map from data to its prior's natural-parameter space."""

    @abstractmethod
    def statistics(self, x: Any) -> Any:
        """T(x), one vector per datum; the zero vector for a datum that is missing."""

    @abstractmethod
    def log_base(self, x: Any) -> Float[Array, " n"]:
        """log h(x)."""

    @abstractmethod
    def sample(self, key: Key[Array, ""], draw: Any) -> Any:
        """One datum for each batch element of a draw of θ."""

    @abstractmethod
    def default_prior(self, x: Any, size: int) -> Family:
        """A weakly informative prior from the data's scale, for `size` components."""

    def log_likelihood(self, m: Any, x: Any) -> Float[Array, "n k"]:
        """⟨T(x_n), m_k⟩ + log h(x_n) for all pairs, as one matrix product of packed features."""
        return self.statistics(x).features() @ m.weights().T + self.log_base(x)[:, None]

    def log_predictive(self, family: Family, x: Any, power: ArrayLike = 1.0) -> Float[Array, "n k"]:
        """log ∫ q_k(θ) p(x_n | θ)^power dθ for every datum and every batch element of `family`."""
        statistics = self.statistics(x).expand(1) * power
        natural = family.natural.expand(0)
        updated = family.with_natural(natural + statistics)
        return (
            power * self.log_base(x)[:, None]
            + updated.log_normaliser()
            - family.log_normaliser()[None]
        )

