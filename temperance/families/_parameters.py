"""Checks of a family's ordinary parameters: finite numbers of matching shapes, or an error that says what is wrong.

All of this is NumPy: JAX would compile every operation the first time it meets a shape, which made one
Normal-Wishart take two seconds. A tracer has no value to look at, so inside `jit` the checks are skipped.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..errors import InvalidParameter
from ..numerics.place import on_device

_EVENT = ("a number", "a vector", "a matrix")


def is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def as_float(value: Any) -> Array:
    """A float64 array; a NumPy array is put on the device without a compilation."""
    if isinstance(value, jax.Array) or is_traced(value):
        return jnp.asarray(value, dtype=jnp.float64)
    return on_device(value, np.float64)


def as_arrays(natural: Any) -> Any:
    """Convert a vector of NumPy arrays to JAX arrays, or refuse it where products of finite parameters overflowed."""
    if not all(is_traced(leaf) or np.isfinite(leaf).all() for leaf in jax.tree.leaves(natural)):
        raise InvalidParameter("the parameters are too large together: products of them overflow, so rescale the data")
    return jax.tree.map(as_float, natural)


def parameters(**named: tuple[Any, int]) -> list[Any]:
    """Finite float64 arrays with common batch axes, from `name=(value, number of axes of one event)`."""
    arrays = {name: _numeric(name, value, rank) for name, (value, rank) in named.items()}
    shapes = {name: array.shape[: array.ndim - named[name][1]] for name, array in arrays.items()}
    try:
        batch = np.broadcast_shapes(*shapes.values())
    except ValueError:
        found = ", ".join(f"{shape} of {name}" for name, shape in shapes.items())
        raise InvalidParameter(f"the batch axes {found} do not broadcast together") from None
    return [
        (jnp if is_traced(array) else np).broadcast_to(array, batch + array.shape[len(shapes[name]) :])
        for name, array in arrays.items()
    ]


def _numeric(name: str, value: Any, rank: int) -> Any:
    array: Any
    if is_traced(value):
        array = as_float(value)
    else:
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidParameter(f"{name} must be numeric, got {show(value)}") from None
    if array.ndim < rank:
        raise InvalidParameter(f"{name} must be {_EVENT[rank]} (with leading batch axes), got {show(value)}")
    if not is_traced(array):
        require(np.isfinite(array), f"{name} must be finite", array)
    return array


def require(condition: Any, message: str, found: Any = None) -> None:
    """Raise `InvalidParameter` unless the condition holds everywhere; a traced condition passes.

    `found` is shown after the message; where the condition has its shape, only the first bad element is shown.
    """
    if is_traced(condition) or np.all(condition):
        return
    if found is None:
        raise InvalidParameter(message)
    good, found = np.asarray(condition), np.asarray(found)
    if good.ndim and good.shape == found.shape:
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        raise InvalidParameter(f"{message}, got {found[index]} at index {index}")
    raise InvalidParameter(f"{message}, got {show(found)}")


def require_finite_positive(**named: Any) -> None:
    for name, value in named.items():
        if not is_traced(value):
            value = np.asarray(value)
            require(np.isfinite(value) & (value > 0), f"{name} must be positive and finite", value)


def require_concentration(**named: Any) -> None:
    """Refuse concentrations δ whose natural parameter δ − 1 loses too much to rounding: below 1e-12 it loses δ itself,
    above 1e12 the digits of the counts that are added to it."""
    for name, value in named.items():
        require_finite_positive(**{name: value})
        if not is_traced(value):
            value = np.asarray(value)
            require((value >= 1e-12) & (value <= 1e12), f"{name} must be between 1e-12 and 1e12", value)


def positive_definite(name: str, matrix: Any, dim: int | None = None) -> Any:
    """The matrix, made exactly symmetric, or an error unless it is symmetric and positive definite."""
    wanted = f"a ({dim}, {dim}) matrix" if dim else "a square matrix"
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or (dim and matrix.shape[-1] != dim):
        raise InvalidParameter(f"{name} must be {wanted} (with leading batch axes), got shape {matrix.shape}")
    symmetric = 0.5 * matrix + 0.5 * matrix.swapaxes(-1, -2)
    if not is_traced(matrix):
        matrix = np.asarray(matrix)
        scale = np.max(np.abs(matrix), axis=(-1, -2), keepdims=True, initial=0.0)
        require(np.abs(matrix - matrix.swapaxes(-1, -2)) <= 1e-8 * scale, f"{name} must be symmetric", matrix)
        require(_has_cholesky(np.asarray(symmetric)), f"{name} must be positive definite, got {show(matrix)}")
    return symmetric


def _has_cholesky(matrix: np.ndarray) -> bool:
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    if not np.all(diagonal > 0):
        return False
    # Scaling to unit diagonal first makes the verdict independent of the units of the columns.
    width = np.sqrt(diagonal)
    try:
        np.linalg.cholesky(matrix / width[..., :, None] / width[..., None, :])
    except np.linalg.LinAlgError:
        return False
    return True


def show(value: Any) -> str:
    """A value in one short line, for an error message."""
    text = " ".join(str(value if is_traced(value) else np.asarray(value, dtype=object)).split())
    return text if len(text) <= 80 else text[:77] + "..."
