"""What message passing asks of a model: its factors, and the moments of a family times one of them.

The likelihood is a product of factors, one for each datum (or step of a sequence). Given a configuration c of its
discrete latents, a factor is a member of the family,

    f_n(θ, c) = exp{⟨T_nc, t(θ)⟩ + log h_nc},

linear in the statistics of all blocks together. A cavity η times f^α is then a finite mixture of members, and its scale
and its moments are log normalisers and their gradients. The configurations are the values of the datum's own latents,
or the pairs (z_(t−1), z_t) of neighbouring states of a chain. What a site is follows: natural parameters η̃_n, and a
number (its scale) for each configuration that other factors share.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8

from ..families import Family, Point
from ..numerics.linalg import total
from ._blocks import rows_sum
from ._data import Data
from ._model import Model

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
        """⟨T_c, mean⟩ + log h_c: what α → 0 needs."""

    @abstractmethod
    def message(self, mean: Natural, factor: Any, r: Float[Array, "*c"]) -> Natural:
        """Σ_c r_c T_c: the derivative of `expected` at the mean, weighted."""


class Factors(eqx.Module):
    """The factors of all data."""

    each: Any  # what each datum brings, with a leading axis of data
    live: Bool[Array, " n"]  # False for padding
    terms: Terms
    starts: Int8[Array, " n"] | None = None  # of chains: as in `numerics.chains`; None where each datum is by itself
    gaussian: bool = eqx.field(static=True, default=False)  # T(x) = (x, 1, x xᵀ, 1): passes may have a kernel


class Factored(Model):
    """A model whose likelihood is a product of such factors."""

    @abstractmethod
    def factors(self, data: Data) -> Factors: ...

    @property
    def chained(self) -> bool:
        """Whether neighbouring factors share a discrete latent."""
        return False

    @property
    def linear_factors(self) -> bool:
        """Whether the factors are of the form above, so that products of several can be integrated, too."""
        return True

    def no_factors(self) -> str:
        """Why message passing cannot treat this model, as the end of a sentence; empty where it can."""
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
    """T_c and log h_c of every row, from the affine function of the statistics that they define."""
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
    """The prior, as families."""
    return {name: family for name, family in model.prior.items()}  # type: ignore[misc]


def weighted(vectors: Any, r: Float[Array, " c"]) -> Any:
    """Σ_c r_c v_c."""
    return jax.tree.map(lambda leaf: jnp.tensordot(r, leaf, axes=1), vectors)
