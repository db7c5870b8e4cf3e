"""Variational bounds as cheap witnesses: no estimate of the log evidence may lie below one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import NumericalFailure, UnsupportedMethod
from ...evidence.witnesses import Bound
from ...models import Data, Model
from ...numerics.keys import make_key
from .._method import Run
from ..progress import Progress
from ..run import run as run_loop

STARTS = 8


def search(model: Model, data: Data, restarts: int) -> Run:
    """Restarts of VB from one fixed seed, each with its bound."""
    from ..variational.coordinate import VB

    return run_loop(VB(restarts=restarts), model, data, make_key(0), Progress(False))


def lower_bounds(model: Model, data: Any) -> list[Bound]:
    """The highest bound of a few restarts of VB; none where VB cannot treat the model."""
    try:
        found = np.asarray(search(model, data, STARTS).bounds)
    except (NumericalFailure, UnsupportedMethod):
        return []
    found = found[np.isfinite(found)]
    return [("the bound of VB", float(found.max()))] if len(found) else []
