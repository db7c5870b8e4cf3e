"""Concentrations of the Dirichlet priors of a hidden Markov model, as a user gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InvalidParameter
from ...families._parameters import parameters, require_finite_positive


def as_concentration(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    delta = parameters(**{name: (value, 0)})[0]
    require_finite_positive(**{name: delta})
    if delta.shape not in ((), shape):
        raise InvalidParameter(f"{name} must be one number or an array of shape {shape}, got shape {delta.shape}")
    return np.broadcast_to(delta, shape)


def as_transitions(concentration: Any, sticky: Any, size: int) -> np.ndarray:
    delta = as_concentration("concentration", concentration, (size, size))
    if isinstance(sticky, bool) or not isinstance(sticky, int | float | np.number) or not 0 <= sticky < np.inf:
        raise InvalidParameter(f"sticky must be a finite number of at least 0, got {sticky!r}")
    return delta + float(sticky) * np.eye(size)
