"""Rows over all local devices, by JAX's own sharding: one axis of devices, along which the rows lie."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

_SETTINGS: Any = jax.config  # typed Any, because only the newest JAX declares the names of its settings
_LEAST = 256  # rows per device: with fewer, devices would wait for each other longer than they work


def one_device() -> contextlib.AbstractContextManager[Any]:
    """A context in which fits use one device, so that fits made by other processes have arrays of equal shapes."""
    return jax.default_device(jax.local_devices()[0])


def devices_for(rows: int) -> int:
    """The number of devices over which so many rows are spread: all local devices, or 1 if JAX is told which one to
    use."""
    if _SETTINGS.jax_default_device is not None:
        return 1
    count = jax.local_device_count()
    return count if rows >= count * _LEAST else 1


def put_rows(rows: np.ndarray, devices: int) -> Array:
    """Rows from the host, an equal share of them on each device."""
    if devices == 1:
        return jax.device_put(rows, may_alias=True)
    return jax.device_put(rows, _along(devices, 0))


def keep_spread(tree: Any, devices: int, axis: int = 0) -> Any:
    """State, in compiled code, that these arrays stay spread over the devices along the axis of their rows."""
    if devices == 1:
        return tree
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, _along(devices, axis)), tree)


def cut(leaf: Array, blocks: int, devices: int) -> Array:
    """Cut rows into blocks, (blocks, rows, …). Every device has a share of each block, made of rows that it already
    holds."""
    if devices == 1 or leaf.shape[0] % (blocks * devices):
        return keep_spread(leaf.reshape((blocks, -1, *leaf.shape[1:])), devices, 1)
    shares = jnp.moveaxis(leaf.reshape((devices, blocks, -1, *leaf.shape[1:])), 0, 1)
    return keep_spread(shares.reshape((blocks, -1, *leaf.shape[1:])), devices, 1)


def rejoin(leaf: Array, devices: int) -> Array:
    """The inverse of `cut`."""
    blocks, rows = leaf.shape[:2]
    if devices == 1 or rows % devices:
        return keep_spread(leaf.reshape((-1, *leaf.shape[2:])), devices)
    shares = jnp.moveaxis(leaf.reshape((blocks, devices, -1, *leaf.shape[2:])), 1, 0)
    return keep_spread(shares.reshape((-1, *leaf.shape[2:])), devices)


def _along(devices: int, axis: int) -> NamedSharding:
    mesh = Mesh(np.array(jax.local_devices()[:devices]), ("rows",))
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, "rows"))
