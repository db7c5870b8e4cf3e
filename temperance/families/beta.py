"""Beta over probabilities, and the Bernoulli likelihood it is conjugate to."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from ..numerics.special import digamma, log_gamma
from ._family import ClosedForm, Family, Vector, closed_form
from ._pair import Pair, check_counts
from ._parameters import as_arrays, parameters, require_finite_positive
from .dirichlet import Dirichlet, DirichletVector


class BetaVector(Vector):
    """η = (a − 1, b − 1), t(p) = (log p, log(1 − p)). Its parts are `log` and `log_complement`."""

    log: Float[Array, "*b"]
    log_complement: Float[Array, "*b"]

    kinds: ClassVar[tuple[str, ...]] = ("scalar", "scalar")


def _value_and_mean(natural: BetaVector) -> tuple[Float[Array, "*b"], BetaVector]:
    a, b = natural.log + 1.0, natural.log_complement + 1.0
    psi = digamma(a + b)
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b), BetaVector(digamma(a) - psi, digamma(b) - psi)


class Beta(Family):
    """p(p) ∝ p^(a − 1) (1 − p)^(b − 1), with `a` and `b` above 0."""

    natural: BetaVector
    closed: ClassVar[ClosedForm | None] = closed_form(_value_and_mean)

    def __init__(self, a: ArrayLike, b: ArrayLike):
        first, second = parameters(a=(a, 0), b=(b, 0))
        require_finite_positive(a=first, b=second)
        self.natural = as_arrays(BetaVector(first - 1.0, second - 1.0))

    @property
    def a(self) -> Float[Array, "*b"]:
        return self.natural.log + 1.0

    @property
    def b(self) -> Float[Array, "*b"]:
        return self.natural.log_complement + 1.0

    def is_proper(self) -> Bool[Array, "*b"]:
        return (self.natural.log > -1.0) & (self.natural.log_complement > -1.0)

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*b"]:
        return self._dirichlet().sample(key)[..., 0]

    def statistics(self, draw: Float[Array, "*b"]) -> BetaVector:
        # Replacements for draws that rounded to 0 or to 1, from which the nearest numbers are 2⁻¹⁰²² and 2⁻⁵³ away.
        info = jnp.finfo(draw.dtype)
        return BetaVector(jnp.log(jnp.maximum(draw, info.tiny)), jnp.log(jnp.maximum(1.0 - draw, 0.25 * info.eps)))

    def worth(self, times: float) -> Self:
        return self.from_natural(BetaVector(times * self.a - 1.0, times * self.b - 1.0))

    def mode(self) -> Float[Array, "*b"]:
        return self._dirichlet().mode()[..., 0]

    def described(self) -> dict[str, Any]:
        return {"probability": self.a / (self.a + self.b)}

    @classmethod
    def from_mean(cls, mean: BetaVector, guess: Self | None = None) -> Self:
        stacked = DirichletVector(jnp.stack([mean.log, mean.log_complement], axis=-1))
        log = Dirichlet.from_mean(stacked, None if guess is None else guess._dirichlet()).natural.log
        return cls.from_natural(BetaVector(log[..., 0], log[..., 1]))

    def _dirichlet(self) -> Dirichlet:
        """The same density as a Dirichlet of two categories."""
        natural = DirichletVector(jnp.stack([self.natural.log, self.natural.log_complement], axis=-1))
        return Dirichlet.from_natural(natural)


class Bernoulli(Pair):
    """x ∈ {0, 1} with probability p ~ Beta."""

    def check(self, x: np.ndarray) -> np.ndarray:
        return check_counts(x, "Bernoulli data", 1)

    def statistics(self, x: Float[Array, "*n"]) -> BetaVector:
        return BetaVector(x, 1.0 - x)

    def log_base(self, x: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.zeros(x.shape)

    def sample(self, key: Key[Array, ""], draw: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return jax.random.bernoulli(key, draw).astype(jnp.float64)

    def default_prior(self, x: Any, size: int) -> Beta:
        """The uniform prior."""
        return Beta(np.ones(size), np.ones(size))
