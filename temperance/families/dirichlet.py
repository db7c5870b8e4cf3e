"""Dirichlet over the simplex, and the categorical and multinomial likelihoods it is conjugate to."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..errors import InvalidData
from ..numerics.linalg import total
from ..numerics.random import log_gamma_variate
from ..numerics.special import digamma, inverse_digamma, log_gamma, safe_log, trigamma, trigamma_deficit
from ._family import ClosedForm, Family, Vector, closed_form
from ._pair import Pair, check_counts, first_of
from ._parameters import as_arrays, parameters, require, require_finite_positive


class DirichletVector(Vector):
    """η = δ − 1, t(π) = log π. Its part is `log`."""

    log: Float[Array, "*b k"]

    kinds: ClassVar[tuple[str, ...]] = ("vector",)


def _value_and_mean(natural: DirichletVector) -> tuple[Float[Array, "*b"], DirichletVector]:
    delta = natural.log + 1.0
    whole = total(delta)
    return total(log_gamma(delta)) - log_gamma(whole), DirichletVector(digamma(delta) - digamma(whole)[..., None])


class Dirichlet(Family):
    """p(π) ∝ Π_k π_k^(δ_k − 1), with δ the `concentration`: one number above 0 per category."""

    natural: DirichletVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, concentration: ArrayLike):
        (delta,) = parameters(concentration=(concentration, 1))
        require(delta.shape[-1] > 0, "concentration must have at least one category")
        require_finite_positive(concentration=delta)
        self.natural = as_arrays(DirichletVector(delta - 1.0))

    @property
    def concentration(self) -> Float[Array, "*b k"]:
        return self.natural.log + 1.0

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.log > -1.0).all(axis=-1)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b k"]:
        # By the logarithms of gamma draws: with small concentrations the draws themselves underflow to zero.
        return jnp.exp(self.sample_log(key))

    def sample_log(self, key: Key[Array, ""]) -> Float[Array, "*b k"]:
        return jax.nn.log_softmax(log_gamma_variate(key, self.concentration), axis=-1)

    def statistics(self, draw: Float[Array, "*b k"]) -> DirichletVector:
        # The smallest normal number stands for an underflowed zero, so that statistics stay finite.
        return DirichletVector(jnp.log(jnp.maximum(draw, jnp.finfo(draw.dtype).tiny)))

    def worth(self, times: float) -> Self:
        return self.from_natural(DirichletVector(times * self.concentration - 1.0))

    def mode(self) -> Float[Array, "*b k"]:
        counts = jnp.maximum(self.natural.log, 0.0)
        total = jnp.sum(counts, axis=-1, keepdims=True)
        return jnp.where(total > 0, counts / jnp.where(total > 0, total, 1.0), 1.0 / counts.shape[-1])

    def described(self) -> dict[str, Any]:
        return {"probabilities": self.concentration / self.concentration.sum(axis=-1, keepdims=True)}

    @classmethod
    def from_mean(cls, mean: DirichletVector, guess: Self | None = None) -> Self:
        start = _start(mean.log) if guess is None else guess.concentration
        return cls.from_natural(DirichletVector(match_log_mean(mean.log, start) - 1.0))


def _start(log_mean: Float[Array, "*b k"]) -> Float[Array, "*b k"]:
    """A start for `match_log_mean`: for large totals Σ exp E[log π] ≈ 1 − (K − 1)/(2 Σδ), which gives Σδ; a fixed-point
    step of Minka's then sets the shares."""
    k = log_mean.shape[-1]
    missing = jnp.maximum(-jnp.expm1(jax.nn.logsumexp(log_mean, axis=-1, keepdims=True)), 1e-16)
    total = jnp.maximum((k - 1) / 2, 0.5) / missing
    return inverse_digamma(digamma(total) + log_mean)


def match_log_mean(log_mean: Float[Array, "*b k"], start: Float[Array, "*b k"]) -> Float[Array, "*b k"]:
    """Solve ψ(δ_k) − ψ(Σδ) = `log_mean` for δ by Newton, in O(k) a step, until only rounding is left.

    The Jacobian is D − 11ᵀψ′(Σδ) (latent-variable thesis 3.36–3.37, corrected): Sherman–Morrison inverts it.
    A step may not shrink a coordinate below a quarter of itself: Newton cannot leave the domain.
    """
    if log_mean.shape[-1] == 1:
        return start  # π = 1 whatever its concentration

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        count, _, residual = carry
        return (count < 200) & (residual > 16.0 * jnp.finfo(jnp.float64).eps)

    def body(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, delta, _ = carry
        return count + 1, *_newton_step(delta, log_mean)

    return jax.lax.while_loop(unfinished, body, (jnp.asarray(0), start, jnp.asarray(jnp.inf)))[1]


def _newton_step(
    delta: Float[Array, "*b k"], log_mean: Float[Array, "*b k"]
) -> tuple[Float[Array, "*b k"], Float[Array, ""]]:
    """The next δ, and the residual at the present δ, relative to the terms whose difference it is."""
    whole = total(delta)[..., None]
    psi, psi_whole, slope = digamma(delta), digamma(whole), trigamma(delta)
    residual = psi - psi_whole - log_mean
    terms = 1.0 + jnp.abs(psi) + jnp.abs(psi_whole) + jnp.abs(log_mean)
    shares = residual / slope
    # 1/ψ′(Σδ) − Σ 1/ψ′(δ_k) > 0; in this form, its terms would cancel for large counts.
    denominator = total(trigamma_deficit(delta, slope))[..., None] - trigamma_deficit(whole, trigamma(whole))
    together = total(shares)[..., None]
    both = shares + together / (slope * denominator)
    # With large counts the log mean says little about the total, which the squared error of the shares would
    # throw off by orders of magnitude: then the shares converge first.
    uneven = jnp.where(delta > 1.0, jnp.square(shares - together / whole * delta) / delta, 0.0)
    error = total(uneven)[..., None]
    unsettled = error > 0.5 * jnp.maximum(denominator, 0.5)
    largest = jnp.where(unsettled, 4.0, 16.0) * delta + 1.0
    updated = jnp.clip(delta - jnp.where(unsettled, shares, both), 0.25 * delta, largest)
    return updated, jnp.max(jnp.abs(residual) / terms)


_LEVELS = 10_000  # more than a column of categories has, fewer than a column of ids or a stray code would need


class Categorical(Pair):
    """x ∈ {0, …, levels − 1} with probabilities π ~ Dirichlet."""

    levels: int | None = eqx.field(static=True, default=None)  # by default one more than the largest value seen

    def check(self, x: np.ndarray) -> np.ndarray:
        if self.levels is None and (large := x >= _LEVELS).any():
            raise InvalidData(
                f"categorical data must be whole numbers 0 to {_LEVELS - 1}, found {first_of(x, large)}, which would "
                "ask for a level for each number up to it: number the levels 0, 1, 2, …, or state how many there are "
                "(tp.Categorical(levels=…))"
            )
        return check_counts(x, "categorical data", None if self.levels is None else self.levels - 1)

    def complete(self, x: np.ndarray) -> Self:
        from ..data.memory import require_memory

        levels = self.levels if self.levels is not None else int(np.nanmax(x)) + 1
        require_memory(8 * x.size * levels, f"{x.size} categorical values with {levels} levels each")
        return type(self)(levels)

    def statistics(self, x: Float[Array, " n"]) -> DirichletVector:
        assert self.levels is not None, "complete() has to be called first"
        return DirichletVector(jax.nn.one_hot(x.astype(int), self.levels, dtype=jnp.float64))

    def log_base(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.zeros(x.shape)

    def sample(self, key: Key[Array, ""], draw: Float[Array, "*b k"]) -> Float[Array, "*b"]:
        return jax.random.categorical(key, safe_log(draw), axis=-1).astype(jnp.float64)

    def default_prior(self, x: Any, size: int) -> Dirichlet:
        """Uniform over the simplex."""
        assert self.levels is not None
        return Dirichlet(np.ones((size, self.levels)))


class Multinomial(Pair):
    """A vector of counts x over categories, with probabilities π ~ Dirichlet."""

    total: int | None = eqx.field(static=True, default=None)  # needed only to simulate

    def check(self, x: np.ndarray) -> np.ndarray:
        if np.isnan(x).any():
            raise InvalidData("multinomial counts must not be missing")
        return check_counts(x, "multinomial counts")

    def coordinates(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return x / jnp.maximum(jnp.sum(x, axis=-1, keepdims=True), 1.0)

    def statistics(self, x: Float[Array, "n k"]) -> DirichletVector:
        return DirichletVector(x)

    def log_base(self, x: Float[Array, "n k"]) -> Float[Array, " n"]:
        return log_gamma(jnp.sum(x, axis=-1) + 1.0) - jnp.sum(log_gamma(x + 1.0), axis=-1)

    def sample(self, key: Key[Array, ""], draw: Float[Array, "*b k"]) -> Float[Array, "*b k"]:
        require(self.total is not None, "Multinomial(total=…) is needed to simulate counts")
        return jax.random.multinomial(key, jnp.asarray(float(self.total or 0)), draw)

    def default_prior(self, x: Any, size: int) -> Dirichlet:
        return Dirichlet(np.ones((size, x.shape[-1])))
