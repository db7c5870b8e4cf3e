"""The factors of a model, as message passing needs them, and the moments of a family times one factor.

The likelihood is a product of factors, one for each datum (or step of a sequence). Given a configuration c of its
discrete latents, a factor is a member of the family,

    f_n(θ, c) = exp{⟨T_nc, t(θ)⟩ + log h_nc},

linear in the statistics of all blocks together. A cavity η times f^α is then a finite mixture of members, and its scale
and its moments are log normalisers and their gradients. The configurations are the values of the datum's own latents,
or the pairs (z_(t−1), z_t) of neighbouring states of a chain. A site is natural parameters η̃_n and a scale for each
configuration that other factors share.

This file has the general case, with factors written out, and two that need no writing out: mixtures and chains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int8

from ..families import Dirichlet, DirichletVector, Family, Pair, Point
from ..numerics.linalg import total
from ..numerics.special import digamma, log_gamma
from ._blocks import rows_sum
from ._data import Data
from ._model import Model

if TYPE_CHECKING:
    from ._answers import Enumerable

Blocks = dict[str, Family]
Natural = dict[str, Any]  # a vector for each block


class Tilted(eqx.Module):
    """A member of the family times a factor to some power: a mixture of members, one for each configuration."""

    value: eqx.AbstractVar[Float[Array, ""]]  # A(η) of the member
    log_terms: eqx.AbstractVar[Float[Array, "*c"]]  # A(η + αT_c) − A(η) + α log h_c

    @abstractmethod
    def match(self, r: Float[Array, "*c"], guess: Blocks) -> Blocks:
        """The member with the moments of the mixture, weighted by r; `guess` is where the dual maps start."""


class Terms(eqx.Module):
    """How the factors of a model meet its blocks."""

    @abstractmethod
    def tilt(self, blocks: Blocks, factor: Any, power: float) -> Tilted: ...

    @abstractmethod
    def expected(self, mean: Natural, factor: Any) -> Float[Array, "*c"]:
        """⟨T_c, mean⟩ + log h_c, for α → 0."""

    @abstractmethod
    def message(self, mean: Natural, factor: Any, r: Float[Array, "*c"]) -> Natural:
        """Σ_c r_c T_c: the derivative of `expected` at the mean, weighted."""


class Factors(eqx.Module):
    """The factors of all data."""

    each: Any  # the factor of each datum, with a leading axis of data
    live: Bool[Array, " n"]  # False for padding
    terms: Terms
    starts: Int8[Array, " n"] | None = None  # of chains: as in `numerics.chains`; None for independent data
    gaussian: bool = eqx.field(static=True, default=False)  # T(x) = (x, 1, x xᵀ, 1): passes may have a kernel
    few_columns: bool = eqx.field(static=True, default=False)  # gaussian, with few enough columns to write matrices out


class Factored(Model):
    """A model whose likelihood is a product of these factors."""

    @abstractmethod
    def factors(self, data: Data) -> Factors: ...

    @property
    def chained(self) -> bool:
        """Whether neighbouring factors share a discrete latent."""
        return False

    @property
    def linear_factors(self) -> bool:
        """Whether the factors are of the form above, so that products of several factors can be integrated too."""
        return True

    def no_factors(self) -> str:
        """Why message passing cannot treat this model, as the end of a sentence; empty if it can."""
        for block, prior in self.prior.items():
            if not isinstance(prior, Family) or isinstance(prior, Point):
                return f"it needs a fixed conjugate prior for the {block}, got {type(prior).__name__}"
        return ""


class LinearFactor(NamedTuple):
    """T_c and log h_c, written out for every configuration."""

    statistics: Natural  # leading axis: configurations
    log_base: Float[Array, " c"]


class LinearTilted(Tilted):
    value: Float[Array, ""]
    log_terms: Float[Array, " c"]
    means: Natural

    def match(self, r: Float[Array, " c"], guess: Blocks) -> Blocks:
        return {name: guess[name].match(weighted(vectors, r)) for name, vectors in self.means.items()}


class LinearTerms(Terms):
    """Any factor that can be written out: time and memory grow with configurations × parameters."""

    def tilt(self, blocks: Blocks, factor: LinearFactor, power: float) -> LinearTilted:
        log_terms, means = power * factor.log_base, {}
        for name, family in blocks.items():
            moved = jax.tree.map(lambda a, b: a[None] + power * b, family.natural, factor.statistics[name])
            value, means[name] = family.with_natural(moved).value_and_mean()
            log_terms = log_terms + rows_sum(value - family.log_normaliser()[None])
        return LinearTilted(log_normaliser(blocks), log_terms, means)

    def expected(self, mean: Natural, factor: LinearFactor) -> Float[Array, " c"]:
        parts = [rows_sum(factor.statistics[name].dot(mean[name].expand(0))) for name in mean]
        return sum(parts, start=factor.log_base)

    def message(self, mean: Natural, factor: LinearFactor, r: Float[Array, " c"]) -> Natural:
        return {name: weighted(vectors, r) for name, vectors in factor.statistics.items()}


def written_out(log_terms: Callable[[Natural, Any], Float[Array, " c"]], prior: Blocks, rows: Any) -> LinearFactor:
    """T_c and log h_c of every row, from ⟨T_c, m⟩ + log h_c as a function of the statistics m."""
    zero = {name: jax.tree.map(jnp.zeros_like, family.natural) for name, family in prior.items()}

    def one(row: Any) -> LinearFactor:
        return LinearFactor(jax.jacrev(lambda m: log_terms(m, row))(zero), log_terms(zero, row))

    return jax.vmap(one)(rows)


# ---- arithmetic of blocks -----------------------------------------------------------------------------------


def log_normaliser(blocks: Blocks) -> Float[Array, ""]:
    return sum((sum_all(family.log_normaliser()) for family in blocks.values()), start=jnp.zeros(()))


def sum_all(values: Float[Array, "*b"]) -> Float[Array, ""]:
    return values if values.ndim == 0 else total(values.reshape(-1))


def is_proper(blocks: Blocks) -> Bool[Array, ""]:
    proper = jnp.asarray(True)
    for family in blocks.values():
        proper = proper & jnp.all(family.is_proper())
    return proper


def naturals(blocks: Blocks) -> Natural:
    return {name: family.natural for name, family in blocks.items()}


def with_naturals(blocks: Blocks, natural: Natural) -> Blocks:
    return {name: family.with_natural(natural[name]) for name, family in blocks.items()}


def exact_prior(model: Model) -> Blocks:
    return dict(model.prior)  # type: ignore[arg-type]


def weighted(vectors: Any, r: Float[Array, " c"]) -> Any:
    """Σ_c r_c v_c."""
    return jax.tree.map(lambda leaf: jnp.tensordot(r, leaf, axes=1), vectors)


# ---- mixtures ------------------------------------------------------------------------------------------------
#
# A factor is Σ_k exp{⟨W_k, t(π)⟩ + c_k + ⟨T(x), t(θ_k)⟩ + log h(x)}: a configuration adds W_k to the weights and T(x)
# to one of the components, so a projection needs A(η + αW_k) − A(η) for every k, and the means ∇A(η + αW_k).


class Factor(NamedTuple):
    """The factor of one datum: T(x) and log h(x)."""

    statistics: Any
    log_base: Float[Array, ""]


class MixtureTilted(Tilted):
    """A member of the family, η̂, times a factor to the power α: a mixture of K members."""

    value: Float[Array, ""]  # A(η̂)
    log_terms: Float[Array, " k"]  # log R
    terms: WeightTerms
    weights: Any
    without: Any  # the components at η̂
    with_datum: Any  # and at η̂ + αT

    def match(self, r: Float[Array, " k"], guess: Blocks) -> Blocks:
        """The member with the moments of the mixture, weighted by r (3.23–3.26, 3.77)."""
        blocks = {"components": self.components(r, guess)}
        name = weights_name(guess)
        if name is not None:
            blocks[name] = guess[name].match(self.terms.mixed_mean(self.weights, r))
        return blocks

    def components(self, r: Float[Array, " k"], guess: Blocks) -> Family:
        return self.without.mix_means(self.with_datum, r)


def weights_name(blocks: Iterable[str]) -> str | None:
    """The name of the block besides the components: the weights, or the sticks from which they are broken."""
    return next((name for name in blocks if name != "components"), None)


def weights_of(blocks: dict[str, Any]) -> Any:
    name = weights_name(blocks)
    return None if name is None else blocks[name]


class WeightTerms(Terms):
    """The factors of a mixture; subclasses differ in the kind of its weights."""

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
        """(A(η + power·W_k) − A(η) + power·c_k for every k, the `parts` for `mixed_mean`)."""

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
    """Weights whose logarithms are affine in the statistics of a family: stick breaking, for example."""

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
        if isinstance(power, float) and power == 1.0:
            return jnp.log(delta) - jnp.log(total(delta)), (delta, power)  # E[π]
        return _log_power(weights, power), (delta, power)

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


class SeenTilted(MixtureTilted):
    """`MixtureTilted` by mean parameters: `without` at η̂, and `with_datum`, which a datum adds to those of its
    component. They are the gradient in η of log ∫ exp⟨η, t⟩ p(x_seen | θ)^α."""

    def components(self, r: Float[Array, " k"], guess: Blocks) -> Family:
        return guess["components"].match(self.without + self.with_datum * r)


class SeenTerms(Terms):
    """The factors of a mixture whose rows have missing columns: only the integral of p(x_seen | θ_k) against a member
    is known. A factor is a row. α → 0 is variational Bayes with a separate q(missing columns)."""

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
    """The terms of this model; the W_k are derivatives of its log weights unless these are Dirichlet."""
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


# ---- chains --------------------------------------------------------------------------------------------------
#
# f_t = A_(z_(t−1) z_t) p(x_t | θ_(z_t)), with π_(z_1) in place of A where a sequence begins. A configuration is the
# pair (i, j) of the states before and at the step; where no state comes before, only i = 0 is possible.


class StepFactor(NamedTuple):
    """T(x), log h(x), and whether a sequence begins here."""

    statistics: Any
    log_base: Float[Array, ""]
    first: Bool[Array, ""]


class StepTilted(Tilted):
    value: Float[Array, ""]
    log_terms: Float[Array, "k k"]
    without: Blocks
    with_datum: Family  # the emissions
    first: Bool[Array, ""]
    power: Float[Array, ""]

    def match(self, r: Float[Array, "k k"], guess: Blocks) -> Blocks:
        here = jnp.sum(r, axis=0)
        moves, enters = _shares(self.first, r)
        return {
            "initial": self._matched("initial", enters, guess),
            "transitions": self._matched("transitions", moves, guess),
            "emissions": self.without["emissions"].mix_means(self.with_datum, here),
        }

    def _matched(self, name: str, r: Float[Array, "*b k"], guess: Blocks) -> Family:
        """Match rows of Dirichlet variables of which one entry, chosen with the probabilities r, was seen."""
        block = self.without[name]
        assert isinstance(block, Dirichlet)
        delta, seen = block.concentration, jnp.sum(r, axis=-1, keepdims=True)
        whole = total(delta)[..., None]
        own = digamma(delta) + r * (digamma(delta + self.power) - digamma(delta))
        norm = digamma(whole) + seen * (digamma(whole + self.power) - digamma(whole))
        return guess[name].match(DirichletVector(own - norm))


class StepTerms(Terms):
    """The blocks are "initial", "transitions" and "emissions"."""

    def tilt(self, blocks: Blocks, factor: StepFactor, power: float) -> StepTilted:
        emissions = blocks["emissions"]
        with_datum = emissions + factor.statistics.expand(0) * power
        seen = with_datum.log_normaliser() - emissions.log_normaliser() + power * factor.log_base
        entry = _entry(factor.first, _log_power(blocks["initial"], power), _log_power(blocks["transitions"], power))
        return StepTilted(
            log_normaliser(blocks), entry + seen[None], blocks, with_datum, factor.first, jnp.asarray(power)
        )

    def expected(self, mean: Natural, factor: StepFactor) -> Float[Array, "k k"]:
        seen = factor.statistics.expand(0).dot(mean["emissions"]) + factor.log_base
        return _entry(factor.first, mean["initial"].log, mean["transitions"].log) + seen[None]

    def message(self, mean: Natural, factor: StepFactor, r: Float[Array, "k k"]) -> Natural:
        moves, enters = _shares(factor.first, r)
        return {
            "initial": DirichletVector(enters),
            "transitions": DirichletVector(moves),
            "emissions": factor.statistics.expand(0) * jnp.sum(r, axis=0),
        }


def step_factors(pair: Pair, x: Float[Array, "t d"], first: Bool[Array, " t"]) -> StepFactor:
    """The factors of all steps; a step without any seen value says nothing about its state."""
    x = x.astype(jnp.float64)
    seen = ~jnp.all(jnp.isnan(x), axis=-1)
    filled = jnp.where(seen[:, None], x, 0.0)
    statistics = pair.statistics(filled) * seen.astype(jnp.float64)
    return StepFactor(statistics, jnp.where(seen, pair.log_base(filled), 0.0), first)


def _entry(
    first: Bool[Array, ""], initial: Float[Array, " k"], transitions: Float[Array, "k k"]
) -> Float[Array, "k k"]:
    """The log weight of each pair of states: a transition, or the first state where a sequence begins."""
    alone = jnp.where(jnp.arange(initial.shape[0])[:, None] == 0, initial[None], -jnp.inf)
    return jnp.where(first, alone, transitions)


def _shares(first: Bool[Array, ""], r: Float[Array, "k k"]) -> tuple[Float[Array, "k k"], Float[Array, " k"]]:
    """The shares r of the pairs, as counts of transitions and of first states: one of the two is zero."""
    return jnp.where(first, 0.0, r), jnp.where(first, jnp.sum(r, axis=0), 0.0)


def _log_power(block: Family, power: ArrayLike) -> Float[Array, "*b k"]:
    """log E[π_k^α] of rows of Dirichlet variables."""
    assert isinstance(block, Dirichlet)
    delta = block.concentration
    whole = total(delta)[..., None]
    return log_gamma(delta + power) - log_gamma(delta) - (log_gamma(whole + power) - log_gamma(whole))
