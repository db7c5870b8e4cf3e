"""Factorial mixtures of few factors, with the 2ᴷ states of every datum summed out.

Given a state the term of a datum is linear in the statistics of all blocks, so that message passing, Laplace's
approximation and importance sampling treat the factorial mixture like any other finite mixture.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..families import MatrixNormalGammaVector
from ..families._family import Family
from ..numerics.binary import all_states, log_states
from ..numerics.latents import sum_out
from ._blocks import means
from ._data import Data
from ._factors import Factored, Factors, LinearTerms, exact_prior, written_out
from ._model import Conditional, Group, Means, Posterior, Powers, column
from .factorial import Activation, FactorialMixture


class SummedFactorialMixture(FactorialMixture, Factored):
    """What `FactorialMixture.summed` makes."""

    local_groups: ClassVar[tuple[Group, ...]] = ()

    def local_prior(self, x: Any) -> dict[str, Family | Conditional]:
        return {}

    def log_evidence(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        return sum_out(self._log_joint(m, x, powers), key)

    def _log_joint(self, m: Means, x: Any, powers: Powers = Powers()) -> Float[Array, "n s"]:
        """E log p(x, z | θ) for every state z."""
        states, w = all_states(self.n_factors), self._weights(m)
        on, off = Activation(self.probability, 1).logs(m)
        prior = log_states(on[0], off[0], states)
        latent, observation = jnp.asarray(column(powers.latent)), jnp.asarray(column(powers.observation))
        return latent * prior[None] + observation * _observed(w, x, states)

    def factors(self, data: Data) -> Factors:
        def log_terms(m: Means, row: Array) -> Float[Array, " s"]:
            return self._log_joint(m, row[None])[0]

        return Factors(written_out(log_terms, exact_prior(self), data.values), data.weights > 0, LinearTerms())

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        share = draws["probability"] if self.probability is None else self.probability
        z = jax.random.bernoulli(key_z, share, (n, self.n_factors)).astype(jnp.float64)
        return self.simulate_given(key_x, draws, {"z": z})

    def responsibilities(self, q: Posterior, x: Any) -> Float[Array, "n k"]:
        return jax.nn.softmax(self._log_joint(means(q.blocks), x), axis=1) @ all_states(self.n_factors)


def _observed(w: MatrixNormalGammaVector, x: Float[Array, "n d"], z: Float[Array, "s k"]) -> Float[Array, "n s"]:
    """E log p(x | z, θ)."""
    own = w.second * jnp.sum(jnp.square(x), axis=1) + x.shape[1] * (w.dof - 0.5 * jnp.log(2.0 * jnp.pi))
    return x @ w.cross.T @ z.T + jnp.sum((z @ w.gram) * z, axis=1)[None] + own[:, None]
