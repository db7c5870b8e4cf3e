"""A temperature for each datum of a Gaussian mixture.

    x_n ~ p(x | z_n, θ)^(1/T_n) / c_n(1/T_n),      c(s) = ∫ p(x | z_n, θ)^s dx ∝ |Λ_{z_n}|^((s − 1)/2) s^(−d/2)

The tempered density is a Gaussian of covariance T Σ: this is a mixture over scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...families import (
    Gaussian,
    IndependentPair,
    KnownCovarianceGaussian,
    Pair,
    ScalarGaussian,
    SphericalGaussian,
)
from ...numerics.linalg import cholesky, log_det
from .._blocks import Means
from .._heat import Heat, expected_power
from .._tempering import Heated

if TYPE_CHECKING:
    from .finite import Mixture

GAUSSIAN = (Gaussian, SphericalGaussian, ScalarGaussian, KnownCovarianceGaussian)


def one_pair(pair: Pair) -> Pair:
    """The pair of one column, where columns are independent."""
    return pair.inner if isinstance(pair, IndependentPair) else pair


def heated_mixture(model: Mixture, m: Means, ready: Means, x: Array, power: Float[Array, " n"], heat: Heat) -> Heated:
    """Powers multiply what each component says of a datum, so one evaluation serves all of them."""
    width = x.shape[1]
    peaks = 0.5 * (_log_precisions(model, m, width) - width * jnp.log(2.0 * jnp.pi)) + model.log_weights(m)
    each, back = jax.vjp(lambda m: model.log_joint_z(m, x), ready)
    # Components first, as in `sum_out`.
    logits = power[None] * each.T
    top = jnp.max(logits, axis=0)
    # One exponential, behind a barrier (sums would take it again), and one walk over components for all sums.
    parts = jax.lax.optimization_barrier(jnp.exp(logits - top[None]))
    norm, joint, peak = _sums(parts, parts * each.T, parts * peaks[:, None])
    joint, peak = joint / norm, peak / norm
    fresh = expected_power(heat, peak - joint, width, power)

    def messages(weights: Float[Array, " n"]) -> Means:
        return back(((weights * fresh / norm)[None] * parts).T)[0]

    return Heated(top + jnp.log(norm), joint, fresh, messages)


def _log_precisions(model: Mixture, m: Means, width: int) -> Float[Array, " k"]:
    """E log|Λ| of each component."""
    pair, components = model.pair, m["components"]
    if isinstance(pair, KnownCovarianceGaussian):
        each = -log_det(cholesky(pair.covariance))
    elif isinstance(pair, IndependentPair):
        each = 2.0 * jnp.sum(components.inner.dof, axis=-1)
    else:
        each = (2.0 * width if isinstance(pair, SphericalGaussian) else 2.0) * components.dof
    return jnp.broadcast_to(each, (model.n_components,))


def _sums(*arrays: Float[Array, "k n"]) -> list[Float[Array, " n"]]:
    """Over the leading axis, all at once."""

    def add(sums: Sequence[Array], others: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(one + other for one, other in zip(sums, others, strict=True))

    return jax.lax.reduce(arrays, tuple(jnp.zeros((), array.dtype) for array in arrays), add, (0,))
