"""Mixtures of experts: which line a target follows depends on where its inputs are.

    z_n ~ π,   (x_n, y_n) ~ N(μ_{z_n}, Λ_{z_n}⁻¹)

so that p(y | x) = Σ_k g_k(x) N(y | a_k + b_k · x, s_k²) with the gates g_k(x) ∝ π_k N(x | μ_k, …): the density of the
inputs decides (Xu, Jordan & Hinton, 1995). Inputs and target together are a Gaussian mixture, so every method and the
evidence are exact where they are for mixtures; the evidence is that of inputs and target together.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from ...data.features import as_inputs, as_inputs_and_targets
from ...errors import InvalidData
from ...families import NormalWishart, Point
from ...families._family import LOG_2PI, Family
from ...numerics.linalg import cholesky, explicit_inverse
from ...numerics.special import log_gamma, safe_log
from .._answers import Regressing
from .._data import Data
from .._model import Posterior
from ..linear import Prediction
from . import Mixture


class MixtureOfExperts(Mixture, Regressing):
    """Lines, each for a region of the inputs; the data are a pair (X, y).

    `prior` is a `tp.NormalWishart` over the columns of X and then y; `concentration`, `init` and `precision` are those
    of `tp.GaussianMixture`. `predict` gives the mean and variance of y at new inputs, `log_predictive` the density of
    inputs and target together, and `responsibilities` the expert behind each pair.
    """

    def __init__(
        self,
        n_components: int,
        *,
        prior: NormalWishart | None = None,
        concentration: ArrayLike = 1.0,
        init: Any = "mixed",
        precision: str = "double",
    ):
        super().__init__(
            n_components, "gaussian", prior=prior, concentration=concentration, init=init, precision=precision
        )

    def _rows(self, data: Any, new: bool = False) -> np.ndarray:
        x, y = as_inputs_and_targets(data)
        return super()._rows(np.column_stack([x, y]), new)

    def predict(self, q: Any, inputs: Any) -> Prediction:
        """Mean and variance of y at each row of X."""
        x, shift = as_inputs(inputs), np.asarray(self.shift)
        if x.shape[1] != len(shift) - 1:
            raise InvalidData(f"X has {x.shape[1]} columns, but the model was fitted to {len(shift) - 1}")
        mean, variance = _predicted(self, q, jnp.asarray(x - shift[:-1]))
        return Prediction(np.asarray(mean) + shift[-1], np.asarray(variance))

    def fitted(self, q: Any, data: Data) -> tuple[np.ndarray, np.ndarray]:
        rows = np.asarray(data.values, dtype=np.float64)[: data.size] + np.asarray(self.shift)
        return rows[:, -1], self.predict(q, rows[:, :-1]).mean


@eqx.filter_jit
def _predicted(model: MixtureOfExperts, q: Any, x: Float[Array, "n d"]) -> tuple[Array, Array]:
    if isinstance(q, Posterior):
        components = q.blocks["components"]
        if isinstance(components, Point):
            location, precision, *_ = components.mode()
            each = _given(location, precision, x)
        else:
            each = _averaged(components, x)
        return _mixed(model.mean_log_weights(q)[None] + each[0], *each[1:])

    def one(draw: tuple[dict[str, Any], Array]) -> tuple[Array, Array, Array]:
        blocks, log_weight = draw
        location, precision, *_ = blocks["components"]
        log_gate, mean, variance = _given(location, precision, x)
        return safe_log(model.draw_weights(blocks))[None] + log_gate + log_weight, mean, variance

    log_gate, mean, variance = jax.lax.map(one, q.flat(), batch_size=16)
    # All draws and experts form one mixture, in which a draw is weighted by its density at x.
    return _mixed(*(jnp.moveaxis(part, 0, 1).reshape((x.shape[0], -1)) for part in (log_gate, mean, variance)))


def _mixed(log_gate: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    share = jax.nn.softmax(log_gate, axis=1)
    centre = jnp.sum(share * mean, axis=1)
    return centre, jnp.sum(share * (variance + jnp.square(mean - centre[:, None])), axis=1)


def _averaged(components: Family, x: Float[Array, "n d"]) -> tuple[Array, Array, Array]:
    """log p(x | k), and the mean and variance of y, of the Student-t density that a Normal-Wishart predicts."""
    assert isinstance(components, NormalWishart)
    d = x.shape[1] + 1
    dof = components.dof - d + 1.0  # of the joint density; its scale matrix is `spread`
    spread = components.scatter * ((components.pseudo_count + 1.0) / (components.pseudo_count * dof))[:, None, None]
    factor, apart, slope, rest = _split(components.location, spread, x)
    square = jnp.sum(jnp.square(factor), axis=-1)
    log_det = jnp.sum(jnp.log(jnp.diagonal(cholesky(spread[:, :-1, :-1]), axis1=-2, axis2=-1)), axis=-1)
    half, p = 0.5 * dof[None], d - 1
    log_gate = log_gamma(half + 0.5 * p) - log_gamma(half) - 0.5 * p * jnp.log(jnp.pi * dof)[None] - log_det[None]
    log_gate = log_gate - (half + 0.5 * p) * jnp.log1p(square / dof[None])
    scale = rest[None] * (dof[None] + square) / (dof[None] + p)
    left = dof + p  # degrees of freedom given x; a variance needs more than two
    variance = jnp.where(left > 2.0, left / jnp.maximum(left - 2.0, 1e-300), jnp.inf)[None] * scale
    return log_gate, components.location[:, -1][None] + jnp.sum(apart * slope[None], axis=-1), variance


def _given(location: Float[Array, "k d1"], precision: Float[Array, "k d1 d1"], x: Float[Array, "n d"]) -> Any:
    """`_averaged` for known means and precisions."""
    spread = explicit_inverse(cholesky(precision))
    factor, apart, slope, rest = _split(location, spread, x)
    log_det = jnp.sum(jnp.log(jnp.diagonal(cholesky(spread[:, :-1, :-1]), axis1=-2, axis2=-1)), axis=-1)
    log_gate = -0.5 * (jnp.sum(jnp.square(factor), axis=-1) + x.shape[1] * LOG_2PI) - log_det[None]
    mean = location[:, -1][None] + jnp.sum(apart * slope[None], axis=-1)
    return log_gate, mean, jnp.broadcast_to(rest[None], mean.shape)


def _split(location: Array, spread: Array, x: Float[Array, "n d"]) -> tuple[Array, Array, Array, Array]:
    """L⁻¹(x − μ_x) with L Lᵀ the inputs' part of the spread, x − μ_x, the slopes of y, and the residual spread of y."""
    factor = cholesky(spread[:, :-1, :-1])
    apart = x[:, None] - location[None, :, :-1]
    white = jax.vmap(lambda one: jax.scipy.linalg.solve_triangular(factor, one[..., None], lower=True)[..., 0])(apart)
    slope = jax.scipy.linalg.cho_solve((factor, True), spread[:, :-1, -1:])[..., 0]
    return white, apart, slope, spread[:, -1, -1] - jnp.sum(slope * spread[:, :-1, -1], axis=-1)
