"""What users give as the scales, variances and precisions of linear Gaussian models, checked."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...errors import InvalidParameter
from ...families import Gamma
from ...families._family import as_float
from ...families._parameters import require_finite_positive


def finite(name: str, value: Any) -> Array:
    """One number or a vector of them."""
    try:
        array = as_float(value)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} must be a number or a vector of them, got {value!r}") from None
    if array.ndim > 1 or not np.isfinite(np.asarray(array)).all():
        raise InvalidParameter(f"{name} must be a finite number or a vector of them, got {value!r}")
    return array


def positive(name: str, value: Any) -> Array:
    array = finite(name, value)
    require_finite_positive(**{name: array})
    return array


def gamma_or_positive(name: str, value: Any) -> Gamma | Array:
    """A prior over a precision, or a known number."""
    return value if isinstance(value, Gamma) else positive(name, value)


def each(name: str, value: Array, size: int) -> Array:
    """One for each of `size` columns, states or factors."""
    if value.shape not in ((), (size,)):
        raise InvalidParameter(f"{name} must be one number or {size} of them, got shape {value.shape}")
    return jnp.broadcast_to(value, (size,))


def stack(name: str, family: Gamma, size: int) -> Gamma:
    """The same of a prior."""
    if family.batch_shape not in ((), (size,)):
        raise InvalidParameter(f"{name} must be one Gamma or {size} of them, got {family.batch_shape}")
    return Gamma(jnp.broadcast_to(family.shape, (size,)), jnp.broadcast_to(family.rate, (size,)))
