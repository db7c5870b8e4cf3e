"""What the weights of a mixture contribute to a factor, for the ways in which they can be unknown.

A factor chooses z = k with the weight exp⟨W_k, t(π)⟩, so a projection needs A(η + αW_k) − A(η) for every k, and
the means ∇A(η + αW_k).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ...families import Dirichlet, DirichletVector, Family
from ...models import Mixture
from ...models.enumerable import Enumerable
from ...numerics.linalg import total
from ...numerics.special import digamma, log_gamma


class WeightTerms(eqx.Module):
    """The terms of the weights in one factor."""

    @abstractmethod
    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        """(A(η + power·W_k) − A(η) + power·c_k for every k, what `mixed_mean` needs)."""

    @abstractmethod
    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> Any:
        """Σ_k r_k ∇A(η + power·W_k)."""

    @abstractmethod
    def expected(self, mean: Any) -> Float[Array, " k"]:
        """⟨W_k, mean⟩ + c_k."""

    @abstractmethod
    def message(self, r: Float[Array, " k"]) -> Any:
        """Σ_k r_k W_k."""


class KnownWeights(WeightTerms):
    """No block: the weights are numbers."""

    log: Float[Array, " k"]

    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        return jnp.asarray(power) * self.log, None

    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> Any:
        return None

    def expected(self, mean: Any) -> Float[Array, " k"]:
        return self.log

    def message(self, r: Float[Array, " k"]) -> Any:
        return None


class LinearWeights(WeightTerms):
    """Any family whose statistics the log weights are affine in: stick breaking, for example."""

    terms: Any  # W, a vector with a leading axis over k
    constants: Float[Array, " k"]

    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        assert weights is not None
        moved = weights.with_natural(_broadcast_add(weights.natural, self.terms * power))
        value, means = moved.value_and_mean()
        return value - weights.log_normaliser()[None] + power * self.constants, means

    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> Any:
        return (parts * r).sum(0)

    def expected(self, mean: Any) -> Float[Array, " k"]:
        return self.terms.dot(mean.expand(0)) + self.constants

    def message(self, r: Float[Array, " k"]) -> Any:
        return (self.terms * r).sum(0)


class DirichletWeights(WeightTerms):
    """W_k is the k-th unit vector: the K log normalisers differ in one gamma function each."""

    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        assert isinstance(weights, Dirichlet)
        delta = weights.concentration
        whole = total(delta)
        if isinstance(power, float) and power == 1.0:
            return jnp.log(delta) - jnp.log(whole), (delta, power)  # E[π]
        grown = log_gamma(delta + power) - log_gamma(delta)
        shared = log_gamma(whole + power) - log_gamma(whole)
        return grown - shared, (delta, power)

    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> DirichletVector:
        delta, power = parts
        if isinstance(power, float) and power == 1.0:
            both = digamma(delta) + r / delta  # ψ(δ + 1) = ψ(δ) + 1/δ
        else:
            both = (1.0 - r) * digamma(delta) + r * digamma(delta + power)
        return DirichletVector(both - digamma(total(delta) + power))

    def expected(self, mean: DirichletVector) -> Float[Array, " k"]:
        return mean.log

    def message(self, r: Float[Array, " k"]) -> DirichletVector:
        return DirichletVector(r)


def weight_terms(model: Enumerable) -> WeightTerms:
    """The terms of this model, by differentiating its log weights unless they are those of a Dirichlet."""
    weights = model.prior.get("weights")
    if weights is None:
        return KnownWeights(model.log_weights({}))
    assert isinstance(weights, Family)
    zero = jax.tree.map(jnp.zeros_like, weights.natural)

    def log_weights(vector: Any) -> Float[Array, " k"]:
        return model.log_weights({"weights": vector})

    if isinstance(weights, Dirichlet) and type(model).log_weights is Mixture.log_weights:
        return DirichletWeights()
    return LinearWeights(jax.jacobian(log_weights)(zero), log_weights(zero))


def _broadcast_add(vector: Any, terms: Any) -> Any:
    return jax.tree.map(lambda a, b: a[None] + b, vector, terms)
