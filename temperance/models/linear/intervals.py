"""Regressions of which a Normal number z ~ N(a, 1/β) is seen as an interval: ordered categories and censored targets.

    p(y | a) = ∫_I(y) N(z | a, 1/β) dz,      or the density N(y | a, 1/β) where z itself was seen

Under VB the bound is log p(y | E a) − ½ β var a, with the best q(z) put in (Albert and Chib, 1993); where z was seen it
is exact. It is convex in the statistics, because z given its interval varies less than before.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, ArrayLike, Float, Key

from ...errors import InvalidData, InvalidParameter
from ...families import Gamma, Normal
from ...numerics.special import LOG_2PI
from .generalised import GeneralisedRegression
from .priors import positive

_FAR = 1e6  # stands for infinity, which has no derivative


class IntervalRegression(GeneralisedRegression):
    """The base of both."""

    scale: Float[Array, ""]  # √β

    def __init__(self, scale: ArrayLike, features: Any, **options: Any):
        super().__init__(features, **options)
        self.scale = jnp.asarray(scale)

    @abstractmethod
    def interval(self, y: Array) -> tuple[Array, Array]:
        """The ends of I(y); the same number twice where z was seen."""

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        low, high = (self.scale * (end.reshape((1,) * (a.ndim - 1) + (-1,)) - a) for end in self.interval(target))
        seen = low == high
        # Φ(h) − Φ(l) = Φ(−l) − Φ(−h): on the side where both are small.
        flip = low + high > 0
        below, above = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
        part = jnp.where(seen, below - 1.0, below)
        top = log_ndtr(above)
        inside = top + jnp.log1p(-jnp.exp(jnp.minimum(log_ndtr(part) - top, -1e-300)))
        return jnp.where(seen, jnp.log(self.scale) - 0.5 * (LOG_2PI + jnp.square(low)), inside)

    def expected(
        self, mean: Float[Array, " n"], square: Float[Array, " n"], target: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        return self.log_factor(mean, target) - 0.5 * jnp.square(self.scale) * (square - jnp.square(mean))


class OrderedRegression(IntervalRegression):
    """Categories 0, 1, 2, … in an order: y is how many of the `cuts` lie below z ~ N(a, 1) (ordered probit).

    The data are a pair (X, y); with one cut, at 0, this is `tp.ProbitRegression`. The other arguments are those of
    `tp.LogisticRegression`; the intercept moves all cuts together.
    """

    cuts: Float[Array, " c"]

    def __init__(
        self,
        cuts: ArrayLike,
        features: Any = None,
        *,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        ard: bool = False,
        offset: int | None = None,
    ):
        ends = np.asarray(cuts, dtype=np.float64)
        if ends.ndim != 1 or not ends.size or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
            raise InvalidParameter(f"cuts must be a row of increasing finite numbers, got {cuts!r}")
        super().__init__(1.0, features, intercept=intercept, prior=prior, ard=ard, offset=offset)
        self.cuts = jnp.asarray(ends)

    def interval(self, y: Array) -> tuple[Array, Array]:
        ends, place = jnp.concatenate([jnp.full(1, -_FAR), self.cuts, jnp.full(1, _FAR)]), y.astype(int)
        return ends[place], ends[place + 1]

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        most = len(self.cuts)
        wrong = (y < 0) | (y > most) | (y != np.floor(y))
        if wrong.any():
            raise InvalidData(f"y must be categories 0 to {most}, as there are {most} cuts, got {y[wrong][0]:g}")
        return y

    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.sum(a[:, None] + jax.random.normal(key, a.shape)[:, None] > self.cuts[None], axis=1).astype(a.dtype)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        low, high = self.interval(target)
        return 0.5 * (jnp.maximum(low, self.cuts[0] - 1.0) + jnp.minimum(high, self.cuts[-1] + 1.0))

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        above = ndtr((mean[:, None] - self.cuts[None]) / jnp.sqrt(1.0 + variance)[:, None])  # p(y > c)
        first = jnp.sum(above, axis=1)
        second = above @ (2.0 * jnp.arange(len(self.cuts)) + 1.0)
        return first, second - jnp.square(first)


class CensoredRegression(IntervalRegression):
    """A linear regression whose targets are cut off: y at `lower` or below says only that z is there, and y at `upper`
    or above likewise (tobit). `noise` is the known precision of z; `predict` gives the mean and variance of z.

    The data are a pair (X, y); the other arguments are those of `tp.LogisticRegression`.
    """

    lower: Float[Array, ""]
    upper: Float[Array, ""]

    def __init__(
        self,
        features: Any = None,
        *,
        lower: float = -np.inf,
        upper: float = np.inf,
        noise: ArrayLike = 1.0,
        intercept: bool | str = True,
        prior: Gamma | Normal | ArrayLike | None = None,
        ard: bool = False,
    ):
        if not lower < upper:
            raise InvalidParameter(f"lower must be below upper, got {lower!r} and {upper!r}")
        root = jnp.sqrt(positive("noise", noise))
        super().__init__(root, features, intercept=intercept, prior=prior, ard=ard)
        self.lower, self.upper = (jnp.asarray(np.clip(float(end), -_FAR, _FAR)) for end in (lower, upper))

    def interval(self, y: Array) -> tuple[Array, Array]:
        below, above = y <= self.lower, y >= self.upper
        return jnp.where(below, -_FAR, jnp.where(above, self.upper, y)), jnp.where(
            above, _FAR, jnp.where(below, self.lower, y)
        )

    def checked_targets(self, y: np.ndarray) -> np.ndarray:
        return np.clip(y, np.asarray(self.lower), np.asarray(self.upper))

    def draw_targets(self, key: Key[Array, ""], a: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.clip(a + jax.random.normal(key, a.shape) / self.scale, self.lower, self.upper)

    def typical(self, target: Float[Array, " n"]) -> Float[Array, " n"]:
        return target

    def target_moments(self, mean: Float[Array, " n"], variance: Float[Array, " n"]) -> tuple[Array, Array]:
        return mean, variance + 1.0 / jnp.square(self.scale)
