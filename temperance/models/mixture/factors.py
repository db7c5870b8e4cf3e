"""The factors of a mixture, for the ways in which its weights can be unknown.

A factor is Σ_k exp{⟨W_k, t(π)⟩ + c_k + ⟨T(x), t(θ_k)⟩ + log h(x)}: a configuration adds W_k to the weights and T(x) to
one of the components, so a projection needs A(η + αW_k) − A(η) for every k, and the means ∇A(η + αW_k).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ...families import Dirichlet, DirichletVector, Family, Pair
from ...numerics.linalg import total
from ...numerics.special import digamma, log_gamma
from .._blocks import rows_sum
from .._factors import Blocks, Natural, Terms, Tilted, sum_all, weighted

if TYPE_CHECKING:
    from .._answers import Enumerable


class Factor(NamedTuple):
    """What one datum brings: T(x) and log h(x)."""

    statistics: Any
    log_base: Float[Array, ""]


class MixtureTilted(Tilted):
    """A member of the family, η̂, times a factor to the power α: a mixture of K members."""

    value: Float[Array, ""]  # A(η̂)
    log_terms: Float[Array, " k"]  # log R
    terms: WeightTerms
    weights: Any
    without: Family  # the components at η̂
    with_datum: Family  # and at η̂ + αT

    def match(self, r: Float[Array, " k"], guess: Blocks) -> Blocks:
        """The member with the moments of the mixture, weighted by r (3.23–3.26, 3.77)."""
        blocks = {"components": self.without.mix_means(self.with_datum, r)}
        name = weights_name(guess)
        if name is not None:
            blocks[name] = guess[name].match(self.terms.mixed_mean(self.weights, r))
        return blocks


def weights_name(blocks: Iterable[str]) -> str | None:
    """The block beside the components: the weights, or the sticks they are broken from."""
    return next((name for name in blocks if name != "components"), None)


def weights_of(blocks: dict[str, Any]) -> Any:
    name = weights_name(blocks)
    return None if name is None else blocks[name]


class WeightTerms(Terms):
    """The factors of a mixture, by what is known of its weights."""

    def tilt(self, blocks: Blocks, factor: Factor, power: float) -> MixtureTilted:
        without, weights = blocks["components"], weights_of(blocks)
        with_datum = without + factor.statistics.expand(0) * power
        value = without.log_normaliser()
        chosen, parts = self.raised(weights, power)
        log_terms = chosen + with_datum.log_normaliser() - value + power * factor.log_base
        whole = total(value) + (0.0 if weights is None else sum_all(weights.log_normaliser()))
        return MixtureTilted(whole, log_terms, self, parts, without, with_datum)

    def expected(self, mean: Natural, factor: Factor) -> Float[Array, " k"]:
        """E log p(x, z = k | θ)."""
        likelihood = factor.statistics.expand(0).dot(mean["components"])
        return self.expected_weights(weights_of(mean)) + likelihood + factor.log_base

    def message(self, mean: Natural, factor: Factor, r: Float[Array, " k"]) -> Natural:
        return {"components": factor.statistics.expand(0) * r} | self.weights_message(r)

    @abstractmethod
    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        """(A(η + power·W_k) − A(η) + power·c_k for every k, what `mixed_mean` needs)."""

    @abstractmethod
    def raised_twice(self, weights: Family | None) -> Float[Array, "k k"]:
        """A(η + W_k + W_l) − A(η) + c_k + c_l for every pair: two data at once."""

    @abstractmethod
    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> Any:
        """Σ_k r_k ∇A(η + power·W_k)."""

    @abstractmethod
    def expected_weights(self, mean: Any) -> Float[Array, " k"]:
        """⟨W_k, mean⟩ + c_k."""

    @abstractmethod
    def weights_message(self, r: Float[Array, " k"]) -> Natural:
        """Σ_k r_k W_k, under the name of the weights' block."""


class KnownWeights(WeightTerms):
    """No block: the weights are numbers."""

    log: Float[Array, " k"]

    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        return jnp.asarray(power) * self.log, None

    def raised_twice(self, weights: Family | None) -> Float[Array, "k k"]:
        return self.log[:, None] + self.log[None, :]

    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> Any:
        return None

    def expected_weights(self, mean: Any) -> Float[Array, " k"]:
        return self.log

    def weights_message(self, r: Float[Array, " k"]) -> Natural:
        return {}


class LinearWeights(WeightTerms):
    """Any family whose statistics the log weights are affine in: stick breaking, for example."""

    terms: Any  # W, a vector with a leading axis over k
    constants: Float[Array, " k"]
    name: str = eqx.field(static=True)

    def raised(self, weights: Family | None, power: ArrayLike) -> tuple[Float[Array, " k"], Any]:
        assert weights is not None
        moved = weights.with_natural(jax.tree.map(lambda a, b: a[None] + power * b, weights.natural, self.terms))
        value, means = moved.value_and_mean()
        gained = value - weights.log_normaliser()[None]
        return rows_sum(gained) + power * self.constants, means

    def raised_twice(self, weights: Family | None) -> Float[Array, "k k"]:
        assert weights is not None
        pairs = jax.tree.map(lambda leaf: leaf[:, None] + leaf[None, :], self.terms)
        moved = weights.with_natural(jax.tree.map(lambda a, b: a[None, None] + b, weights.natural, pairs))
        gained = moved.log_normaliser() - weights.log_normaliser()[None, None]
        gained = jnp.sum(gained.reshape((*gained.shape[:2], -1)), axis=-1)
        return gained + self.constants[:, None] + self.constants[None, :]

    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> Any:
        return weighted(parts, r)

    def expected_weights(self, mean: Any) -> Float[Array, " k"]:
        return rows_sum(self.terms.dot(mean.expand(0))) + self.constants

    def weights_message(self, r: Float[Array, " k"]) -> Natural:
        return {self.name: weighted(self.terms, r)}


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

    def raised_twice(self, weights: Family | None) -> Float[Array, "k k"]:
        """log E[π_k π_l]."""
        assert isinstance(weights, Dirichlet)
        delta = weights.concentration
        whole = total(delta)
        second = delta[None, :] + jnp.eye(delta.shape[0])
        return jnp.log(delta)[:, None] + jnp.log(second) - jnp.log(whole) - jnp.log(whole + 1.0)

    def mixed_mean(self, parts: Any, r: Float[Array, " k"]) -> DirichletVector:
        delta, power = parts
        if isinstance(power, float) and power == 1.0:
            both = digamma(delta) + r / delta  # ψ(δ + 1) = ψ(δ) + 1/δ
        else:
            both = (1.0 - r) * digamma(delta) + r * digamma(delta + power)
        return DirichletVector(both - digamma(total(delta) + power))

    def expected_weights(self, mean: DirichletVector) -> Float[Array, " k"]:
        return mean.log

    def weights_message(self, r: Float[Array, " k"]) -> Natural:
        return {"weights": DirichletVector(r)}


class SeenTilted(Tilted):
    """The same where log ∫ exp⟨η, t⟩ p(x_seen | θ)^α is known: its derivative in η is the mean of the components."""

    value: Float[Array, ""]
    log_terms: Float[Array, " k"]
    terms: WeightTerms
    weights: Any
    without: Any  # the means of the components at η̂
    gained: Any  # and what a datum of its own adds to that of each

    def match(self, r: Float[Array, " k"], guess: Blocks) -> Blocks:
        blocks = {"components": guess["components"].match(self.without + self.gained * r)}
        name = weights_name(guess)
        if name is not None:
            blocks[name] = guess[name].match(self.terms.mixed_mean(self.weights, r))
        return blocks


class SeenTerms(Terms):
    """The factors of a mixture in whose rows columns are missing: p(x_seen | θ_k) is no member of the family, but its
    integral against one is known. A factor is a row of the data. α → 0 is variational Bayes with a q of the missing
    columns of its own."""

    weights: WeightTerms
    pair: Pair

    def tilt(self, blocks: Blocks, factor: Float[Array, " d"], power: float) -> SeenTilted:
        components, weights = blocks["components"], weights_of(blocks)
        chosen, parts = self.weights.raised(weights, power)

        def seen(natural: Any) -> Float[Array, " k"]:
            return self.pair.log_predictive(components.with_natural(natural), factor[None], power)[0]

        log_seen, back = jax.vjp(seen, components.natural)
        value, mean = components.value_and_mean()
        whole = total(value) + (0.0 if weights is None else sum_all(weights.log_normaliser()))
        return SeenTilted(whole, chosen + log_seen, self.weights, parts, mean, back(jnp.ones_like(log_seen))[0])

    def expected(self, mean: Natural, factor: Float[Array, " d"]) -> Float[Array, " k"]:
        seen = self.pair.tempered_log_likelihood(mean["components"], factor[None], 1.0, 1.0, None)[0]
        return self.weights.expected_weights(weights_of(mean)) + seen

    def message(self, mean: Natural, factor: Float[Array, " d"], r: Float[Array, " k"]) -> Natural:
        return jax.vjp(lambda mean: self.expected(mean, factor), mean)[1](r)[0]


def weight_terms(model: Enumerable) -> WeightTerms:
    """The terms of this model, by differentiating its log weights unless they are those of a Dirichlet."""
    name = weights_name(model.prior)
    if name is None:
        return KnownWeights(model.log_weights({}))
    weights = model.prior[name]
    assert isinstance(weights, Family)
    zero = jax.tree.map(jnp.zeros_like, weights.natural)

    def log_weights(vector: Any) -> Float[Array, " k"]:
        return model.log_weights({name: vector})

    if model.plain_weights:
        return DirichletWeights()
    return LinearWeights(jax.jacobian(log_weights)(zero), log_weights(zero), name)
