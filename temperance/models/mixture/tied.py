"""Gaussian mixtures whose components share one precision matrix."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...data import column_moments
from ...errors import InvalidParameter
from ...families import MatrixNormalWishart, NormalWishart, Point
from ...families._family import LOG_2PI, Family
from ...families.matrix_normal_wishart import MatrixNormalWishartVector
from ...families.normal_wishart import NormalWishartVector
from ...families.translate import translate
from ...numerics.linalg import cholesky, outer, transpose, transposed_solve_vector
from ...numerics.special import safe_log
from .._about import Symmetry, one_set
from .._blocks import Tempering
from .._data import Data
from .._factors import Factors, LinearTerms, exact_prior, written_out
from .._model import Means, Posterior, Powers, column
from . import Mixture
from .likelihoods import MixtureTempering
from .starts import match_start
from .variants import DirichletProcessMixture, GaussianMixture


class TiedTempering(MixtureTempering):
    """Tempering with a shared precision, which counts for every datum, whatever its component."""

    def log_base(self, data: Data) -> None:
        return None


class TiedMixture(Mixture):
    """A mixture whose components share one precision. `prior` is the Normal-Wishart of one mean and that precision, or
    a posterior of this model."""

    one_by_one: ClassVar[bool] = False

    def log_joint_z(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, "n k"]:
        tied: MatrixNormalWishartVector = m["components"]
        shared = jnp.sum((x @ tied.outputs) * x, axis=1) + tied.dof - 0.5 * x.shape[1] * LOG_2PI
        observed = x @ tied.cross + jnp.diagonal(tied.inputs)[None] + shared[:, None]
        latent, observation = jnp.asarray(column(powers.latent)), jnp.asarray(column(powers.observation))
        return latent * self.log_weights(m)[None] + observation * observed

    @property
    def symmetry(self) -> Symmetry | None:
        axes: dict[str, tuple[int, ...]] = {"weights": (0,), "known": (0,)}
        axes |= {"components.cross": (1,), "components.inputs": (0, 1), "components.weights": (1,)}
        compared = tuple(name for name in ("weights", "components") if name in self.prior)
        return one_set(self.n_components, axes, self.prior | {"known": self.known}, compared=compared)

    def packed(self, m: Means) -> Means:
        return m

    @property
    def tempering(self) -> Tempering:
        return TiedTempering(self)

    def each(self, components: Family) -> Family:
        """The distribution of each (μ_k, Λ) by itself."""
        if isinstance(components, Point):
            inner = self.each(components.inner)
            natural = eqx.tree_at(
                lambda natural: natural.dof,
                inner.natural,
                jnp.broadcast_to(components.natural.dof, inner.batch_shape),
            )
            return Point(inner.with_natural(natural))  # with the mode of the shared precision
        assert isinstance(components, MatrixNormalWishart)
        location, count = transpose(components.location), jnp.diagonal(components.pseudo_inputs, axis1=-2, axis2=-1)
        second = components.scatter[None] + count[:, None, None] * outer(location, location)
        dof = jnp.full(count.shape, components.dof) - location.shape[-1]
        return NormalWishart.from_natural(NormalWishartVector(count[:, None] * location, count, second, dof))

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_x = jax.random.split(key)
        z = jax.random.categorical(key_z, safe_log(self.draw_weights(draws)), shape=(n,))
        locations, precision = draws["components"]
        noise = jax.random.normal(key_x, (n, precision.shape[-1]))
        factor = jnp.broadcast_to(cholesky(precision), (n, *precision.shape))
        return transpose(locations)[z] + transposed_solve_vector(factor, noise)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        return super().log_predictive(self._alone(q), x)

    @eqx.filter_jit
    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        return super().sample_predictive(key, self._alone(q), n)

    def _alone(self, q: Posterior) -> Posterior:
        return Posterior(q.blocks | {"components": self.each(q.blocks["components"])}, {})

    def _described(self, components: Family) -> dict[str, Any]:
        return self.each(components).described()

    # ---- message passing ------------------------------------------------------------------------------------

    def factors(self, data: Data) -> Factors:
        def log_terms(m: Means, row: Array) -> Float[Array, " k"]:
            return self.log_joint_z(m, row[None])[0]

        rows = data.values.astype(jnp.float64)
        return Factors(written_out(log_terms, exact_prior(self), rows), data.weights > 0, LinearTerms())

    # ---- data in, answers out -----------------------------------------------------------------------------

    def _complete(self, x: np.ndarray, weights: np.ndarray | None = None) -> Self:
        given = self.component_prior
        mean, deviation = column_moments(x, weights)
        shift = jnp.asarray(mean)
        if isinstance(given, NormalWishart) and given.batch_shape == ():
            given = _spread(given, self.n_components)
        if self.missing or not isinstance(given, MatrixNormalWishart | None):
            raise InvalidParameter(
                "components that share a covariance need data without missing values, and a prior that is one "
                f"tp.NormalWishart, got {'missing values' if self.missing else type(given).__name__}"
            )
        if given is None:
            usual = self.pair.default_prior(np.stack([-deviation, deviation]), self.n_components)[0]
            assert isinstance(usual, NormalWishart)
            components = _spread(usual, self.n_components)
        else:
            self._match_width(given, x)
            components = translate(given, -np.asarray(shift))
        start = match_start(self.start, x)
        return eqx.tree_at(
            lambda model: (model.prior, model.shift, model.start),
            self,
            (self.prior | {"components": components}, shift, start),
            is_leaf=lambda leaf: leaf is None,
        )


class TiedGaussianMixture(TiedMixture, GaussianMixture):
    """`GaussianMixture(k, covariance="tied")`."""


class TiedProcessMixture(TiedMixture, DirichletProcessMixture):
    """A `TiedMixture` with the weights of a Dirichlet process."""

    symmetry: ClassVar[None] = None


def _spread(one: NormalWishart, size: int) -> MatrixNormalWishart:
    """The prior of `size` means that share the precision, from that of one mean."""
    location = jnp.broadcast_to(one.location[:, None], (one.location.shape[0], size))
    return MatrixNormalWishart(location, one.pseudo_count * jnp.eye(size), one.dof, one.scatter)
