"""Sums and integrals over latents whose derivative is an expectation, or, with a key, one draw.

The gradient of log Σ_z exp(logits_z) in the logits is the posterior of z; replacing it by a one-hot draw from
that posterior turns the same model function into a sampler. The value is the same either way.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float, Key

from .linalg import cholesky, log_det, solve_vector, transposed_solve_vector
from .special import LOG_2PI


def sum_out(logits: Float[Array, "*n z"], key: Key[Array, ""] | None = None) -> Float[Array, "*n"]:
    """log Σ_z exp(logits); its derivative is softmax(logits), or with a key a one-hot draw from it."""
    # Latents first: a sum over the leading axis reads contiguous memory, twice as fast on a CPU.
    terms = jnp.moveaxis(logits, -1, 0)
    top = stop_gradient(jnp.max(terms, axis=0))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    if key is None:
        return top + jnp.log(jnp.sum(jnp.exp(terms - top[None]), axis=0))
    # By inversion: one uniform per datum is several times cheaper than one Gumbel variable per latent value.
    cumulative = jnp.cumsum(jnp.exp(stop_gradient(terms) - top[None]), axis=0)
    level = jax.random.uniform(key, top.shape, dtype=logits.dtype) * cumulative[-1]
    index = jnp.sum(cumulative <= level[None], axis=0)
    # A masked sum and not a gather: its derivative is the mask, not a scatter.
    drawn = index[None] == jnp.arange(len(terms)).reshape((-1,) + (1,) * index.ndim)
    chosen = jnp.sum(jnp.where(drawn, terms, 0.0), axis=0)
    return top + jnp.log(cumulative[-1]) + (chosen - stop_gradient(chosen))


def integrate_out(
    linear: Float[Array, "*n d"], precision: Float[Array, "*n d d"], key: Key[Array, ""] | None = None
) -> Float[Array, "*n"]:
    """log ∫ exp(hᵀz − ½ zᵀPz) dz; its derivative is (E[z], −½ E[zzᵀ]), or given a key (z, −½ zzᵀ) of one draw."""
    factor = cholesky(precision)
    centre = solve_vector(factor, linear)
    d = linear.shape[-1]
    value = 0.5 * (jnp.sum(centre * linear, axis=-1) - log_det(factor) + d * LOG_2PI)
    if key is None:
        return value
    noise = jax.random.normal(key, linear.shape)
    z = stop_gradient(centre + transposed_solve_vector(factor, noise))
    exponent = jnp.sum(linear * z, axis=-1) - 0.5 * jnp.sum(z * (precision @ z[..., None])[..., 0], axis=-1)
    return stop_gradient(value) + (exponent - stop_gradient(exponent))
