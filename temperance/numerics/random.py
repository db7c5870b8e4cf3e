"""Random variables, in forms that compile fast.

Random bits for a flat array compile three times faster than for an array of several axes, and samplers make many such
calls; otherwise these functions are those of `jax.random`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

_SQRT2 = 2.0**0.5


def uniform(key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape"]:
    """Uniform numbers on (0, 1); zero is excluded, so that the logarithm is finite."""
    flat = jax.random.uniform(key, (math.prod(shape),), minval=jnp.finfo(jnp.float64).tiny, maxval=1.0)
    return flat.reshape(shape)


def normal(key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape"]:
    return jax.random.normal(key, (math.prod(shape),)).reshape(shape)


def log_gamma_variate(key: Key[Array, ""], shape: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """The logarithm of Gamma(shape, 1) variables, exact also where the variable itself would underflow.

    Marsaglia and Tsang (2000) for all elements at once: a round accepts at least 95% of them, and the loop ends
    when every element has been accepted. All of a round's randomness is one block of bits, which compiles several
    times faster than `jax.random.loggamma`.
    """
    shape = jnp.asarray(shape)
    small = shape < 1.0
    a = jnp.where(small, shape + 1.0, shape)  # G(a) = G(a + 1) U^(1/a)
    d = a - 1.0 / 3.0
    c = jax.lax.rsqrt(9.0 * d)
    tiny = jnp.finfo(a.dtype).tiny

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        return ~jnp.all(carry[1])

    def body(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rounds, done, value = carry
        u, w, boost = uniform(jax.random.fold_in(key, rounds), (3, *a.shape))
        x = _SQRT2 * jax.lax.erf_inv(2.0 * u - 1.0)
        root = 1.0 + c * x
        log_v = 3.0 * jnp.log(jnp.maximum(root, tiny))
        accept = (root > 0) & (jnp.log(w) < 0.5 * x * x + d * (1.0 - jnp.exp(log_v) + log_v))
        # The factor U^(1/a) is independent of the acceptance, so the one drawn in the accepted round may be used.
        fresh = jnp.log(d) + log_v + jnp.where(small, jnp.log(boost) / shape, 0.0)
        return rounds + 1, done | accept, jnp.where(done, value, fresh)

    invalid = ~((shape > 0.0) & (shape < jnp.inf))  # no draw would ever be accepted: NaN instead of an endless loop
    start = (jnp.asarray(0), invalid, jnp.where(invalid, jnp.nan, 0.0))
    return jax.lax.while_loop(unfinished, body, start)[2]
