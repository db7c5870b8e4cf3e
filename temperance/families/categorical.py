"""Distributions over discrete values, as posteriors of latent assignments: categorical and Bernoulli."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.special import safe_log
from ._family import Family, Vector
from ._parameters import as_float, parameters, require


class CategoricalVector(Vector):
    """η = log-odds (up to a constant), t(z) = one-hot z. Its part is `indicator`."""

    indicator: Float[Array, "*b k"]

    kinds: ClassVar[tuple[str, ...]] = ("vector",)


class CategoricalDistribution(Family):
    """p(z = k) = π_k, given by its `probabilities` or by their `logits`, on the last axis.

    The family is overcomplete: adding a constant to η changes nothing.
    """

    natural: CategoricalVector

    def __init__(self, probabilities: ArrayLike | None = None, *, logits: ArrayLike | None = None):
        require((probabilities is None) != (logits is None), "give exactly one of probabilities and logits")
        if probabilities is not None:
            (weights,) = parameters(probabilities=(probabilities, 1))
            require(weights >= 0, "probabilities must not be negative", weights)
            total = weights.sum(axis=-1)
            require(abs(total - 1.0) < 1e-6, "probabilities must sum to one on the last axis", total)
            logits = safe_log(as_float(weights))
        self.natural = CategoricalVector(as_float(logits))
        require(self.natural.indicator.ndim > 0, "logits must be a vector (with leading batch axes)", logits)
        require(self.is_proper(), "logits must be numbers or −∞, at least one of them finite", logits)

    @property
    def probabilities(self) -> Float[Array, "*b k"]:
        return jax.nn.softmax(self.natural.indicator, axis=-1)

    def log_normaliser(self) -> Float[Array, "*b"]:
        return jax.nn.logsumexp(self.natural.indicator, axis=-1)

    # Where a probability is zero the generic forms meet −∞ · 0, which must count as 0.

    def log_prob(self, draw: Float[Array, "*b k"]) -> Float[Array, "*b"]:
        return _weighted(draw, self.natural.indicator) - self.log_normaliser()

    def entropy(self) -> Float[Array, "*b"]:
        return self.log_normaliser() - _weighted(self.probabilities, self.natural.indicator)

    def kl(self, other: Self) -> Float[Array, "*b"]:
        ours, theirs = self.natural.indicator, other.natural.indicator
        p = self.probabilities
        divergence = _weighted(p, ours) - _weighted(p, theirs) - self.log_normaliser() + other.log_normaliser()
        return jnp.maximum(divergence, 0.0)

    def is_proper(self) -> Bool[Array, "*b"]:
        eta = self.natural.indicator
        return jnp.all(~jnp.isnan(eta) & (eta < jnp.inf), axis=-1) & jnp.any(jnp.isfinite(eta), axis=-1)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b k"]:
        """A one-hot draw per batch element."""
        index = jax.random.categorical(key, self.natural.indicator, axis=-1)
        return jax.nn.one_hot(index, self.natural.indicator.shape[-1], dtype=jnp.float64)

    def statistics(self, draw: Float[Array, "*b k"]) -> CategoricalVector:
        return CategoricalVector(draw)

    def mode(self) -> Float[Array, "*b k"]:
        eta = self.natural.indicator
        return jax.nn.one_hot(jnp.argmax(eta, axis=-1), eta.shape[-1], dtype=jnp.float64)

    def described(self) -> dict[str, Any]:
        return {"probabilities": self.probabilities}

    @classmethod
    def from_mean(cls, mean: CategoricalVector, guess: Self | None = None) -> Self:
        return cls.from_natural(CategoricalVector(safe_log(mean.indicator)))


def _weighted(weights: Float[Array, "*b k"], logits: Float[Array, "*b k"]) -> Float[Array, "*b"]:
    """Σ_k w_k η_k, with 0 · (−∞) = 0."""
    return jnp.sum(_times(weights, logits), axis=-1)


class BernoulliVector(Vector):
    """η = log-odds, t(z) = z. Its part is `indicator`."""

    indicator: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("scalar",)


class BernoulliDistribution(Family):
    """p(z = 1) = p, given as `probability` or by its `logit`."""

    natural: BernoulliVector

    def __init__(self, probability: ArrayLike | None = None, *, logit: ArrayLike | None = None):
        require((probability is None) != (logit is None), "give exactly one of probability and logit")
        if probability is not None:
            (p,) = parameters(probability=(probability, 0))
            require((p >= 0) & (p <= 1), "probability must lie between 0 and 1", p)
            logit = _logit(as_float(p))
        self.natural = BernoulliVector(as_float(logit))
        require(self.is_proper(), "logit must be a number or ±∞", logit)

    @property
    def probability(self) -> Float[Array, "*b"]:
        return jax.nn.sigmoid(self.natural.indicator)

    def log_normaliser(self) -> Float[Array, "*b"]:
        return jax.nn.softplus(self.natural.indicator)

    # With p(z) = σ(±η) = softplus'(±η), nothing is subtracted that could be infinite.

    def log_prob(self, draw: Float[Array, "*b"]) -> Float[Array, "*b"]:
        eta = self.natural.indicator
        return _times(draw, jax.nn.log_sigmoid(eta)) + _times(1.0 - draw, jax.nn.log_sigmoid(-eta))

    def entropy(self) -> Float[Array, "*b"]:
        return -self._expected(self)

    def kl(self, other: Self) -> Float[Array, "*b"]:
        return jnp.maximum(self._expected(self) - self._expected(other), 0.0)

    def _expected(self, other: Self) -> Float[Array, "*b"]:
        """E[log p(z | other)]."""
        eta, theirs = self.natural.indicator, other.natural.indicator
        return _times(jax.nn.sigmoid(eta), jax.nn.log_sigmoid(theirs)) + _times(
            jax.nn.sigmoid(-eta), jax.nn.log_sigmoid(-theirs)
        )

    def is_proper(self) -> Bool[Array, "*b"]:
        return ~jnp.isnan(self.natural.indicator)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b"]:
        return jax.random.bernoulli(key, self.probability).astype(jnp.float64)

    def statistics(self, draw: Float[Array, "*b"]) -> BernoulliVector:
        return BernoulliVector(draw)

    def mode(self) -> Float[Array, "*b"]:
        return (self.natural.indicator > 0).astype(jnp.float64)

    def described(self) -> dict[str, Any]:
        return {"probability": self.probability}

    @classmethod
    def from_mean(cls, mean: BernoulliVector, guess: Self | None = None) -> Self:
        return cls.from_natural(BernoulliVector(_logit(mean.indicator)))


def _times(weight: Float[Array, "*b"], value: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """w · v, with 0 · (−∞) = 0."""
    return weight * jnp.where(weight > 0, value, 0.0)


def _logit(p: Float[Array, "*b"]) -> Float[Array, "*b"]:
    return safe_log(p) - safe_log(1.0 - p)
