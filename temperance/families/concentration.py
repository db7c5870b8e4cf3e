"""The prior that is conjugate to a Dirichlet: over its concentration, when that is learned.

θ ~ Dirichlet(α) has log density ⟨α, log θ⟩ − A(α) − Σ log θ, so the statistics of α are (α, −A(α)), and
natural parameters (s, n) are the sum of log θ over n draws. The normaliser has no closed form, but the mode does
not need it: E_α[log θ] = s/n. So this family is used inside `Point`.
"""

from __future__ import annotations

from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..errors import UnsupportedMethod
from ._family import Family, Vector
from .dirichlet import Dirichlet, DirichletVector, match_log_mean


class ConcentrationVector(Vector):
    """η = (s, n), t(α) = (α, −A(α)); if all categories share one α, s is summed over the categories."""

    concentration: Float[Array, "*b k"]
    minus_log_normaliser: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("vector", "scalar")


class Concentration(Family):
    """p(α) ∝ exp{⟨s, α⟩ − n A(α)}: what n draws of θ with Σ log θ = s say about α.

    With `size` given, α is one number for all of `size` categories (and has a last axis of one).
    """

    natural: ConcentrationVector
    size: int | None = eqx.field(static=True)

    def __init__(self, concentration: ArrayLike, draws: float = 1.0, size: int | None = None):
        """The prior with mode `concentration`, worth `draws` observed draws."""
        alpha = jnp.asarray(concentration, dtype=jnp.float64)
        mean = Dirichlet(self._full(alpha, size)).mean().log
        total = jnp.sum(mean, axis=-1, keepdims=True) if size is not None else mean
        self.natural = ConcentrationVector(draws * total, jnp.full(alpha.shape[:-1], draws))
        self.size = size

    @staticmethod
    def _full(alpha: Float[Array, "*b k"], size: int | None) -> Float[Array, "*b c"]:
        return alpha if size is None else jnp.broadcast_to(alpha, (*alpha.shape[:-1], size))

    def with_natural(self, natural: ConcentrationVector) -> Self:
        family = object.__new__(type(self))
        object.__setattr__(family, "natural", natural)
        object.__setattr__(family, "size", self.size)
        return family

    def mode(self) -> Float[Array, "*b k"]:
        mean = self.natural.concentration / self.natural.minus_log_normaliser[..., None]
        if self.size is None:
            return match_log_mean(mean, jnp.ones_like(mean))
        each = self._full(mean / self.size, self.size)
        return match_log_mean(each, jnp.ones_like(each))[..., :1]

    def statistics(self, draw: Float[Array, "*b k"]) -> ConcentrationVector:
        likelihood = Dirichlet.from_natural(DirichletVector(self._full(draw, self.size) - 1.0))
        return ConcentrationVector(draw, -likelihood.log_normaliser())

    def is_proper(self) -> Bool[Array, "*b"]:
        return self.natural.minus_log_normaliser > 0

    def log_normaliser(self) -> Float[Array, "*b"]:
        raise UnsupportedMethod("a concentration has no closed-form normaliser: use it inside Point")

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b k"]:
        raise UnsupportedMethod("a concentration cannot be drawn: use it inside Point")

    @classmethod
    def from_mean(cls, mean: ConcentrationVector, guess: Self | None = None) -> Self:
        raise UnsupportedMethod("a concentration has no closed-form mean: use it inside Point")
