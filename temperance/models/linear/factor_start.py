"""Where factor analysis starts: near the principal axes of the standardised data, found by a few products with them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from .._data import Data, over_blocks

_PRODUCTS = 4  # enough to be near; from there every sweep is a better step
_SHAKE = 0.1


def principal_loadings(
    key: Key[Array, ""], data: Data, scale: Float[Array, " d"], size: int
) -> tuple[Float[Array, "d k"], Float[Array, " d"]]:
    """Loadings in units of `scale`, their columns up to a random factor, and the number of values of each column."""
    key_start, key_shake = jax.random.split(key)

    def block(part: Any, _: Array, axes: Float[Array, "d k"]) -> tuple[Any, tuple[()]]:
        x, weights = part
        seen = ~jnp.isnan(x)
        rows = jnp.where(seen, x, 0.0) / scale[None]
        return (rows.T @ (weights[:, None] * (rows @ axes)), weights @ seen.astype(x.dtype)), ()

    def times(axes: Float[Array, "d k"]) -> tuple[Float[Array, "d k"], Float[Array, " d"]]:
        rows = (data.values, data.weights)
        (product, count), _ = over_blocks(lambda part, number: block(part, number, axes), rows, *data.cuts)
        return product, count

    axes = jnp.linalg.qr(jax.random.normal(key_start, (scale.shape[0], size)))[0]
    axes = jax.lax.fori_loop(0, _PRODUCTS, lambda _, axes: jnp.linalg.qr(times(axes)[0])[0], axes)
    product, count = times(axes)
    variances, turn = jnp.linalg.eigh(axes.T @ product / jnp.maximum(data.total_weight, 1.0))
    variances = jnp.maximum(variances, 1e-3)
    # A principal variance is that of the factor and of the noise, of which half is a guess.
    loadings = axes @ turn * jnp.sqrt(jnp.maximum(variances - 0.5, 0.1 * variances))[None]
    return loadings * jnp.exp(_SHAKE * jax.random.normal(key_shake, loadings.shape)), count
