"""Walks over many data of large mixtures of Gaussians on a CPU, through the kernel of `gaussian_walk_kernel.py`.

The derived walk serves every mixture. If components have thousands of coordinates, its time goes into writing the
products of all pairs of columns to memory. The kernel forms these products in the cache.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..families import Gaussian
from ..models._blocks import Means, Walked, Way
from ..models._data import Data, over_blocks
from ..numerics.latents import sum_out
from . import engine

if TYPE_CHECKING:
    from ..models.mixture import Mixture

# Below these (coordinates of all components, and their products with all data) the kernel has not been measured to be
# faster, and functions that call the host are compiled anew in every process.
_COORDINATES, _WORK = 2**15, 2**27

Statistics = tuple[Float[Array, ""], Float[Array, " k"], Float[Array, "k f"]]


def when(model: Mixture, data: Data, way: Way) -> bool:
    """Whether the kernel can walk over these data, and is worth it."""
    if type(model.pair) is not Gaussian or not isinstance(data.values, jax.Array) or data.values.ndim != 2:
        return False
    n, d = data.values.shape
    coordinates = model.n_components * (d * (d + 3) // 2)
    return (
        coordinates >= _COORDINATES
        and n * coordinates >= _WORK
        and way.heat is None
        and not any(jnp.ndim(power) for power in way.powers)
        and jax.default_backend() == "cpu"
        and not data.is_spread  # several devices already share the work
        and _machine_has_it()
    )


def _machine_has_it() -> bool:
    from ._tiles import VECTOR_BYTES

    return VECTOR_BYTES > 0


@engine("Mixture", "GaussianMixture", "DirichletProcessMixture", name="gaussian walk (numba)", when=when)
def walk(model: Mixture, m: Means, data: Data, way: Way, local: Any = None) -> Walked:
    """Densities as one product of packed quadratic features with the natural parameters."""
    powers = way.powers
    d = data.values.shape[1]
    base = Gaussian().log_base(data.values[:1])

    def ready(m: Means) -> tuple[Float[Array, " k"], Float[Array, "k f"]]:
        flat = jnp.asarray(powers.observation) * m["components"].weights()
        # The statistics that go with `count` and `dof` are 1 for every datum.
        constant = flat[:, d] + flat[:, -1] + powers.observation * base
        weights = jnp.concatenate([flat[:, :d], flat[:, d + 1 : -1]], axis=1)
        return jnp.asarray(powers.latent) * model.log_weights(m) + constant, weights

    (bias, weights), unpack = jax.vjp(ready, m)
    value, *sums = statistics(bias, weights, data.values, data.weights, data.blocks)
    return Walked(value, unpack(tuple(sums))[0], None, {})


def _on_host(bias: Array, weights: Array, x: Array, row_weights: Array, blocks: int) -> Statistics:
    shapes = tuple(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((), bias.shape, weights.shape))
    return jax.pure_callback(_call, shapes, x, row_weights, bias, weights, vmap_method="sequential")


# As `gaussian_walk_kernel.host_statistics`. The kernel has no derivative, so that of `on_device` is used.
statistics = jax.custom_jvp(_on_host, nondiff_argnums=(4,))


@statistics.defjvp
def _(blocks, primals, tangents):  # type: ignore[no-untyped-def]
    return jax.jvp(functools.partial(on_device, blocks=blocks), primals, tangents)


def on_device(bias: Array, weights: Array, x: Array, row_weights: Array, blocks: int) -> Statistics:
    first, second = np.triu_indices(x.shape[1])

    def block(part: Any, _: Array) -> tuple[Any, tuple[()]]:
        x, row_weights = part

        def total(given: tuple[Array, Array]) -> Float[Array, ""]:
            features = jnp.concatenate([x, x[:, first] * x[:, second]], axis=1)
            logits = jnp.matmul(features, given[1].astype(x.dtype).T, precision="highest").astype(jnp.float64)
            return jnp.sum(row_weights * sum_out(logits + given[0][None]))

        value, sums = jax.value_and_grad(total)((bias, weights))
        return (value, *sums), ()

    return over_blocks(block, (x, row_weights), blocks)[0]


def _call(*given: Any) -> tuple[np.ndarray, ...]:
    from .gaussian_walk_kernel import host_statistics

    return host_statistics(*map(np.asarray, given))
