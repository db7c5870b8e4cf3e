"""Priors of proportions and of topics that depend on other blocks."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...families.dirichlet import Dirichlet, DirichletVector
from ...numerics.special import log_gamma
from .._model import Conditional, Means

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LEAST = 1e-8  # variance of a: derivatives of sums over nodes need one
_LARGEST = 50.0  # exponent


class Symmetric(Conditional):
    """p(θ | α) = Dirichlet(α), with α a learned block; `shape` is that of all the θ."""

    parents: tuple[str, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def natural(self, m: Means) -> DirichletVector:
        alpha = m[self.parents[0]].concentration
        return DirichletVector(jnp.broadcast_to((alpha - 1.0)[None], self.shape))

    def log_normaliser(self, m: Means) -> Float[Array, " n"]:
        return jnp.broadcast_to(-m[self.parents[0]].minus_log_normaliser, self.shape[:1])

    def family(self, natural: DirichletVector) -> Dirichlet:
        return Dirichlet.from_natural(natural)


class Regressed(Conditional):
    """p(θ_d | λ) = Dirichlet(exp(λ x_d)), a row for each document."""

    parents: tuple[str, ...] = eqx.field(static=True)
    design: Float[Array, "n p"]

    def moments(self, m: Means) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """Mean and variance of a."""
        coefficients = m[self.parents[0]]
        mean = self.design @ coefficients.linear.T
        # `precision` of a Normal's statistics is −½ E[λ λᵀ].
        square = -2.0 * jnp.einsum("np,kpq,nq->nk", self.design, coefficients.precision, self.design)
        return mean, jnp.maximum(square - jnp.square(mean), _LEAST)

    def expected(self, m: Means) -> Float[Array, "n k"]:
        """E α."""
        mean, variance = self.moments(m)
        return jnp.exp(jnp.minimum(mean + 0.5 * variance, _LARGEST))

    def natural(self, m: Means) -> DirichletVector:
        return DirichletVector(self.expected(m) - 1.0)

    def log_normaliser(self, m: Means) -> Float[Array, " n"]:
        """An upper bound on the expected log normaliser."""
        mean, variance = self.moments(m)

        def node(total: Array, here: tuple[Array, Array]) -> tuple[Array, None]:
            place, weight = here
            alpha = jnp.exp(jnp.minimum(mean + jnp.sqrt(variance) * place, _LARGEST))
            return total + weight * jnp.sum(log_gamma(alpha), axis=1), None

        start = jnp.zeros(mean.shape[0])
        each = jax.lax.scan(node, start, (jnp.asarray(_NODES), jnp.asarray(_WEIGHTS)))[0]
        return each - log_gamma(jnp.sum(self.expected(m), axis=1))

    def family(self, natural: DirichletVector) -> Dirichlet:
        return Dirichlet.from_natural(natural)
