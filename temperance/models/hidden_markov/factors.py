"""The factors of a hidden Markov model: f_t = A_(z_(t−1) z_t) p(x_t | θ_(z_t)), π_(z_1) in place of A at a start.

A configuration is the pair (i, j) of the states before and at the step; at the start of a sequence, where there is no
state before, i = 0 stands for all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...families import Dirichlet, DirichletVector, Family, Pair
from ...numerics.linalg import total
from ...numerics.special import digamma, log_gamma
from .._factors import Blocks, Natural, Terms, Tilted, log_normaliser


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
        """Of rows of Dirichlet variables of which one entry, chosen with the probabilities r, was seen."""
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
    """Every step; one that is missing as a whole says nothing about its state."""
    x = x.astype(jnp.float64)
    seen = ~jnp.all(jnp.isnan(x), axis=-1)
    filled = jnp.where(seen[:, None], x, 0.0)
    statistics = pair.statistics(filled) * seen.astype(jnp.float64)
    return StepFactor(statistics, jnp.where(seen, pair.log_base(filled), 0.0), first)


def _entry(
    first: Bool[Array, ""], initial: Float[Array, " k"], transitions: Float[Array, "k k"]
) -> Float[Array, "k k"]:
    alone = jnp.where(jnp.arange(initial.shape[0])[:, None] == 0, initial[None], -jnp.inf)
    return jnp.where(first, alone, transitions)


def _shares(first: Bool[Array, ""], r: Float[Array, "k k"]) -> tuple[Float[Array, "k k"], Float[Array, " k"]]:
    """What the transitions and the first state are seen to do."""
    return jnp.where(first, 0.0, r), jnp.where(first, jnp.sum(r, axis=0), 0.0)


def _log_power(block: Family, power: float) -> Float[Array, "*b k"]:
    """log E[π_k^α]."""
    assert isinstance(block, Dirichlet)
    delta = block.concentration
    whole = total(delta)[..., None]
    return log_gamma(delta + power) - log_gamma(delta) - log_gamma(whole + power) + log_gamma(whole)
