"""Rows over all local devices, by JAX's own sharding: one axis of devices, along which the rows lie."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

_SETTINGS: Any = jax.config  # whose names only the newest JAX declares
_LEAST = 256  # rows a device: with fewer, the devices would wait for each other longer than they work


def one_device() -> contextlib.AbstractContextManager[Any]:
    """For fits made elsewhere: one model is one device's work, there as here, so that the arrays have one shape."""
    return jax.default_device(jax.local_devices()[0])


def devices_for(rows: int) -> int:
    """Over how many devices so many rows are spread: all local ones, or the one that JAX is told to use."""
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
    """In compiled code: these arrays lie over the devices along the axis of their rows."""
    if devices == 1:
        return tree
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, _along(devices, axis)), tree)


def cut(leaf: Array, blocks: int, devices: int) -> Array:
    """(blocks, rows, …): of each block every device has a share, and these rows it has already."""
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
