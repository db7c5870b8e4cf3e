"""Likelihoods p(y | a) of a number a that is linear in Normal variables, with the bounds, moments and derivatives that
methods use.

Every function works on each entry of arrays that broadcast. `expected` is a lower bound on E log p(y | a) by E[a] and
E[a²], exact where a is known:

    logistic   y E[a]/2 − log 2 cosh(√E[a²]/2), y = ±1     Jaakkola & Jordan (2000), the best ξ² = E[a²] put in
    probit     log Φ(y E[a]) − ½ var[a], y = ±1            Albert & Chib (1993), the best q(z) put in
    Poisson    y E[a] − exp{E[a] + ½ var[a]} − log y!      exact under a Gaussian
    intervals  log p(y | E[a]) − ½ β var[a]                as for probit, for z ~ N(a, 1/β) that is seen only in part
    truncated  log p(y | E[a]) − ½ β var[a]                Jensen's inequality: the log normaliser is concave in a
    softmax    log p(y | E[a]) − ½ c Σ_k var[a_k]          Böhning (1992): log Σ exp curves by at most ½ (I − 11ᵀ/K)

All but those of softmax and Poisson are convex in (E[a], E[a²]): a step to their gradient raises the bound.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float, Key

from .._module import Module
from ..numerics.quadrature import gaussian_expectation, tilted_moments
from ..numerics.special import LOG_2PI, log_gamma

FAR = 1e100  # stands for infinity, which has no derivative


class Link(Module):
    """p(y | a), log-concave in the number a."""

    convex: ClassVar[bool] = True

    @abstractmethod
    def log_factor(self, a: Array, y: Array) -> Array:
        """log p(y | a)."""

    @abstractmethod
    def expected(self, mean: Array, square: Array, y: Array) -> Array:
        """A lower bound on E log p(y | a) from E[a] and E[a²], which is exact where a is known."""

    @abstractmethod
    def draw(self, key: Key[Array, ""], a: Array) -> Array:
        """A y for each a."""

    @abstractmethod
    def typical(self, y: Array) -> Array:
        """The a from which a search for the weights starts."""

    @abstractmethod
    def moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        """Mean and variance of y where a ~ N(mean, variance)."""

    def at(self, a: Array) -> tuple[Array, Array]:
        """Mean and variance of y given a."""
        flat = a.reshape(-1)
        mean, variance = self.moments(flat, jnp.zeros_like(flat))
        return mean.reshape(a.shape), variance.reshape(a.shape)

    def expansion(self, a: Array, y: Array) -> tuple[Array, Array, Array]:
        """log p(y | a) and its first two derivatives."""

        def slope(a: Array) -> Array:
            return jax.grad(lambda a: jnp.sum(self.log_factor(a, y)))(a)

        first, second = jax.jvp(slope, (a,), (jnp.ones_like(a),))
        return self.log_factor(a, y), first, second


class YesOrNo(Link):
    """y is −1 or 1."""

    def draw(self, key: Key[Array, ""], a: Array) -> Array:
        yes = jnp.log(jax.random.uniform(key, a.shape)) < self.log_factor(a, jnp.ones_like(a))
        return jnp.where(yes, 1.0, -1.0)

    def typical(self, y: Array) -> Array:
        return jnp.zeros_like(y)

    def moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        yes = jnp.exp(tilted_moments(lambda a: self.log_factor(a, jnp.ones_like(a)), mean, variance).log_z)
        return yes, yes * (1.0 - yes)


class Logistic(YesOrNo):
    def log_factor(self, a: Array, y: Array) -> Array:
        return jax.nn.log_sigmoid(a * y)

    def expected(self, mean: Array, square: Array, y: Array) -> Array:
        small = square < 1e-6
        xi = jnp.sqrt(jnp.where(small, 1.0, square))
        # log 2 cosh(ξ/2), by its series in ξ² close to zero.
        series = jnp.log(2.0) + square / 8.0 - jnp.square(square) / 192.0
        return 0.5 * y * mean - jnp.where(small, series, 0.5 * xi + jnp.log1p(jnp.exp(-xi)))


class Probit(YesOrNo):
    def log_factor(self, a: Array, y: Array) -> Array:
        return log_ndtr(a * y)

    def expected(self, mean: Array, square: Array, y: Array) -> Array:
        return log_ndtr(y * mean) - 0.5 * (square - jnp.square(mean))


class LogPoisson(Link):
    """y ~ Poisson(exp a)."""

    convex: ClassVar[bool] = False

    def log_factor(self, a: Array, y: Array) -> Array:
        return y * a - jnp.exp(a) - log_gamma(y + 1.0)

    def expected(self, mean: Array, square: Array, y: Array) -> Array:
        rate = jnp.exp(mean + 0.5 * (square - jnp.square(mean)))
        return y * mean - rate - log_gamma(y + 1.0)

    def draw(self, key: Key[Array, ""], a: Array) -> Array:
        return jax.random.poisson(key, jnp.exp(a)).astype(a.dtype)

    def typical(self, y: Array) -> Array:
        return jnp.log(y + 0.5)

    def moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        rate = jnp.exp(mean + 0.5 * variance)
        some = variance > 0.0
        # The variance of the rate, e^(2 mean + variance) (e^variance - 1), in logarithms: its factors may be inf and 0.
        log_factor = variance + jnp.log(-jnp.expm1(-jnp.where(some, variance, 1.0)))
        return rate, rate + jnp.where(some, jnp.exp(2.0 * mean + variance + log_factor), 0.0)


# ---- a Normal number of which only a part is seen -------------------------------------------------------------


def log_inside(low: Array, high: Array) -> Array:
    """log{Φ(high) − Φ(low)}, computed in the tail where both terms are small."""
    flip = low + high > 0
    below, above = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    top = log_ndtr(above)
    return top + jnp.log1p(-jnp.exp(jnp.minimum(log_ndtr(below) - top, -1e-300)))


class Partial(Link):
    """A likelihood p(y | a) where y is partial information about z ~ N(a, 1/scale²)."""

    scale: eqx.AbstractVar[Array]

    def expected(self, mean: Array, square: Array, y: Array) -> Array:
        return self.log_factor(mean, y) - 0.5 * jnp.square(self.scale) * (square - jnp.square(mean))


class Interval(Partial):
    """p(y | a) = ∫_I(y) N(z | a, 1/scale²) dz, or the density N(y | a, 1/scale²) where z itself was seen."""

    @abstractmethod
    def interval(self, y: Array) -> tuple[Array, Array]:
        """The ends of I(y), which are equal where z itself was seen."""

    def log_factor(self, a: Array, y: Array) -> Array:
        low, high = (self.scale * (end - a) for end in self.interval(y))
        seen = low == high
        inside = log_inside(jnp.where(seen, low - 1.0, low), high)
        return jnp.where(seen, jnp.log(self.scale) - 0.5 * (LOG_2PI + jnp.square(low)), inside)


class Ordered(Interval):
    """y is the number of cuts that lie below z."""

    scale: Array
    cuts: Float[Array, " c"]

    def interval(self, y: Array) -> tuple[Array, Array]:
        ends, place = jnp.concatenate([jnp.full(1, -FAR), self.cuts, jnp.full(1, FAR)]), y.astype(int)
        return ends[place], ends[place + 1]

    def draw(self, key: Key[Array, ""], a: Array) -> Array:
        z = a + jax.random.normal(key, a.shape)
        return jnp.sum(z[..., None] > self.cuts.reshape((1,) * a.ndim + (-1,)), axis=-1).astype(a.dtype)

    def typical(self, y: Array) -> Array:
        low, high = self.interval(y)
        return 0.5 * (jnp.maximum(low, self.cuts[0] - 1.0) + jnp.minimum(high, self.cuts[-1] + 1.0))

    def moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        above = ndtr((mean[:, None] - self.cuts[None]) / jnp.sqrt(1.0 + variance)[:, None])  # p(y > c)
        first = jnp.sum(above, axis=1)
        second = above @ (2.0 * jnp.arange(len(self.cuts)) + 1.0)
        return first, second - jnp.square(first)


class Censored(Interval):
    """y is z, or the limit beyond which z lies; `moments` are those of z."""

    scale: Array
    lower: Array
    upper: Array

    def interval(self, y: Array) -> tuple[Array, Array]:
        below, above = y <= self.lower, y >= self.upper
        return jnp.where(below, -FAR, jnp.where(above, self.upper, y)), jnp.where(
            above, FAR, jnp.where(below, self.lower, y)
        )

    def draw(self, key: Key[Array, ""], a: Array) -> Array:
        return jnp.clip(a + jax.random.normal(key, a.shape) / self.scale, self.lower, self.upper)

    def typical(self, y: Array) -> Array:
        return y

    def moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        return mean, variance + 1.0 / jnp.square(self.scale)

    def at(self, a: Array) -> tuple[Array, Array]:
        return self.moments(a, jnp.zeros_like(a))


class Truncated(Partial):
    """y is z, which was recorded only if it lies between the limits: N(y | a, 1/scale²) over the mass between them."""

    scale: Array
    lower: Array
    upper: Array

    def _ends(self, a: Array) -> tuple[Array, Array]:
        return self.scale * (self.lower - a), self.scale * (self.upper - a)

    def log_factor(self, a: Array, y: Array) -> Array:
        inside = jnp.clip(y, self.lower, self.upper)  # the stand-in for a missing y may lie outside
        square = jnp.square(self.scale * (inside - a))
        return jnp.log(self.scale) - 0.5 * (LOG_2PI + square) - log_inside(*self._ends(a))

    def draw(self, key: Key[Array, ""], a: Array) -> Array:
        return a + jax.random.truncated_normal(key, *self._ends(a), shape=a.shape) / self.scale

    def typical(self, y: Array) -> Array:
        return y

    def at(self, a: Array) -> tuple[Array, Array]:
        """Mean a + M′/scale² and variance 1/scale² + M″/scale⁴, by derivatives of the log mass M(a)."""

        def mass(a: Array) -> Array:
            return jnp.sum(log_inside(*self._ends(a)))

        first, second = jax.jvp(jax.grad(mass), (a,), (jnp.ones_like(a),))
        precision = jnp.square(self.scale)
        return a + first / precision, jnp.maximum((1.0 + second / precision) / precision, 0.0)

    def moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        first = gaussian_expectation(lambda a: self.at(a)[0], mean, variance)

        def square(a: Array) -> Array:
            centre, spread = self.at(a)
            return spread + jnp.square(centre - first.reshape((1,) * (a.ndim - 1) + (-1,)))

        return first, gaussian_expectation(square, mean, variance)


# ---- classes --------------------------------------------------------------------------------------------------


class Softmax(Module):
    """p(y = k | a) = exp a_k / Σ_j exp a_j; the last axis of a is that of the K classes.

    Where the a_k are independent under the posterior, c = ½ (1 − 1/K); elsewhere ½, with which the bound is convex.
    """

    apart: bool = eqx.field(static=True)

    def log_probabilities(self, a: Float[Array, "*b k"]) -> Float[Array, "*b k"]:
        return jax.nn.log_softmax(a, axis=-1)

    def log_factor(self, a: Float[Array, "*b k"], y: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jnp.sum(self._chosen(a, y) * a, axis=-1) - jax.nn.logsumexp(a, axis=-1)

    def expected(
        self, mean: Float[Array, "*b k"], square: Float[Array, "*b k"], y: Float[Array, "*b"]
    ) -> Float[Array, "*b"]:
        curvature = 0.5 * (1.0 - 1.0 / mean.shape[-1]) if self.apart else 0.5
        return self.log_factor(mean, y) - 0.5 * curvature * jnp.sum(square - jnp.square(mean), axis=-1)

    def expansion(self, a: Float[Array, "*b k"], y: Float[Array, "*b"]) -> tuple[Array, Array, Array]:
        """log p(y | a), its slopes, and the diagonal of its second derivatives."""
        p = jax.nn.softmax(a, axis=-1)
        return self.log_factor(a, y), self._chosen(a, y) - p, -p * (1.0 - p)

    def _chosen(self, a: Float[Array, "*b k"], y: Float[Array, "*b"]) -> Float[Array, "*b k"]:
        number = jnp.arange(a.shape[-1]).reshape((1,) * (a.ndim - 1) + (-1,))
        return (y[..., None].astype(int) == number) * 1.0
