"""Robust mixtures: every component is a Student-t, a Gaussian whose precision has a separate scale for each datum.

    z_n ~ π,   u_n | z_n = k ~ Gamma(ν_k/2, ν_k/2),   x_n | z_n = k, u_n ~ N(μ_k, (u_n Λ_k)⁻¹),
    (μ_k, Λ_k) ~ Normal-Wishart,   ν_k uniform on a grid

The scale is integrated out given z and ν. With a_j = ν_j/2, δ = E[(x − μ_k)ᵀ Λ_k (x − μ_k)], and the likelihood and the
latents' prior to the powers s and l, the integral over log u is the Gamma integral

    L_nkj = l (a_j log a_j − log Γ(a_j)) + s E log N(μ_k | μ_k, Λ_k⁻¹) + log Γ(A) − A log B,
    A = l a_j + s d/2,   B = l a_j + s δ/2,

and log p(x, z = k) is l log π_k + Σ_j q(ν_k = ν_j) L_nkj. Everything else is as in `Mixture`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, ArrayLike, Float, Key

from ...errors import InvalidParameter
from ...families import CategoricalDistribution, Gaussian, NormalWishart, Point
from ...families._family import Family
from ...families._parameters import parameters
from ...numerics.linalg import log_det
from ...numerics.place import on_device
from ...numerics.random import log_gamma_variate
from ...numerics.special import log_gamma, log_mix, safe_log
from .._about import COMPONENT, Words
from .._data import Data
from .._model import Group, Means, Posterior, Powers, draw_posterior
from . import Mixture

DEGREES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 50.0, 200.0)

# Quadrature over the scale: the points, and the log of the density, relative to its peak, at both ends.
_NODES, _DEPTH = 64, 20.0


class ScaledGaussian(Gaussian):
    """x ~ N(μ, (u Λ)⁻¹), with a scale u of each datum that the mixture integrates out."""

    has_latents: ClassVar[bool] = True


class StudentMixture(Mixture):
    """A mixture of `n_components` multivariate Student-t distributions, for data with outliers.

    `n_components` is the number of components. `degrees` are the values that the degrees of freedom ν of a component
    may have, all equally probable a priori; a single number is a known ν. `prior` is the `NormalWishart` of the means
    and the precisions. See `Mixture` for the other arguments.
    """

    pair: ScaledGaussian
    degrees: Float[Array, " j"]

    def __init__(
        self,
        n_components: int,
        *,
        degrees: float | Sequence[float] | ArrayLike = DEGREES,
        prior: Family | None = None,
        concentration: ArrayLike = 1.0,
        weights: str | ArrayLike = "dirichlet",
        init: Any = "mixed",
    ):
        super().__init__(
            n_components, ScaledGaussian(), prior=prior, concentration=concentration, weights=weights, init=init
        )
        grid = np.atleast_1d(np.asarray(parameters(degrees=(degrees, 0))[0]))
        if grid.ndim > 1 or grid.size == 0 or grid[0] <= 0 or (np.diff(grid) <= 0).any():
            raise InvalidParameter(f"degrees must be a positive number, or several that increase, got {degrees!r}")
        self.degrees = on_device(grid)
        self.prior["degrees"] = CategoricalDistribution(logits=np.zeros((self.n_components, len(grid))))

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def words(self) -> Words:
        axes = {**super().words.axes, "degrees": ("component", "degrees_of_freedom")}
        return COMPONENT.of(self.n_components, axes, {"degrees_of_freedom": np.asarray(self.degrees).tolist()})

    @property
    def groups(self) -> tuple[Group, ...]:
        # With the scale integrated out, ν is coupled to the mean and the precision of its component.
        return tuple(name for name in self.prior if name != "degrees"), ("degrees",)

    def no_factors(self) -> str:
        return "the scale of each datum has no conjugate integral together with the precision"

    def log_joint_z(
        self, m: Means, x: Any, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, "n k"]:
        """E log p(x, z = k | θ), the scale integrated out; without degrees among the statistics, every scale is 1."""
        if "degrees" not in m:
            return super().log_joint_z(m, x, powers, key)
        observation, latent = (jnp.reshape(power, (-1, 1, 1)) for power in powers)
        peak, half = self._peak_and_distance(m["components"], x)
        share = m["degrees"].indicator
        drawn: ArrayLike = 0.0
        if key is not None:
            # With a key the derivative in the components is that of a draw of u; in the degrees, of the integral.
            known, half = half, stop_gradient(half)
            a = stop_gradient(latent[..., 0] * 0.5 * (share @ self.degrees)[None])
            shape = jnp.broadcast_to(a + 0.5 * observation[..., 0] * x.shape[1], half.shape)
            scale = jnp.exp(log_gamma_variate(key, shape)) / (a + observation[..., 0] * half)
            drawn = observation[..., 0] * stop_gradient(scale) * (known - half)
        integral = jnp.sum(share[None] * self._log_integral(half, x.shape[1], observation, latent), axis=-1)
        return latent[..., 0] * self.log_weights(m)[None] + observation[..., 0] * peak + integral - drawn

    def _peak_and_distance(self, m: Any, x: Any) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
        """½ E log|Λ| − ½ d log 2π, and ½ E[(x − μ)ᵀ Λ (x − μ)]."""
        peak = m.weights()[None, :, -1] + self.pair.log_base(x)[:, None]  # ½ log|Λ| is the last of the statistics
        return peak, peak - self.pair.log_likelihood(m, x)

    def _log_integral(
        self, half: Float[Array, "n k"], d: int, observation: ArrayLike = 1.0, latent: ArrayLike = 1.0
    ) -> Float[Array, "n k j"]:
        """log ∫ [aᵃ uᵃ e^(−a u)/Γ(a)]^latent [u^(d/2) e^(−u · half)]^observation d log u, for each a = ν/2."""
        a = 0.5 * self.degrees[None, None]
        shape = latent * a + 0.5 * observation * d
        rate = latent * a + observation * half[..., None]
        return latent * (a * jnp.log(a) - log_gamma(a)) + log_gamma(shape) - shape * jnp.log(rate)

    # ---- draws and starts -----------------------------------------------------------------------------------

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Any:
        key_z, key_u, key_x = jax.random.split(key, 3)
        z = jax.random.categorical(key_z, safe_log(self.draw_weights(draws)), shape=(n,))
        a = (0.5 * draws["degrees"] @ self.degrees)[z]
        narrower = jnp.exp(0.5 * (log_gamma_variate(key_u, a) - jnp.log(a)))
        own = jax.tree.map(lambda leaf: leaf[z], draws["components"])
        return own.mean + (self.pair.sample(key_x, own) - own.mean) / narrower[:, None]

    def _label_messages(self, m: Means, data: Data, labels: Any) -> Means:
        """The messages as for Gaussian components, because under a vague prior every datum is far away, with a scale
        close to zero."""
        plain = {name: value for name, value in m.items() if name != "degrees"}
        return super()._label_messages(plain, data, labels) | {"degrees": jax.tree.map(jnp.zeros_like, m["degrees"])}

    # ---- answers ------------------------------------------------------------------------------------------

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """The log predictive density: means and precisions are integrated out in closed form given the scale, scales by
        quadrature.

        The quadrature is a mixture of normalised densities, so that the result integrates to one.
        """
        components = q.blocks["components"]
        shares = safe_log(q.blocks["degrees"].mean().indicator)
        if isinstance(components, Point):
            peak, half = self._peak_and_distance(components.mean(), x)
            each = self._log_integral(half, x.shape[1])
            each = peak + log_mix(jnp.broadcast_to(shares[None], each.shape), each)
        else:
            each = self._averaged(components, shares, x)
        return log_mix(jnp.broadcast_to(self.mean_log_weights(q)[None], each.shape), each)

    def _averaged(self, components: Family, shares: Float[Array, "k j"], x: Any) -> Float[Array, "n k"]:
        """log Σ_j q(ν_k = ν_j) ∫ Gamma(u | ν_j/2, ν_j/2) p(x | u) du, by the trapezoidal rule over log u."""
        a = 0.5 * self.degrees
        reach = jnp.sqrt(2.0 * _DEPTH / a) + _DEPTH / a
        log_u = jnp.linspace(-reach, jnp.log1p(reach), _NODES, axis=-1)
        log_weights = jax.nn.log_softmax(a[:, None] * (log_u - jnp.exp(log_u)), axis=-1)
        density = self._given_scale(components, x)

        def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
            return jnp.logaddexp(total, node[1][None] + density(node[0])), None

        nodes = (log_u.reshape(-1), (shares.T[:, None] + log_weights[..., None]).reshape(-1, self.n_components))
        return jax.lax.scan(add, jnp.full((x.shape[0], self.n_components), -jnp.inf), nodes)[0]

    def _given_scale(self, components: Family, x: Any) -> Callable[[Array], Float[Array, "n k"]]:
        """log p(x | u) as a function of log u, with the mean and the precision integrated out.

        (μ, uΛ) is Normal-Wishart with the pseudo-count v and the scatter S divided by u, so that x has a Student-t
        density. The logarithm of the distance (x − m)ᵀ S⁻¹ (x − m), unlike its square, is always a float.
        """
        assert isinstance(components, NormalWishart)
        factor, white = self.pair.whitened(components, x)
        farthest = jnp.max(jnp.abs(white), axis=-2, keepdims=True)
        relative = jnp.square(white / jnp.where(farthest > 0.0, farthest, 1.0))
        log_distance = (2.0 * jnp.log(farthest[:, 0]) + jnp.log(jnp.sum(relative, axis=-2))).T
        d, dof, count = x.shape[1], components.dof, components.pseudo_count
        constant = log_gamma(0.5 * (dof + 1.0)) - log_gamma(0.5 * (dof + 1.0 - d))
        constant = constant - 0.5 * d * math.log(math.pi) - 0.5 * log_det(factor)

        def density(log_u: Array) -> Float[Array, "n k"]:
            step = log_u - jnp.log1p(jnp.exp(log_u) / count)
            tails = (0.5 * (dof + 1.0))[None] * jax.nn.softplus(log_distance + step[None])
            return (constant + 0.5 * d * step)[None] - tails

        return density

    @eqx.filter_jit
    def sample_predictive(self, key: Key[Array, ""], q: Posterior, n: int) -> Any:
        def one(key: Key[Array, ""]) -> Any:
            key_draw, key_x = jax.random.split(key)
            return self.simulate(key_x, draw_posterior(key_draw, q), 1)[0]

        rows = jax.vmap(one)(jax.random.split(key, n))
        return rows if self.shift is None else rows + self.shift[None]

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        table = super().table(q, data)
        expected = np.asarray(q.blocks["degrees"].mean().indicator @ self.degrees)
        return table | {"degrees": [float(expected[k]) for k in self.order(q, data)]}
