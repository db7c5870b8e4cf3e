"""Distributions over discrete values, as posteriors of latent assignments: categorical and Bernoulli."""

from __future__ import annotations

from typing import ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.special import safe_log
from ._family import Family, Vector, as_float, require


class CategoricalVector(Vector):
    """η = log-odds (up to a constant), t(z) = one-hot z."""

    indicator: Float[Array, "*b k"]

    kinds: ClassVar[tuple[str, ...]] = ("vector",)


class CategoricalDistribution(Family):
    """p(z = k) = π_k. The family is overcomplete: adding a constant to η changes nothing."""

    natural: CategoricalVector

    def __init__(self, probabilities: ArrayLike | None = None, *, logits: ArrayLike | None = None):
        require(
            (probabilities is None) != (logits is None), "give exactly one of probabilities and logits"
        )
        if probabilities is not None:
            weights = as_float(probabilities)
            require(weights >= 0, "probabilities must not be negative")
            require(
                jnp.abs(jnp.sum(weights, axis=-1) - 1.0) < 1e-6, "probabilities must sum to one on the last axis"
            )
            logits = safe_log(weights)
        self.natural = CategoricalVector(as_float(logits))

    @property
    def probabilities(self) -> Float[Array, "*b k"]:
        return jax.nn.softmax(self.natural.indicator, axis=-1)

    def log_normaliser(self) -> Float[Array, "*b"]:
        return jax.nn.logsumexp(self.natural.indicator, axis=-1)

    def entropy(self) -> Float[Array, "*b"]:
        # The generic form meets −∞ · 0 where a probability is zero.
        p = self.probabilities
        return -jnp.sum(jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1.0)), 0.0), axis=-1)

    def is_proper(self) -> Bool[Array, "*b"]:
        eta = self.natural.indicator
        return jnp.all(~jnp.isnan(eta) & (eta < jnp.inf), axis=-1) & jnp.any(jnp.isfinite(eta), axis=-1)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b k"]:
        """One-hot."""
        index = jax.random.categorical(key, self.natural.indicator, axis=-1)
        return jax.nn.one_hot(index, self.natural.indicator.shape[-1], dtype=jnp.float64)

    def statistics(self, draw: Float[Array, "*b k"]) -> CategoricalVector:
        return CategoricalVector(draw)

    def mode(self) -> Float[Array, "*b k"]:
        eta = self.natural.indicator
        return jax.nn.one_hot(jnp.argmax(eta, axis=-1), eta.shape[-1], dtype=jnp.float64)

    @classmethod
    def from_mean(cls, mean: CategoricalVector, guess: Self | None = None) -> Self:
        return cls.from_natural(CategoricalVector(safe_log(mean.indicator)))


class BernoulliVector(Vector):
    """η = log-odds, t(z) = z."""

    indicator: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("scalar",)


class BernoulliDistribution(Family):
    """p(z = 1) = p."""

    natural: BernoulliVector

    def __init__(self, probability: ArrayLike | None = None, *, logit: ArrayLike | None = None):
        require((probability is None) != (logit is None), "give exactly one of probability and logit")
        if probability is not None:
            p = as_float(probability)
            require((p >= 0) & (p <= 1), "probability must lie between 0 and 1")
            logit = safe_log(p) - safe_log(1.0 - p)
        self.natural = BernoulliVector(as_float(logit))

    @property
    def probability(self) -> Float[Array, "*b"]:
        return jax.nn.sigmoid(self.natural.indicator)

    def log_normaliser(self) -> Float[Array, "*b"]:
        return jax.nn.softplus(self.natural.indicator)

    def entropy(self) -> Float[Array, "*b"]:
        # softplus(η) − η σ(η), with the limit 0 at η = ±∞.
        eta = jnp.abs(self.natural.indicator)
        finite = jnp.where(jnp.isfinite(eta), eta, 0.0)
        return jnp.where(
            jnp.isfinite(eta), jax.nn.softplus(-finite) + finite * jax.nn.sigmoid(-finite), 0.0
        )

    def is_proper(self) -> Bool[Array, "*b"]:
        return ~jnp.isnan(self.natural.indicator)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b"]:
        return jax.random.bernoulli(key, self.probability).astype(jnp.float64)

    def statistics(self, draw: Float[Array, "*b"]) -> BernoulliVector:
        return BernoulliVector(draw)

    def mode(self) -> Float[Array, "*b"]:
        return (self.natural.indicator > 0).astype(jnp.float64)

    @classmethod
    def from_mean(cls, mean: BernoulliVector, guess: Self | None = None) -> Self:
        p = mean.indicator
        return cls.from_natural(BernoulliVector(safe_log(p) - safe_log(1.0 - p)))
